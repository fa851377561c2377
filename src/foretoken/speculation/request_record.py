"""What the planner keeps of one request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from foretoken.speculation.certainty import ENOUGH, Certainty
from foretoken.speculation.familiar import Familiar
from foretoken.speculation.ledger import BackOff, Ledger
from foretoken.speculation.pause import Pause
from foretoken.types import SeqId, Token

_MOST_DOUBLINGS = 6
PROOF_TOKENS = 16
"""Tokens that a drafter in doubt must guess in hindsight, where nobody knows how sure the model was of them."""


@dataclass(slots=True)
class RequestRecord:
    """The request in a slot: what drafts saved it, who waits, and who is trusted."""

    ledger: Ledger = field(default_factory=Ledger)
    pause: Pause = field(default_factory=Pause)
    rests: dict[str, BackOff] = field(default_factory=dict)
    trusts: dict[str, bool] = field(default_factory=dict)
    """Drafters that take long, and whether they may be asked without further proof."""
    doubted: dict[str, int] = field(default_factory=dict)
    """How many tokens had been said when one of them was last found wanting."""
    n_failed: dict[str, int] = field(default_factory=dict)
    """How many proofs in a row each of them has failed here."""
    n_said: int = 0
    """Tokens of the answer."""
    asked_at: int = -1
    """How many of them there were when somebody was last asked in vain."""
    familiar: Familiar | None = None
    """What stood in its text before, once that matters."""
    certainty: Certainty | None = None
    """How sure the model is of them, where that can be told."""

    def repeats(self, tokens: Sequence[Token], alone: bool) -> bool:
        """Whether the end of its text stood in it before, and goes on doing so."""
        if self.familiar is None:
            self.familiar = Familiar(len(tokens))
        return self.familiar.read(tokens) >= self.pause.hint(alone)

    @property
    def n_to_prove(self) -> int:
        """Tokens that a drafter in doubt must guess in hindsight."""
        return PROOF_TOKENS if self.certainty is None else ENOUGH

    def provable_at(self, source: str) -> int:
        """How long the answer must be for a drafter in doubt to prove itself: by some tokens more, twice as many after
        every proof that it failed."""
        return self.doubted.get(source, 0) + (self.n_to_prove << min(self.n_failed.get(source, 0), _MOST_DOUBLINGS))

    def proof_due_at(self, source: str) -> int:
        """When to ask for its sake: once it can prove itself, and if nobody wanted that, some tokens later again."""
        at = self.provable_at(source)
        return at if at > self.asked_at else self.asked_at + max(self.n_to_prove, self.pause.length)

    @property
    def is_sure(self) -> bool:
        """Whether the model was sure of what it said last, as far as that can be told."""
        return self.certainty is None or self.certainty.enough

    def looks_at(self, at: int) -> int:
        """When to look whether it is to be had: before, where it depends on how sure the model was until then."""
        return at if self.certainty is None else max(self.certainty.listens_at, at - ENOUGH)

    def put_off(self, step: int) -> None:
        """Others would wait longer than its drafts could win: nobody is asked, nor proves anything, for a while."""
        self.asked_at = self.n_said
        self.pause.put_off(step)

    def trust(self, source: str) -> None:
        """It has proved that it would have guessed what was said: what it lost before is no reason not to ask it."""
        self.trusts[source] = True
        self.n_failed.pop(source, None)
        self.ledger.forgive(source)
        self.rests.pop(source, None)
        self.pause.end()

    def doubt(self, source: str) -> None:
        """It must prove anew that it would guess what is said from now on."""
        self.trusts[source] = False
        self.doubted[source] = self.n_said
        if self.certainty is not None:
            self.certainty.begin_again(self.n_said)


class Requests(dict[SeqId, RequestRecord]):
    """The requests in the slots, each known from when it is first asked about; the next learn how those before went."""

    def __init__(self) -> None:
        super().__init__()
        self._n_in_vain = 0
        """Requests in a row to which no draft was of use."""

    def __missing__(self, seq: SeqId) -> RequestRecord:
        found = self[seq] = RequestRecord(pause=Pause(self._n_in_vain))
        return found

    def know(self, seqs: Iterable[SeqId]) -> None:
        """There are requests in these slots: whoever asks how many share a step is to count all of them."""
        for seq in seqs:
            self[seq]

    def over(self, seq: SeqId) -> RequestRecord | None:
        """Forget the request in a slot; returns what was known of it, if anything."""
        request = self.pop(seq, None)
        if request is not None:
            self._n_in_vain = 0 if request.ledger.won_ms > 0 else self._n_in_vain + 1
        return request
