"""A drafter made to break things: right for a while, then wrong, at lengths nobody chose."""

from __future__ import annotations

import random

from foretoken.bench.oracle import OracleDrafter
from foretoken.speculation.base import Draft, DraftAsk, Verdict
from foretoken.types import SeqId

NAME = "saboteur"
_MAX_LENGTH = 14
_RIGHT = 0.85


class Saboteur(OracleDrafter):
    """Drafts the recorded answer with wrong tokens strewn in, so that drafts are cut everywhere on any model."""

    name = NAME

    def __init__(self, n_vocab: int) -> None:
        super().__init__()
        self._n_vocab = n_vocab
        self._random = random.Random(0)

    def accept(self, seq: SeqId, verdict: Verdict) -> None:
        # Where a draft was wrong says nothing about the recording.
        pass

    def _draft(self, ask: DraftAsk) -> Draft:
        known = super()._draft(ask).cut(self._random.randint(0, _MAX_LENGTH))
        tokens = tuple(
            token if self._random.random() < _RIGHT else self._random.randrange(self._n_vocab) for token in known.tokens
        )
        return Draft(tokens, (_RIGHT,) * len(tokens), self.name)
