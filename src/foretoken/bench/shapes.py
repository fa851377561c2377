"""Random-weight GGUFs in the true shapes of known models: they cost what the real ones cost, and say nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from foretoken.errors import ConfigError

if TYPE_CHECKING:
    from gguf import GGUFWriter


@dataclass(frozen=True, slots=True)
class Shape:
    """A dense qwen35 model: three Gated DeltaNet layers, then one of attention."""

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


SHAPES = {"qwen3.5-0.8b": Shape(24, 1024, 3584, 8, 2, 256, 16, 16)}

_BLOCK_BYTES = 144
_BLOCK_WEIGHTS = 256
_SCALE = 0.002
"""Keeps activations finite; what they are does not matter."""


def write(path: Path, name: str) -> Path:
    """Write the model of a named shape, quantised to Q4_K, unless it is there already."""
    if name not in SHAPES:
        raise ConfigError(f"unknown shape {name!r}; there are {', '.join(SHAPES)}")
    if path.exists():
        return path
    try:
        from gguf import GGMLQuantizationType, GGUFWriter
    except ImportError:
        raise ConfigError("writing models needs the gguf package: pip install 'foretoken[dev]'") from None
    shape = SHAPES[name]
    part = path.with_suffix(".part")
    writer = GGUFWriter(part, "qwen35", use_temp_file=True)
    writer.add_name(f"random {name}")
    _add_metadata(writer, shape)
    random = np.random.default_rng(0)
    for tensor, dims in _tensors(shape):
        if len(dims) == 2 and "conv1d" not in tensor:
            writer.add_tensor(tensor, _q4_k(random, *dims), raw_dtype=GGMLQuantizationType.Q4_K)
        else:
            writer.add_tensor(tensor, np.full(dims, -0.5 if "ssm_a" in tensor else 1.0, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return part.rename(path)


def _q4_k(random: np.random.Generator, n_out: int, n_in: int) -> NDArray[np.uint8]:
    """Rows of Q4_K blocks: two scales, then twelve bytes of sub-scales and the weights."""
    n_blocks = n_out * n_in // _BLOCK_WEIGHTS
    blocks = random.integers(0, 256, (n_blocks, _BLOCK_BYTES), dtype=np.uint8)
    blocks[:, :4] = np.array([_SCALE, _SCALE], np.float16).view(np.uint8)
    return blocks.reshape(n_out, -1)


def _add_metadata(writer: GGUFWriter, shape: Shape) -> None:
    writer.add_context_length(262144)
    writer.add_embedding_length(shape.n_embd)
    writer.add_block_count(shape.n_layer)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_head)
    writer.add_head_count_kv(shape.n_head_kv)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e7)
    writer.add_rope_dimension_count(shape.n_rot)
    writer.add_rope_dimension_sections([11, 11, 10, 0])
    writer.add_uint32("qwen35.full_attention_interval", shape.interval)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(shape.delta_v_heads * shape.delta_dim)
    writer.add_ssm_state_size(shape.delta_dim)
    writer.add_ssm_time_step_rank(shape.delta_v_heads)
    writer.add_ssm_group_count(shape.delta_k_heads)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen35")
    writer.add_token_list([f"w{i}" for i in range(shape.n_vocab)])
    writer.add_token_merges(["w 0"])
    writer.add_token_types([1] * shape.n_vocab)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)


def _tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "token_embd.weight", (shape.n_vocab, shape.n_embd)
    yield "output_norm.weight", (shape.n_embd,)
    for i in range(shape.n_layer):
        block = f"blk.{i}"
        yield f"{block}.attn_norm.weight", (shape.n_embd,)
        yield f"{block}.post_attention_norm.weight", (shape.n_embd,)
        yield from _attention(block, shape) if (i + 1) % shape.interval == 0 else _delta_net(block, shape)
        yield f"{block}.ffn_gate.weight", (shape.n_ff, shape.n_embd)
        yield f"{block}.ffn_up.weight", (shape.n_ff, shape.n_embd)
        yield f"{block}.ffn_down.weight", (shape.n_embd, shape.n_ff)


def _attention(block: str, shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    n_q, n_kv = shape.n_head * shape.head_dim, shape.n_head_kv * shape.head_dim
    yield f"{block}.attn_q.weight", (2 * n_q, shape.n_embd)
    yield f"{block}.attn_k.weight", (n_kv, shape.n_embd)
    yield f"{block}.attn_v.weight", (n_kv, shape.n_embd)
    yield f"{block}.attn_output.weight", (shape.n_embd, n_q)
    yield f"{block}.attn_q_norm.weight", (shape.head_dim,)
    yield f"{block}.attn_k_norm.weight", (shape.head_dim,)


def _delta_net(block: str, shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    n_k, n_v = shape.delta_k_heads * shape.delta_dim, shape.delta_v_heads * shape.delta_dim
    yield f"{block}.attn_qkv.weight", (2 * n_k + n_v, shape.n_embd)
    yield f"{block}.attn_gate.weight", (n_v, shape.n_embd)
    yield f"{block}.ssm_conv1d.weight", (2 * n_k + n_v, 4)
    yield f"{block}.ssm_dt.bias", (shape.delta_v_heads,)
    yield f"{block}.ssm_a", (shape.delta_v_heads,)
    yield f"{block}.ssm_beta.weight", (shape.delta_v_heads, shape.n_embd)
    yield f"{block}.ssm_alpha.weight", (shape.delta_v_heads, shape.n_embd)
    yield f"{block}.ssm_norm.weight", (shape.delta_dim,)
    yield f"{block}.ssm_out.weight", (shape.n_embd, n_v)
