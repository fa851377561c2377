"""A stand-in for a model whose state is a rolling hash: any error in taking tokens back corrupts all that follows.

Its memory keeps libllama's rules: a recurrent state cannot be trimmed, attention cells can be duplicated by mistake,
states are shared until written.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Among, Part, Place, Snapshot, Span
from foretoken.errors import DecodeError
from foretoken.types import SamplingParams, SeqId, Token

N_VOCAB = 24
_MASK = (1 << 61) - 1


def _mix(*values: int) -> int:
    return hash(values) & _MASK


@lru_cache(maxsize=1 << 16)
def _row(state: int) -> NDArray[np.float32]:
    rng = random.Random(state)
    return np.array([rng.gauss(0, 1) for _ in range(N_VOCAB)], np.float32)


def expected(
    tokens: Sequence[Token], recurrent: bool = True, attention: bool = True, window: int | None = None
) -> NDArray[np.float32]:
    """The logits after these tokens, from the definition alone."""
    state = 0
    cells = 0
    for position, token in enumerate(tokens):
        state = _mix(state, token) if recurrent else 0
        seen = attention and (window is None or position >= len(tokens) - window)
        cells = (cells + _mix(position, token)) & _MASK if seen else 0
    return _row(_mix(state, cells))


@dataclass
class _Cell:
    position: int
    token: Token
    seqs: set[SeqId]


@dataclass
class _State:
    value: int = 0
    length: int = 0
    history: list[tuple[int, int]] = field(default_factory=list)
    """States after each token of the latest batch, for the ring."""


class ToyBackend:
    """Implements `Backend`."""

    def __init__(
        self,
        n_sequences: int = 1,
        *,
        recurrent: bool = True,
        attention: bool = True,
        n_ctx: int = 256,
        n_batch: int = 64,
        n_outputs: int = 64,
        n_rollback: int = 0,
        unified: bool = True,
        window: int | None = None,
        returns_early: bool = False,
    ) -> None:
        self.n_vocab = N_VOCAB
        self.returns_early = returns_early
        self.n_sequences = n_sequences
        self.recurrent = recurrent
        self.attention = attention
        self.n_ctx = n_ctx
        self.n_batch = n_batch
        self.n_outputs = n_outputs
        self.n_rollback = n_rollback
        self.unified = unified
        self.can_shift = not recurrent
        self.window = window
        self.cells_complete = window is None
        self.n_decodes = 0
        self.fail_next = False
        self._cells: list[_Cell] = []
        self._states: dict[SeqId, _State] = {}
        self._rows: dict[int, NDArray[np.float32]] = {}
        self._device: dict[SeqId, bytes] = {}
        self._floors: dict[SeqId, int] = {}

    def decode(self, spans: Sequence[Span]) -> None:
        self.n_decodes += 1
        assert sum(len(span.tokens) for span in spans) <= self.n_batch, "libllama would abort"
        assert sum(span.n_outputs for span in spans) <= self.n_outputs, "libllama would abort"
        if self.fail_next:
            self.fail_next = False
            raise DecodeError("told to fail")
        self._rows.clear()
        for span in spans:
            self._decode_span(span)

    def _decode_span(self, span: Span) -> None:
        assert span.start == self.length(span.seq), "positions must be consecutive"
        # Written to a copy: other sequences may share the old state.
        old = self._states.get(span.seq, _State())
        state = self._states[span.seq] = _State(old.value, old.length)
        for offset, token in enumerate(span.tokens):
            self._cells.append(_Cell(span.start + offset, token, {span.seq}))
            state.value = _mix(state.value, token) if self.recurrent else 0
            state.length += 1
            state.history.append((state.value, state.length))
            if (row := span.first_row + offset) in span.outputs:
                self._rows[row] = _row(_mix(state.value, self._attend(span.seq, state.length)))

    def _attend(self, seq: SeqId, length: int) -> int:
        if not self.attention:
            return 0
        return sum(_mix(cell.position, cell.token) for cell in self._seen(seq, length)) & _MASK

    def _seen(self, seq: SeqId, length: int) -> list[_Cell]:
        """The cells that the last token of a sequence attends to."""
        first = 0 if self.window is None else length - self.window
        return [cell for cell in self._cells if seq in cell.seqs and cell.position >= first]

    def floor(self, seq: SeqId) -> int:
        return self._floors.get(seq, 0)

    def logits(self, row: int) -> NDArray[np.float32]:
        return self._rows[row]

    def certainty(self, row: int) -> float | None:
        return 1.0

    def sampler(self, params: SamplingParams, history: Sequence[Token]) -> ToySampler:
        return ToySampler(self, params)

    def expect(self, seq: SeqId, n_best: int | None) -> None:
        pass

    def length(self, seq: SeqId) -> int:
        state = self._states.get(seq)
        return state.length if state else 0

    def remove(self, seq: SeqId, start: int, end: int | None = None) -> bool:
        state = self._states.get(seq)
        if state and self.recurrent and 0 < start < state.length and not self._roll_back(seq, state, start):
            return False
        for cell in self._cells:
            if cell.position >= start and (end is None or cell.position < end):
                cell.seqs.discard(seq)
        self._cells = [cell for cell in self._cells if cell.seqs]
        if state and start == 0 and end is None:
            del self._states[seq]
            self._floors.pop(seq, None)
        elif state and not self.recurrent:
            held = [cell.position for cell in self._cells if seq in cell.seqs]
            self._states[seq] = _State(0, max(held, default=-1) + 1)
        return True

    def _roll_back(self, seq: SeqId, state: _State, start: int) -> bool:
        back = state.length - start
        if not 1 <= back <= self.n_rollback or back >= len(state.history):
            return False
        value, length = state.history[-1 - back]
        self._states[seq] = _State(value, length)
        return True

    def shift(self, seq: SeqId, start: int, by: int) -> None:
        for cell in self._cells:
            if seq in cell.seqs and cell.position >= start:
                cell.position += by
        self._states[seq] = _State(0, self.length(seq) + by)

    def share_state(self, source: SeqId, target: SeqId) -> None:
        if source in self._states:
            self._states[target] = self._states[source]
        else:
            self._states.pop(target, None)

    def clone(self, source: SeqId, target: SeqId) -> None:
        assert self.length(target) == 0
        self.share_state(source, target)
        self._floors[target] = self.floor(source)
        for cell in self._cells:
            if source in cell.seqs:
                cell.seqs.add(target)

    def save(self, seq: SeqId, place: Place) -> Snapshot:
        state = self._states[seq]
        data = f"{state.value} {state.length}".encode()
        if place == "device":
            self._device[seq] = data
            return Snapshot(place, str(seq).encode())
        return Snapshot(place, data)

    def load(self, seq: SeqId, snapshot: Snapshot) -> None:
        data = bytes(snapshot.data)
        value, length = (self._device[int(data)] if snapshot.place == "device" else data).split()
        self._states[seq] = _State(int(value), int(length))

    def export_size(self, seq: SeqId, part: Part) -> int:
        return len(self._exported(seq, part))

    def export(self, seq: SeqId, part: Part) -> NDArray[np.uint8]:
        return np.frombuffer(self._exported(seq, part), np.uint8).copy()

    def _exported(self, seq: SeqId, part: Part) -> bytes:
        if part == "state":
            state = self._states.get(seq, _State())
            return struct.pack("<qq", state.value, state.length) + bytes(100)
        seen = {id(cell) for cell in self._seen(seq, self.length(seq))}
        own = [cell for cell in self._cells if seq in cell.seqs]
        # Those that a window no longer sees are useless where they come back.
        cells = sorted((cell.position, cell.token if id(cell) in seen else -1) for cell in own)
        return struct.pack("<q", self.length(seq)) + b"".join(struct.pack("<ii", *cell) for cell in cells)

    def restore(self, seq: SeqId, cells: NDArray[np.uint8] | None, state: NDArray[np.uint8] | None) -> None:
        value, length = struct.unpack_from("<qq", state.tobytes()) if state is not None else (0, 0)
        if cells is not None:
            assert not self.held(seq), "the sequence must be empty"
            raw = cells.tobytes()
            (held,) = struct.unpack_from("<q", raw)
            length = length if self.recurrent else held
            self._cells += [_Cell(position, token, {seq}) for position, token in struct.iter_unpack("<ii", raw[8:])]
            self._floors[seq] = 0 if self.cells_complete else held
        self._states[seq] = _State(value, length)

    def held(self, seq: SeqId) -> list[int] | None:
        return [cell.position for cell in self._cells if seq in cell.seqs] if self.attention else None


class ToySampler:
    """Greedy, or drawing from the best tokens with a generator that advances once per token."""

    def __init__(self, backend: ToyBackend, params: SamplingParams) -> None:
        self._backend = backend
        self._params = params
        self._random = random.Random(params.seed)
        self.n_sampled = 0
        self.closed = False

    def sample(self, row: int, among: Among | None = None) -> Token:
        self.n_sampled += 1
        logits = self._backend.logits(row).copy()
        if among is not None:
            logits[np.setdiff1d(np.arange(len(logits)), among.tokens)] = -np.inf
        logits[list(self._params.banned)] = -np.inf
        if self._params.greedy:
            return int(logits.argmax())
        best = np.argsort(-logits, kind="stable")[:4]
        return int(best[self._random.randrange(4)])

    def close(self) -> None:
        self.closed = True
