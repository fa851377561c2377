"""Who is asked, when, and for how much: what that takes must be expected to come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import eq

from foretoken.speculation.acceptance import Acceptance
from foretoken.speculation.base import Draft, DraftAsk
from foretoken.speculation.certainty import Certainty
from foretoken.speculation.ledger import BackOff
from foretoken.speculation.pause import SHARE
from foretoken.speculation.price import Prices
from foretoken.speculation.request_record import RequestRecord, Requests
from foretoken.speculation.sizing import Sizing
from foretoken.types import SeqId

SMALL_BET = 3
"""A slot that has lost its stake may win it back with this many rows, or with half as many as were right in a row
since, verified or not."""
_WORTHWHILE = 1.8
"""So many times as fast as plain steps, if all of them are right, are the shortest drafts that may be bet freely."""
_PROVEN_SURE = 0.98
"""How sure a drafter that takes long is thought to be when it is decided how much to ask of it."""
_GOOD_OFFER = 0.7
"""Where a drafter's first token is at least this likely to be right, none whose guesses take long is asked."""
_LONG = 32
"""Where a drafter has been right so many times in a row and offers as many more, nobody else is asked."""
_GAP = 3
"""Vain asks of the others in a row, in a text of which they foresaw something, before one that takes long is read into
it: where a copy stumbles it is soon on its feet again."""
_REINVESTED = 0.2
"""The part of what drafts save that may be spent on asking in vain for more of them."""
_MOST_REINVESTED = 0.02
"""And the part of all time at most."""
_COMPANY_WIDTHS = (4, 8, 16, 32)
"""Where only some slots have drafts, it is by such steps that they are worth it, or not."""
_BEFORE_STEPS = 16.0
"""What was saved in requests before counts like that of so many plain steps of this one."""
_PROOF = 1.1
"""How many times as fast as plain decoding they must have made it."""


