"""What the prediction layer is given to read: the end of the text in hand, never the states of another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Span
from foretoken.speculation.base import DraftAsk
from foretoken.speculation.drafters.mtp import MtpDrafter

N_EMBD = 4


@dataclass
class Layer:
    """Remembers what it was asked to read; its guess is always token 1."""

    n_ctx: int = 512
    n_batch: int = 512
    n_embd: int = N_EMBD
    read: list[tuple[int, int]] = field(default_factory=list)

    def target_hidden(self, span: Span) -> NDArray[np.float32]:
        return np.zeros((len(span.tokens), N_EMBD), np.float32)

    def hidden(self, row: int) -> NDArray[np.float32]:
        return np.zeros(N_EMBD, np.float32)

    def decode_after(self, spans: Sequence[Span], hidden: NDArray[np.float32]) -> None:
        self.read += [(span.start, len(span.tokens)) for span in spans]

    def logits(self, row: int) -> NDArray[np.float32]:
        return np.array([0, 9, 0], np.float32)

    def length(self, seq: int) -> int:
        return 0

    def remove(self, seq: int, start: int, end: int | None = None) -> bool:
        return True


class Lender:
    n_slots = 1

    def __init__(self, layer: Layer) -> None:
        self.layer = layer

    def mtp(self) -> Layer:
        return self.layer


def drafter(layer: Layer) -> MtpDrafter:
    return MtpDrafter(Lender(layer), n_max=1, window=8)  # type: ignore[arg-type]


def test_only_the_end_of_a_long_prompt_is_read_and_nothing_twice() -> None:
    layer = Layer()
    mtp = drafter(layer)
    prompt = list(range(100))
    mtp.begin(0, prompt, "")
    mtp.read([Span(0, 0, prompt, 1, 0)])
    assert mtp.draft([DraftAsk(0, [*prompt, 7], 4)])[0].tokens == (1,)
    mtp.read([Span(0, 100, [7, 1], 2, 0)])
    mtp.draft([DraftAsk(0, [*prompt, 7, 1, 5], 4)])
    assert layer.read == [(93, 8), (101, 2)]


def test_states_of_another_text_are_not_used() -> None:
    layer = Layer()
    mtp = drafter(layer)
    mtp.begin(0, list(range(50)), "")
    mtp.read([Span(0, 0, list(range(50)), 1, 0)])
    mtp.draft([DraftAsk(0, [*range(50), 7], 4)])
    # Another text whose beginning came from elsewhere: the model decodes only its last token.
    other = list(range(200, 250))
    mtp.begin(0, other, "")
    mtp.read([Span(0, 49, other[49:], 1, 0)])
    layer.read.clear()
    mtp.draft([DraftAsk(0, [*other, 7], 4)])
    assert layer.read == [(50, 1)]
