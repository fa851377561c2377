"""What each drafter offered, what came of it, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretoken.speculation.base import Draft
from foretoken.types import DrafterUsage, Token


@dataclass(slots=True)
class Calls:
    """How often one method of a drafter ran, and for how long."""

    n: int = 0
    ms: float = 0.0

    def add(self, ms: float) -> None:
        self.n += 1
        self.ms += ms


@dataclass(slots=True)
class DrafterStatistics:
    """Counters of one drafter, for one request or for all of them.

    They add up: offered = verified + unverified, verified = accepted + rejected.
    """

    begin: Calls = field(default_factory=Calls)
    draft: Calls = field(default_factory=Calls)
    accept: Calls = field(default_factory=Calls)
    read: Calls = field(default_factory=Calls)
    drafts_offered: int = 0
    drafts_verified: int = 0
    drafts_accepted: int = 0
    """Verified drafts of which at least one token was right."""
    offered: int = 0
    verified: int = 0
    accepted: int = 0
    missed: int = 0
    """Tokens offered but not verified that would have been right."""
    failures: int = 0
    verified_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)

    @property
    def unverified(self) -> int:
        return self.offered - self.verified

    @property
    def rejected(self) -> int:
        return self.verified - self.accepted

    @property
    def mean_accepted(self) -> float:
        """Right tokens per verified draft."""
        return self.accepted / self.drafts_verified if self.drafts_verified else 0.0

    def offer(self, draft: Draft) -> None:
        self.drafts_offered += 1
        self.offered += len(draft)

    def judge(self, n_verified: int, n_accepted: int) -> None:
        self.drafts_verified += 1
        self.drafts_accepted += n_accepted > 0
        self.verified += n_verified
        self.accepted += n_accepted
        for counts, n in ((self.verified_at, n_verified), (self.accepted_at, n_accepted)):
            counts.extend([0] * (n - len(counts)))
            for position in range(n):
                counts[position] += 1

    def usage(self) -> DrafterUsage:
        """The counters as they are now."""
        return DrafterUsage(
            self.drafts_offered,
            self.drafts_verified,
            self.drafts_accepted,
            self.offered,
            self.verified,
            self.accepted,
            self.missed,
            self.failures,
            tuple(self.accepted_at),
            self.begin.n,
            self.begin.ms,
            self.draft.n,
            self.draft.ms,
            self.accept.n,
            self.accept.ms,
        )


def line(name: str, usage: DrafterUsage) -> str:
    """One line in the style of llama.cpp's servers."""
    mean = usage.accepted / usage.drafts_verified if usage.drafts_verified else 0.0
    return (
        f"statistics {name}: #calls(b,g,a) = {usage.begin_calls} {usage.draft_calls} {usage.accept_calls}, "
        f"#gen drafts = {usage.drafts_offered}, #acc drafts = {usage.drafts_accepted}, "
        f"#gen tokens = {usage.offered}, #ver tokens = {usage.verified}, #acc tokens = {usage.accepted}, "
        f"#missed tokens = {usage.missed}, mean acc len = {mean:.2f}, "
        f"dur(b,g,a) = {usage.begin_ms:.3f}, {usage.draft_ms:.3f}, {usage.accept_ms:.3f} ms"
    )


@dataclass(slots=True)
class _Claim:
    """An offer whose unverified part is still being compared with what the model goes on to say."""

    statistics: tuple[DrafterStatistics, ...]
    tokens: tuple[Token, ...]
    n_verified: int
    n_right: int = 0


class Claims:
    """Finds the tokens that were offered, not verified, and would have been right.

    One claim per drafter is followed at a time: while it lasts, further offers speak of the same tokens.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Claim] = {}

    def __len__(self) -> int:
        """How many are still being followed."""
        return len(self._open)

    def add(self, statistics: tuple[DrafterStatistics, ...], draft: Draft, n_verified: int) -> None:
        if len(draft) > n_verified and draft.source not in self._open:
            self._open[draft.source] = _Claim(statistics, draft.tokens, n_verified)

    def settle(self, emitted: tuple[Token, ...]) -> None:
        """Compare every open claim with the tokens the model has just said."""
        self._open = {source: claim for source, claim in self._open.items() if self._still_open(claim, emitted)}

    @staticmethod
    def _still_open(claim: _Claim, emitted: tuple[Token, ...]) -> bool:
        for token in emitted:
            if claim.n_right == len(claim.tokens) or claim.tokens[claim.n_right] != token:
                return False
            if claim.n_right >= claim.n_verified:
                for statistics in claim.statistics:
                    statistics.missed += 1
            claim.n_right += 1
        return claim.n_right < len(claim.tokens)
