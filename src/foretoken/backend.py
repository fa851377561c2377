"""The one seam between the engine and a model: libllama behind it, or a stand-in in tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from foretoken.types import SamplingParams, SeqId, Token

Place = Literal["device", "host"]
Part = Literal["cells", "state"]
"""Of what a sequence holds: its attention cells, or its recurrent state."""


class Span(msgspec.Struct, frozen=True):
    """Consecutive tokens of one sequence inside a batch; the last `n_outputs` rows get logits."""

    seq: SeqId
    start: int
    tokens: Sequence[Token]
    n_outputs: int
    first_row: int

    @property
    def outputs(self) -> range:
        """The batch rows that were asked for logits."""
        end = self.first_row + len(self.tokens)
        return range(end - self.n_outputs, end)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A sequence's recurrent state as `Backend.save` returned it."""

    place: Place
    data: bytes | memoryview | NDArray[np.uint8]


class Among(Protocol):
    """The tokens that may be chosen; found out only as far as somebody asks."""

    def allows(self, token: Token) -> bool: ...
    def holds(self, tokens: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of these tokens may be chosen."""
        ...

    @property
    def n_most(self) -> int:
        """There are no more of them than these; that is known before how many there are."""
        ...

    @property
    def tokens(self) -> NDArray[np.intp]:
        """All of them, in order."""
        ...


class Sampler(Protocol):
    """Chooses tokens; every call advances its state, so it is called once per emitted token."""

    def sample(self, row: int, among: Among | None = None) -> Token:
        """The next token, out of the whole vocabulary or `among` these tokens."""
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """A model's context: it decodes spans, and its memory can be told to give tokens back."""

    @property
    def n_vocab(self) -> int: ...
    @property
    def n_ctx(self) -> int: ...
    @property
    def n_batch(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def n_sequences(self) -> int: ...
    @property
    def n_rollback(self) -> int: ...
    @property
    def unified(self) -> bool: ...
    @property
    def recurrent(self) -> bool: ...
    @property
    def attention(self) -> bool: ...
    @property
    def cells_complete(self) -> bool:
        """Whether exported cells may be cut: those of a sliding window lack what lies before it."""
        ...

    @property
    def can_shift(self) -> bool: ...
    @property
    def returns_early(self) -> bool:
        """Whether `decode` only starts a device on the batch; whoever reads the first row waits for it."""
        ...

    def decode(self, spans: Sequence[Span]) -> None: ...
    def logits(self, row: int) -> NDArray[np.float32]: ...
    def certainty(self, row: int) -> float | None:
        """How likely a row's best token is beside the second; None where that lies on a device."""
        ...

    def sampler(self, params: SamplingParams, history: Sequence[Token]) -> Sampler: ...

    def expect(self, seq: SeqId, n_best: int | None) -> None:
        """A request begins: of its rows only so many best tokens will be asked for, or (None) anything may be."""
        ...

    def length(self, seq: SeqId) -> int:
        """How many tokens the memory holds for a sequence."""
        ...

    def floor(self, seq: SeqId) -> int:
        """The shortest text, but for none, that a sequence can be cut to: a restored one may lack what a sliding window
        no longer saw."""
        ...

    def remove(self, seq: SeqId, start: int, end: int | None = None) -> bool:
        """Forget positions [start, end); False when the memory cannot, and then nothing changed."""
        ...

    def shift(self, seq: SeqId, start: int, by: int) -> None:
        """Move the positions from `start` on by `by` (attention-only memory)."""
        ...

    def share_state(self, source: SeqId, target: SeqId) -> None:
        """Let `target` hold the recurrent state of `source`; the next decode of either copies it."""
        ...

    def clone(self, source: SeqId, target: SeqId) -> None:
        """Let `target`, which must be empty, hold everything that `source` holds."""
        ...

    def save(self, seq: SeqId, place: Place) -> Snapshot: ...
    def load(self, seq: SeqId, snapshot: Snapshot) -> None: ...

    def export_size(self, seq: SeqId, part: Part) -> int:
        """Bytes that `export` would need at most."""
        ...

    def export(self, seq: SeqId, part: Part) -> NDArray[np.uint8]:
        """A copy of one part on the host, good for any sequence of any context like this one."""
        ...

    def restore(self, seq: SeqId, cells: NDArray[np.uint8] | None, state: NDArray[np.uint8] | None) -> None:
        """Let a sequence hold what was exported; without cells it keeps its own, and with them it must be empty."""
        ...

    def held(self, seq: SeqId) -> list[int] | None:
        """Every attention position held for a sequence, duplicates included; None without attention."""
        ...
