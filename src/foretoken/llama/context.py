"""A context: one model's memory and the decoding of batches into it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import TracebackType

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Part, Place, Sampler, Snapshot, Span
from foretoken.config import ContextConfig
from foretoken.errors import ConfigError, ContextError, DecodeError
from foretoken.llama import library, state
from foretoken.llama.batch import Batch
from foretoken.llama.device_choice import DeviceChoice
from foretoken.llama.greedy import GreedySampler
from foretoken.llama.model import Model
from foretoken.llama.rows import Rows
from foretoken.llama.sampler import LlamaSampler
from foretoken.types import SamplingParams, SeqId, Token

KV_TYPES = {
    "f32": 0,
    "f16": 1,
    "bf16": 30,
    "q8_0": 8,
    "q5_1": 7,
    "q5_0": 6,
    "q4_1": 3,
    "q4_0": 2,
    "iq4_nl": 20,
}
_MAX_CTX = 2**31 - 1
_FLASH = {"auto": -1, "off": 0, "on": 1}
_FLAGS = {
    "host": llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY,
    "device": llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY | llama_cpp.LLAMA_STATE_SEQ_FLAGS_ON_DEVICE,
}
_PARTS: dict[Part, int] = {"cells": 0, "state": llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY}
"""Without a flag the library copies everything: the cells and, behind them, the state."""
_HEADER = 8
"""Bytes before either part: a magic number and the sequence's."""
_REASONS = {
    1: "no room in the context for the batch",
    2: "aborted",
    -1: "the batch is invalid",
    -2: "out of memory",
    -3: "the computation failed",
}