class Asking:
    """What is known of drafters and requests, and whom that makes worth asking."""

    def __init__(self, sizing: Sizing, n_tries: int | None) -> None:
        self.cost = sizing.cost
        self._sizing = sizing
        self.acceptance = Acceptance()
        self._requests = Requests()
        self._prices = Prices()
        self._n_tries = n_tries
        self._passable: dict[tuple[str, int], bool] = {}
        """By drafter and number of slots, what `_could_pass` says until a request is over: it is asked for often."""
        self._payable: dict[tuple[int, int], bool] = {}
        """By the number of slots that are asked for and of all, likewise what `_could_pay` says."""

    def believe(self, source: str) -> None:
        self.acceptance.calibrated.add(source)

    def demand_proof(self, source: str) -> None:
        self._prices.demand_proof(source)

    def settled(self, ask: DraftAsk, offers: Sequence[Draft]) -> bool:
        return any(
            len(offer) >= min(_LONG, ask.n_max) and self.acceptance.streak(ask.seq, offer.source) >= _LONG
            for offer in offers
        )

    def too_dear(self, ask: DraftAsk, source: str, offers: Sequence[Draft]) -> bool:
        request = self._requests[ask.seq]
        if not self._trusts(request, source) or self._others_suffice(ask, source, offers):
            return True
        if not self._pays_in_company(source):
            return True
        if not self._prices.affordable(source, request.ledger, self._ms(1)):
            if self._prices.can_prove(source):
                request.doubt(source)
            return True
        return self._back_off(ask.seq, source).resting()

    def doubts(self, ask: DraftAsk, source: str, offers: Sequence[Draft]) -> int:
        request = self._requests[ask.seq]
        may_prove = (
            self._provable(request, source)
            and self._may_prove(request, source, request.provable_at(source))
            and not self._others_suffice(ask, source, offers)
        )
        return request.n_to_prove if may_prove else 0

    def proved(self, ask: DraftAsk, source: str, guesses: Draft, ms: float) -> None:
        said = ask.tokens[len(ask.tokens) - len(guesses) :]
        share = sum(map(eq, guesses.tokens, said)) / max(1, len(guesses))
        request = self._requests[ask.seq]
        # Where the model was sure of all of them, one that was not guessed says less.
        chance = share if request.certainty is None else (share + _PROVEN_SURE) / 2
        self.acceptance.look_back(ask.seq, guesses, said)
        passed = max(self._speed(source, width, chance) for width in self.cost.curve.widths) >= _PROOF
        self._prices.proved(source, passed, ms)
        if passed:
            request.trust(source)
        else:
            request.doubt(source)
            request.n_failed[source] = request.n_failed.get(source, 0) + 1

    def appetite(self, ask: DraftAsk, source: str) -> int:
        plain_ms = self._ms(1)
        ledger = self._requests[ask.seq].ledger
        risk = self.acceptance.risk(ask.seq, source, _PROVEN_SURE)
        bearable_ms = max(self._prices.purse_ms(source, ledger), ledger.stake_ms(plain_ms) / max(risk, 1e-3))
        affordable = [width for width in self.cost.curve.widths if self._ms(width) - plain_ms <= bearable_ms]
        chance = self.acceptance.accuracy(ask.seq, source, _PROVEN_SURE)
        best = max(affordable, key=lambda width: self._speed(source, width, chance), default=1)
        return max(self._small_bet(), best - ask.n_pending)

    def _rests(self, ask: DraftAsk, n_steps: int) -> bool:
        """Whether nobody need be asked for the next step, not even for the sake of one in doubt."""
        request = self._requests[ask.seq]
        pause = request.pause
        if not (pause.lasts or pause.may_go_on):
            return False
        if any(self._may_prove(request, source, request.proof_due_at(source)) for source in self._doubted(request)):
            return False
        # Whoever takes long and is trusted needs no text that repeats itself.
        alone = len(self._requests) == 1
        if not pause.lasts and not any(request.trusts.values()) and not request.repeats(ask.tokens, alone):
            pause.go_on(alone)
            if not alone:
                pause.align(n_steps)
        return pause.lasts

    def _rest_of(self, request: RequestRecord) -> int:
        """Plain steps in which there is nothing to do for a slot, nor to listen to."""
        n_steps = request.pause.wait
        alone = len(self._requests) == 1
        if n_steps > 1:
            for source in self._doubted(request):
                at = request.proof_due_at(source)
                if self._vouched_for(source):
                    n_steps = min(n_steps, at - request.n_said)
                elif alone:
                    # To listen takes as long as it does for all slots together: others do not wait for it.
                    n_steps = min(n_steps, request.looks_at(at) - request.n_said)
        return max(0, n_steps)

    def _listen(self, ask: DraftAsk) -> None:
        """Where a drafter in doubt might prove itself, hear how sure the model was of its last token."""
        request = self._requests[ask.seq]
        certainty = request.certainty or Certainty()
        if ask.certainty is None or request.n_said < certainty.listens_at:
            return
        if request.certainty is not None and not any(self._doubted(request)):
            return
        if (p := ask.certainty()) is not None:
            request.certainty = certainty
            certainty.hear(p, request.n_said)

    def _doubted(self, request: RequestRecord) -> Iterator[str]:
        """Drafters in doubt that could prove themselves."""
        return (source for source in self._prices.provable if self._provable(request, source))

    def _provable(self, request: RequestRecord, source: str) -> bool:
        return (
            # Others would wait for a proof: it must be likely to succeed, and there must be something to win.
            (len(self._requests) == 1 or (request.certainty is not None and self._could_pass(source)))
            and not self._trusts(request, source)
            and self._prices.pays_for_proof(source, request.ledger, len(self._requests))
        )

    def _could_pass(self, source: str) -> bool:
        """Whether drafts of all slots would win what is asked of a proof, if this drafter were hardly ever wrong."""
        key = source, len(self._requests)
        if key not in self._passable:
            best = max(self._speed(source, width, _PROVEN_SURE) for width in _COMPANY_WIDTHS)
            self._passable[key] = best >= _PROOF
        return self._passable[key]

    def _may_prove(self, request: RequestRecord, source: str, at: int) -> bool:
        """Whether a proof that is due at such a length of the answer is to be had, and is likely to succeed."""
        return request.n_said >= at and (request.is_sure or self._vouched_for(source))

    def _vouched_for(self, source: str) -> bool:
        """Whether a drafter in doubt has proved itself in another slot: drafts of several are better than of one."""
        return any(request.trusts.get(source) for request in self._requests.values())

    def _pays_in_company(self, source: str) -> bool:
        """Whether drafts of those slots that trust it would win more than the others lose by waiting for them.

        Of whom another drafter has been right lately has a draft, too.
        """
        n_waiting = sum(
            request.trusts.get(source) is False and self.acceptance.longest_streak(seq) < SMALL_BET
            for seq, request in self._requests.items()
        )
        return n_waiting == 0 or any(
            self._speed(source, width, _PROVEN_SURE, n_waiting) >= _PROOF for width in _COMPANY_WIDTHS
        )

    def _most_to_win(self) -> float:
        """How many times as fast as plain steps those are in which every slot has a draft and all of them are right."""
        return max(width * self._ms(1) / self._ms(width) for width in _COMPANY_WIDTHS)

    def _could_pay(self, n_asked: int) -> bool:
        """Whether drafts of so many slots, all of them right, would win more than the others lose by waiting."""
        n_slots = max(n_asked, len(self._requests))
        key = n_asked, n_slots
        if key not in self._payable:
            plain_ms = self._ms(1)
            times = [(width, self._ms(width, n_slots - n_asked)) for width in (2, *_COMPANY_WIDTHS)]
            self._payable[key] = any(
                width ** (n_asked / n_slots) * plain_ms > ms
                for width, ms in times
                if n_asked == n_slots or not self._sizing.too_long(ms, plain_ms)
            )
        return self._payable[key]

    def _trusts(self, request: RequestRecord, source: str) -> bool:
        trusts = request.trusts
        if source not in trusts:
            trusts[source] = self._prices.trusts(source, alone=len(self._requests) == 1)
        return trusts[source]

    def _others_suffice(self, ask: DraftAsk, source: str, offers: Sequence[Draft]) -> bool:
        """Whether what others offer is good, or this is a text of which they foresaw something lately."""
        # It is better than theirs where it has been right more often in this text than theirs are likely to be.
        good = max(_GOOD_OFFER, self.acceptance.accuracy(ask.seq, source, _GOOD_OFFER))
        if any(self.acceptance.first(ask.seq, offer) >= good for offer in offers):
            return True
        request = self._requests[ask.seq]
        copied = request.ledger.won_ms > 0 and request.pause.n_vain < _GAP
        return copied and source not in request.ledger.by_drafter

    def _small_bet(self) -> int:
        """The shortest draft, of three tokens or more, that is worth its while if all of it is right."""
        curve = self.cost.curve
        worthwhile = (w for w in curve.widths if w > SMALL_BET and w * curve(1) >= _WORTHWHILE * curve(w))
        return next(worthwhile, SMALL_BET + 1) - 1

    def _speed(self, source: str, width: int, chance: float, n_waiting: int = 0) -> float:
        """How many times as fast as plain decoding such steps are, if each token it drafts has this chance.

        Other slots have drafts like it, and their tokens are drafted together, but for some that wait meanwhile.
        """
        n_slots = max(1, len(self._requests))
        drafting_ms = width * self._prices.token_steps(source) * self.cost.curve(1)
        n_tokens = sum(chance**n for n in range(width))
        overhead_ms = self._sizing.overhead_ms(1, n_tokens - 1.0, 1.0 - chance ** (width - 1), n_slots)
        ms = self._ms(width, n_waiting) + n_slots * self._sizing.ask_ms + drafting_ms + overhead_ms
        return float(n_tokens ** ((n_slots - n_waiting) / n_slots)) * self._ms(1) / ms

    def _ms(self, width: int, n_waiting: int = 0) -> float:
        """What a step takes in which every slot has so many rows, but for some with one."""
        return self.cost((width,) * (max(1, len(self._requests)) - n_waiting) + (1,) * n_waiting)

    def _share_for_asking(self, seq: SeqId) -> float:
        """What asking in vain may take of the time: part of what drafts save of it, here and in requests before."""
        ledger, before_ms = self._requests[seq].ledger, _BEFORE_STEPS * self.cost.curve(1)
        saved_ms = ledger.balance_ms + self._prices.saved_share() * before_ms
        share = _REINVESTED * saved_ms / (ledger.elapsed_ms + before_ms)
        return max(SHARE, min(_MOST_REINVESTED, share))

    def _back_off(self, seq: SeqId, source: str) -> BackOff:
        return self._requests[seq].rests.setdefault(source, BackOff(self._n_tries))
