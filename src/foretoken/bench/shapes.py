"""Random-weight GGUFs in the true shapes of known models: they cost what the real ones cost, and say nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from foretoken.bench.blocks import BLOCKS, Blocks
from foretoken.errors import ConfigError

if TYPE_CHECKING:
    from gguf import GGUFWriter


@dataclass(frozen=True, slots=True)
class Shape:
    """A qwen35 model: three Gated DeltaNet layers, then one of attention; dense, or with experts."""

    n_layer: int
    n_embd: int
    n_ff: int
    n_head: int
    n_head_kv: int
    head_dim: int
    delta_k_heads: int
    delta_v_heads: int
    delta_dim: int = 128
    n_vocab: int = 248320
    interval: int = 4
    n_rot: int = 64
    tied: bool = False
    """Whether the output is the embedding."""
    n_expert: int = 0
    n_expert_used: int = 8
    n_mtp: int = 1
    """Layers behind the last one that predict the token after next."""

    @property
    def architecture(self) -> str:
        return "qwen35moe" if self.n_expert else "qwen35"


SHAPES = {
    "qwen3.5-0.8b": Shape(24, 1024, 3584, 8, 2, 256, 16, 16, tied=True),
    "qwen3.5-9b": Shape(32, 4096, 12288, 16, 4, 256, 16, 32),
    "qwen3.5-27b": Shape(64, 5120, 17408, 24, 4, 256, 16, 48),
    "qwen3.5-35b-a3b": Shape(40, 2048, 512, 16, 2, 256, 16, 32, n_expert=256),
}
_TOY = Shape(4, 256, 512, 4, 2, 64, 2, 4, 64, n_vocab=1024, n_rot=32, tied=True)

_ALIGNMENT = 32
_NORMAL, _UNUSED = 1, 5
_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    dims: tuple[int, ...]
    """Outermost first, as in numpy."""
    kind: str
    value: float = 0.0
    """What an F32 tensor is filled with."""

    @property
    def n_bytes(self) -> int:
        block = BLOCKS[self.kind]
        return prod(self.dims) // block.n_weights * block.n_bytes


@dataclass(frozen=True, slots=True)
class _Words:
    """A vocabulary."""

    tokens: list[str]
    types: list[int]
    merges: list[str]
    end: int


def write(path: Path, name: str, vocabulary: Path | None = None) -> Path:
    """Write the model of a named shape in Q4_K_M's types, unless it is there already.

    `vocabulary` is a GGUF whose tokens it gets, filled up to the shape's number; without one they are "w0" and so on.
    The toy versions of shapes ("toy-qwen3.5-27b") have the same layers in small, for trying a benchmark out.
    """
    shape = find(name)
    if path.exists():
        return path
    try:
        from gguf import GGMLQuantizationType, GGUFWriter
    except ImportError:
        raise ConfigError("writing models needs the gguf package: pip install 'foretoken[dev]'") from None
    words = _words(vocabulary) if vocabulary else None
    if words:
        shape = replace(shape, n_vocab=max(shape.n_vocab, len(words.tokens)))
    part = path.with_suffix(".part")
    tensors = list(_tensors(shape))
    writer = GGUFWriter(part, shape.architecture)
    writer.add_name(f"random {name}")
    _add_metadata(writer, shape)
    _add_tokens(writer, shape.n_vocab, words)
    for tensor in tensors:
        block = BLOCKS[tensor.kind]
        row = (*tensor.dims[:-1], tensor.dims[-1] // block.n_weights * block.n_bytes)
        dims = row if block.gguf else tensor.dims
        kind = GGMLQuantizationType(block.gguf) if block.gguf else None
        writer.add_tensor_info(
            tensor.name, dims, np.dtype(np.uint8 if kind else np.float32), tensor.n_bytes, raw_dtype=kind
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    assert writer.fout is not None
    _write_weights(writer.fout[0], tensors)
    writer.close()
    return part.rename(path)


def find(name: str) -> Shape:
    """The shape of a name."""
    known = SHAPES.get(name.removeprefix("toy-"))
    if known is None:
        raise ConfigError(f"unknown shape {name!r}; there are {', '.join(SHAPES)}")
    if not name.startswith("toy-"):
        return known
    return replace(_TOY, tied=known.tied, n_expert=min(known.n_expert, 8), n_expert_used=min(known.n_expert, 2))


def _write_weights(file: BinaryIO, tensors: list[_Tensor]) -> None:
    """Cut every matrix out of one stock of quantised blocks, a few megabytes at a time, each from another place."""
    stock = Blocks(np.random.default_rng(0))
    for tensor in tensors:
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        if tensor.kind == "f32":
            file.write(np.full(tensor.dims, tensor.value, np.float32).tobytes())
            continue
        left = tensor.n_bytes
        while left:
            left -= file.write(stock.some(tensor.kind, tensor.dims[-1], min(left, _CHUNK)))
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))


def _add_metadata(writer: GGUFWriter, shape: Shape) -> None:
    writer.add_context_length(262144)
    writer.add_embedding_length(shape.n_embd)
    writer.add_block_count(shape.n_layer + shape.n_mtp)
    writer.add_uint32(f"{shape.architecture}.nextn_predict_layers", shape.n_mtp)
    if shape.n_expert:
        writer.add_expert_count(shape.n_expert)
        writer.add_expert_used_count(shape.n_expert_used)
        writer.add_expert_feed_forward_length(shape.n_ff)
        writer.add_expert_shared_feed_forward_length(shape.n_ff)
    else:
        writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_head)
    writer.add_head_count_kv(shape.n_head_kv)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e7)
    writer.add_rope_dimension_count(shape.n_rot)
    writer.add_rope_dimension_sections([11, 11, 10, 0])
    writer.add_uint32(f"{shape.architecture}.full_attention_interval", shape.interval)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(shape.delta_v_heads * shape.delta_dim)
    writer.add_ssm_state_size(shape.delta_dim)
    writer.add_ssm_time_step_rank(shape.delta_v_heads)
    writer.add_ssm_group_count(shape.delta_k_heads)


def _words(vocabulary: Path) -> _Words:
    from gguf import GGUFReader

    fields = GGUFReader(vocabulary).fields
    tokens, types, merges, end = (
        fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "token_type", "merges", "eos_token_id")
    )
    return _Words(tokens, types, merges, int(end))


def _add_tokens(writer: GGUFWriter, n_vocab: int, words: _Words | None) -> None:
    words = words or _Words([f"w{i}" for i in range(n_vocab)], [_NORMAL] * n_vocab, ["w 0"], 0)
    # Real models have more rows than words, too: the rest are numbers nobody says.
    unused = range(len(words.tokens), n_vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen35")
    writer.add_add_bos_token(False)
    writer.add_token_list([*words.tokens, *(f"[PAD{i}]" for i in unused)])
    writer.add_token_types([*words.types, *(_UNUSED for _ in unused)])
    writer.add_token_merges(words.merges)
    writer.add_eos_token_id(words.end)


def _tensors(shape: Shape) -> Iterator[_Tensor]:
    yield _Tensor("token_embd.weight", (shape.n_vocab, shape.n_embd), "q6_k" if shape.tied else "q4_k")
    yield _ones("output_norm.weight", shape.n_embd)
    if not shape.tied:
        yield _Tensor("output.weight", (shape.n_vocab, shape.n_embd), "q6_k")
    for i in range(shape.n_layer):
        block = f"blk.{i}"
        more = "q6_k" if _more_bits(i, shape.n_layer) else "q4_k"
        yield _ones(f"{block}.attn_norm.weight", shape.n_embd)
        yield _ones(f"{block}.post_attention_norm.weight", shape.n_embd)
        yield from _attention(block, shape, more) if (i + 1) % shape.interval == 0 else _delta_net(block, shape)
        yield from _experts(block, shape, more) if shape.n_expert else _feed_forward(block, shape, more)
    for i in range(shape.n_layer, shape.n_layer + shape.n_mtp):
        yield from _prediction_layer(f"blk.{i}", shape)


def _prediction_layer(block: str, shape: Shape) -> Iterator[_Tensor]:
    yield _ones(f"{block}.attn_norm.weight", shape.n_embd)
    yield _ones(f"{block}.post_attention_norm.weight", shape.n_embd)
    yield from _attention(block, shape, "q6_k")
    yield from _experts(block, shape, "q6_k") if shape.n_expert else _feed_forward(block, shape, "q6_k")
    yield _Tensor(f"{block}.nextn.eh_proj.weight", (shape.n_embd, 2 * shape.n_embd), "q4_k")
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        yield _ones(f"{block}.nextn.{norm}.weight", shape.n_embd)


def _more_bits(layer: int, n_layer: int) -> bool:
    """Q4_K_M keeps values and down projections finer in the first and last eighth, and in every third layer between."""
    eighth = n_layer // 8
    return layer < eighth or layer >= 7 * n_layer // 8 or (layer - eighth) % 3 == 2


def _ones(name: str, n: int) -> _Tensor:
    return _Tensor(name, (n,), "f32", 1.0)


def _feed_forward(block: str, shape: Shape, more: str) -> Iterator[_Tensor]:
    yield _Tensor(f"{block}.ffn_gate.weight", (shape.n_ff, shape.n_embd), "q4_k")
    yield _Tensor(f"{block}.ffn_up.weight", (shape.n_ff, shape.n_embd), "q4_k")
    yield _Tensor(f"{block}.ffn_down.weight", (shape.n_embd, shape.n_ff), more)


def _experts(block: str, shape: Shape, more: str) -> Iterator[_Tensor]:
    n, wide, narrow = shape.n_expert, shape.n_embd, shape.n_ff
    yield _Tensor(f"{block}.ffn_gate_inp.weight", (n, wide), "f32-random")
    yield _Tensor(f"{block}.ffn_gate_exps.weight", (n, narrow, wide), "q4_k")
    yield _Tensor(f"{block}.ffn_up_exps.weight", (n, narrow, wide), "q4_k")
    yield _Tensor(f"{block}.ffn_down_exps.weight", (n, wide, narrow), more)
    yield _Tensor(f"{block}.ffn_gate_inp_shexp.weight", (wide,), "f32", 0.01)
    yield _Tensor(f"{block}.ffn_gate_shexp.weight", (narrow, wide), "q4_k")
    yield _Tensor(f"{block}.ffn_up_shexp.weight", (narrow, wide), "q4_k")
    yield _Tensor(f"{block}.ffn_down_shexp.weight", (wide, narrow), more)


def _attention(block: str, shape: Shape, more: str) -> Iterator[_Tensor]:
    n_q, n_kv = shape.n_head * shape.head_dim, shape.n_head_kv * shape.head_dim
    yield _Tensor(f"{block}.attn_q.weight", (2 * n_q, shape.n_embd), "q4_k")
    yield _Tensor(f"{block}.attn_k.weight", (n_kv, shape.n_embd), "q4_k")
    yield _Tensor(f"{block}.attn_v.weight", (n_kv, shape.n_embd), more)
    yield _Tensor(f"{block}.attn_output.weight", (shape.n_embd, n_q), "q4_k")
    yield _ones(f"{block}.attn_q_norm.weight", shape.head_dim)
    yield _ones(f"{block}.attn_k_norm.weight", shape.head_dim)


def _delta_net(block: str, shape: Shape) -> Iterator[_Tensor]:
    n_k, n_v = shape.delta_k_heads * shape.delta_dim, shape.delta_v_heads * shape.delta_dim
    yield _Tensor(f"{block}.attn_qkv.weight", (2 * n_k + n_v, shape.n_embd), "q4_k")
    yield _Tensor(f"{block}.attn_gate.weight", (n_v, shape.n_embd), "q4_k")
    yield _Tensor(f"{block}.ssm_conv1d.weight", (2 * n_k + n_v, 4), "f32", 0.25)
    yield _Tensor(f"{block}.ssm_dt.bias", (shape.delta_v_heads,), "f32", 1.0)
    yield _Tensor(f"{block}.ssm_a", (shape.delta_v_heads,), "f32", -0.5)
    yield _Tensor(f"{block}.ssm_beta.weight", (shape.delta_v_heads, shape.n_embd), "q4_k")
    yield _Tensor(f"{block}.ssm_alpha.weight", (shape.delta_v_heads, shape.n_embd), "q4_k")
    yield _ones(f"{block}.ssm_norm.weight", shape.delta_dim)
    yield _Tensor(f"{block}.ssm_out.weight", (shape.n_embd, n_v), "q4_k")