class Context:
    """Owns a libllama context; implements `Backend`."""

    def __init__(self, model: Model, config: ContextConfig, ctx_type: int = 0) -> None:
        self.model = model
        self.config = config
        if config.n_ctx * config.n_sequences > _MAX_CTX:
            raise ContextError(f"{config.n_sequences} x {config.n_ctx} tokens are more than the library counts")
        with library.complaints() as heard:
            pointer = llama_cpp.llama_init_from_model(model.pointer, _params(config, ctx_type))
        if not pointer:
            raise ContextError(
                f"no context of {config.n_sequences} x {config.n_ctx} tokens for {model.path.name}: "
                + library.reason(heard, "libllama gave no reason; there may be too little memory (try -c smaller)")
            )
        self._pointer: object | None = pointer
        self._memory = llama_cpp.llama_get_memory(pointer)
        self.n_vocab = model.vocabulary.n_tokens
        self.n_ctx = config.n_ctx
        self.n_batch = int(llama_cpp.llama_n_batch(pointer))
        self.n_outputs = min(_n_outputs(config), self.n_batch)
        self.n_sequences = config.n_sequences
        self.n_rollback = int(llama_cpp.llama_n_rs_seq(pointer))
        self.unified = config.unified
        self.recurrent = model.recurrent
        self.attention = model.attention
        self.returns_early = model.on_device
        self._batch = Batch(self.n_batch, config.n_sequences + config.n_shadows)
        self._rows = Rows(pointer, self.n_outputs, self.n_vocab, helpers=model.on_device)
        self._choice = DeviceChoice(pointer, self.n_vocab)
        self._floors: dict[SeqId, int] = {}
        self._no_state = self._export(0, "state")[_HEADER:] if self.recurrent and self.attention else None

    @property
    def pointer(self) -> object:
        if self._pointer is None:
            raise ValueError("the context is closed")
        return self._pointer

    @property
    def can_shift(self) -> bool:
        # The library crashes when it shifts keys of other types, and does not say that it cannot.
        shiftable = self.config.kv_type_k in ("f16", "f32")
        return shiftable and not self.recurrent and bool(llama_cpp.llama_memory_can_shift(self._memory))

    def use_threads(self, for_one_row: int, for_more: int) -> None:
        """Let batches of one row, and larger ones, be computed by so many threads."""
        llama_cpp.llama_set_n_threads(self.pointer, for_one_row, for_more)

    def decode(self, spans: Sequence[Span]) -> None:
        """Compute one batch; on failure the sequences in it hold an unknown number of tokens."""
        n_rows = 0
        outputs: list[int] = []
        for span in spans:
            n_rows += len(span.tokens)
            outputs += span.outputs
        if n_rows > self.n_batch:
            raise DecodeError(f"{n_rows} rows are more than a batch holds ({self.n_batch})")
        if len(outputs) > self.n_outputs:
            # libllama would abort the process.
            raise DecodeError(f"{len(outputs)} rows ask for logits, the context was made for {self.n_outputs}")
        code = llama_cpp.llama_decode(self.pointer, self._batch.fill(spans))
        if code != 0:
            raise DecodeError(f"libllama could not decode the batch: {_REASONS.get(code, f'code {code}')}")
        self._rows.decoded(outputs, self._choice.decoded(spans))

    def logits(self, row: int) -> NDArray[np.float32]:
        """A view of one row's logits, valid until the next decode."""
        return self._rows.logits(row)

    def certainty(self, row: int) -> float | None:
        return self._rows.certainty(row)

    def sampler(self, params: SamplingParams, history: Sequence[Token]) -> Sampler:
        if GreedySampler.serves(params):
            return GreedySampler(self._rows, params)
        return LlamaSampler(self.pointer, self._rows, self.model.vocabulary, self.n_ctx, params, history)

    def expect(self, seq: SeqId, n_best: int | None) -> None:
        # On a CPU the logits are where they are looked through, and the graph would copy them for it.
        if self.returns_early:
            self._choice.expect(seq, n_best)

    def length(self, seq: SeqId) -> int:
        return int(llama_cpp.llama_memory_seq_pos_max(self._memory, seq)) + 1

    def remove(self, seq: SeqId, start: int, end: int | None = None) -> bool:
        if start == 0 and end is None:
            self._floors.pop(seq, None)
        return bool(llama_cpp.llama_memory_seq_rm(self._memory, seq, start, -1 if end is None else end))

    def floor(self, seq: SeqId) -> int:
        return self._floors.get(seq, 0)

    def shift(self, seq: SeqId, start: int, by: int) -> None:
        llama_cpp.llama_memory_seq_add(self._memory, seq, start, -1, by)

    def share_state(self, source: SeqId, target: SeqId) -> None:
        # The range (0, 0) touches no attention cell; recurrent memory ignores ranges.
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, 0, 0)

    def clone(self, source: SeqId, target: SeqId) -> None:
        llama_cpp.llama_memory_seq_cp(self._memory, source, target, -1, -1)
        if (floor := self.floor(source)) > 0:
            self._floors[target] = floor

    def save(self, seq: SeqId, place: Place) -> Snapshot:
        flags = _FLAGS[place]
        size = llama_cpp.llama_state_seq_get_size_ext(self.pointer, seq, flags)
        data = np.empty(size, np.uint8)
        if llama_cpp.llama_state_seq_get_data_ext(self.pointer, _bytes(data), size, seq, flags) != size:
            raise DecodeError(f"libllama could not save the state of sequence {seq}")
        return Snapshot(place, data)

    def load(self, seq: SeqId, snapshot: Snapshot) -> None:
        data = np.frombuffer(snapshot.data, np.uint8)
        flags = _FLAGS[snapshot.place]
        if llama_cpp.llama_state_seq_set_data_ext(self.pointer, _bytes(data), len(data), seq, flags) == 0:
            raise DecodeError(f"libllama could not restore the state of sequence {seq}")

    @property
    def cells_complete(self) -> bool:
        # The library leaves out what a sliding window no longer sees.
        return int(llama_cpp.llama_model_n_swa(self.model.pointer)) == 0

    def export_size(self, seq: SeqId, part: Part) -> int:
        return int(llama_cpp.llama_state_seq_get_size_ext(self.pointer, seq, _PARTS[part]))

    def export(self, seq: SeqId, part: Part) -> NDArray[np.uint8]:
        data = self._export(seq, part)
        if part == "cells" and self._no_state is not None:
            # The state comes last, as it does alone, and is kept alone: it is needed at more positions than the cells.
            # One of no tokens takes its place: the library wants one.
            end = len(data) - (self.export_size(seq, "state") - _HEADER)
            data.resize(end + len(self._no_state), refcheck=False)
            data[end:] = self._no_state
        return data

    def _export(self, seq: SeqId, part: Part) -> NDArray[np.uint8]:
        size = self.export_size(seq, part)
        data = np.empty(size, np.uint8)
        if llama_cpp.llama_state_seq_get_data_ext(self.pointer, _bytes(data), size, seq, _PARTS[part]) != size:
            raise DecodeError(f"libllama could not copy sequence {seq} to the host")
        return data

    def restore(self, seq: SeqId, cells: NDArray[np.uint8] | None, state: NDArray[np.uint8] | None) -> None:
        parts: list[tuple[Part, NDArray[np.uint8] | None]] = [("cells", cells), ("state", state)]
        for part, data in parts:
            if data is None:
                continue
            if llama_cpp.llama_state_seq_set_data_ext(self.pointer, _bytes(data), len(data), seq, _PARTS[part]) == 0:
                raise DecodeError(f"libllama could not restore sequence {seq}")
        if cells is not None and not self.cells_complete:
            self._floors[seq] = self.length(seq)

    def held(self, seq: SeqId) -> list[int] | None:
        if not self.model.attention:
            return None
        size = llama_cpp.llama_state_seq_get_size(self.pointer, seq)
        data = np.empty(size, np.uint8)
        llama_cpp.llama_state_seq_get_data(self.pointer, _bytes(data), size, seq)
        return state.positions(data, extended=self.model.multi_rope)

    def close(self) -> None:
        if self._pointer is not None:
            pointer, self._pointer = self._pointer, None
            self._rows.close()
            llama_cpp.llama_free(pointer)
            self._choice.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _params(config: ContextConfig, ctx_type: int) -> llama_cpp.llama_context_params:
    params = llama_cpp.llama_context_default_params()
    params.ctx_type = ctx_type
    params.n_ctx = config.n_ctx * config.n_sequences
    params.n_seq_max = config.n_sequences + config.n_shadows
    params.n_batch = config.n_batch
    params.n_ubatch = min(config.n_ubatch, config.n_batch)
    params.n_outputs_max = _n_outputs(config)
    # As many: or a device could choose for one row of a sequence only.
    params.n_outputs_max_per_seq = 0
    params.n_threads = params.n_threads_batch = config.n_threads
    params.flash_attn_type = _FLASH[config.flash_attention]
    params.type_k, params.type_v = kv_type(config.kv_type_k), kv_type(config.kv_type_v)
    params.kv_unified = config.unified
    params.n_rs_seq = config.n_rollback
    # A sliding-window cache of full size: a smaller one forgets what a rewind needs.
    params.swa_full = True
    params.no_perf = True
    return params


def _n_outputs(config: ContextConfig) -> int:
    return max(config.n_outputs, config.n_sequences + config.n_shadows)


def kv_type(name: str) -> int:
    """libllama's number for a KV type."""
    if name not in KV_TYPES:
        raise ConfigError(f"unknown KV type {name!r}; choose one of {', '.join(KV_TYPES)}")
    return KV_TYPES[name]


def _bytes(data: NDArray[np.uint8]) -> object:
    return data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
