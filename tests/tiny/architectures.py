"""The architectures: for each one its metadata and its layers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from . import blocks
from .tensors import Tensor, matrix, norm
from .vocabulary import SIZE

Value = int | float | list[int]
Memory = Literal["attention", "recurrent", "hybrid"]

N_LAYER = 4
N_CTX_TRAIN = 2048
LOGIT_SCALE = 3.0  # the spread of the logits: sharp enough to choose, flat enough to sample


@dataclass(frozen=True, slots=True)
class Architecture:
    """One tiny model: libllama's name for it, what it remembers with, its own metadata and its layers."""

    name: str
    memory: Memory
    layer: Callable[[int], list[Tensor]]
    metadata: dict[str, Value] = field(default_factory=dict)
    n_extra: int = 0  # blocks beyond the trunk, for multi-token prediction
    final_norm: str = "output_norm.weight"

    def tensors(self) -> list[Tensor]:
        """Lists every tensor of the model."""
        found = [
            embedding(),
            norm(self.final_norm, blocks.N_EMBD),
            matrix("output.weight", SIZE, blocks.N_EMBD, LOGIT_SCALE),
        ]
        for i in range(N_LAYER + self.n_extra):
            found += self.layer(i)
        return found

    def all_metadata(self) -> dict[str, Value]:
        """Returns the metadata common to all, with this architecture's own on top."""
        return {
            "context_length": N_CTX_TRAIN,
            "embedding_length": blocks.N_EMBD,
            "block_count": N_LAYER + self.n_extra,
            "feed_forward_length": blocks.N_FF,
            "attention.layer_norm_rms_epsilon": 1e-6,
        } | self.metadata


def embedding() -> Tensor:
    """Describes the token embeddings, at the scale of what the layers add to them."""
    return matrix("token_embd.weight", SIZE, blocks.N_EMBD, blocks.N_EMBD**0.5)


ATTENTION: dict[str, Value] = {
    "attention.head_count": blocks.N_HEAD,
    "attention.head_count_kv": blocks.N_HEAD_KV,
    "attention.key_length": blocks.HEAD_DIM,
    "attention.value_length": blocks.HEAD_DIM,
    "rope.dimension_count": blocks.HEAD_DIM,
    "rope.freq_base": 10000.0,
}
# Every other layer sees the latest tokens only.
WINDOWED = ATTENTION | {"attention.sliding_window": 16, "attention.sliding_window_pattern": 2}
# A layer without key and value heads is a recurrent one.
MIXED = ATTENTION | {"attention.head_count_kv": [0, blocks.N_HEAD_KV] * (N_LAYER // 2)}
DELTA_NET: dict[str, Value] = ATTENTION | {
    "rope.dimension_count": blocks.HEAD_DIM // 2,
    "full_attention_interval": N_LAYER,
    "ssm.conv_kernel": blocks.CONV_WIDTH,
    "ssm.inner_size": blocks.DELTA_STATE * blocks.DELTA_V_HEADS,
    "ssm.state_size": blocks.DELTA_STATE,
    "ssm.time_step_rank": blocks.DELTA_V_HEADS,
    "ssm.group_count": blocks.DELTA_K_HEADS,
}
QWEN35: dict[str, Value] = DELTA_NET | {"rope.dimension_sections": [3, 3, 2, 0]}
EXPERTS: dict[str, Value] = {
    "expert_count": blocks.N_EXPERT,
    "expert_used_count": 2,
    "expert_feed_forward_length": blocks.N_FF_EXPERT,
    "expert_shared_feed_forward_length": blocks.N_FF_EXPERT,
}
MAMBA1: dict[str, Value] = {
    "ssm.conv_kernel": blocks.CONV_WIDTH,
    "ssm.inner_size": blocks.D_INNER,
    "ssm.state_size": blocks.MAMBA1_STATE,
    "ssm.time_step_rank": blocks.MAMBA1_RANK,
}
MAMBA2: dict[str, Value] = {
    "ssm.conv_kernel": blocks.CONV_WIDTH,
    "ssm.inner_size": blocks.D_INNER,
    "ssm.state_size": blocks.MAMBA2_STATE,
    "ssm.time_step_rank": blocks.MAMBA2_HEADS,
    "ssm.group_count": 1,
}


def qwen35_layer(i: int, moe: bool = False, fused: bool = False) -> list[Tensor]:
    """Lists layer i of the Qwen3.5 family: every fourth attends, those beyond the trunk predict."""
    b = f"blk.{i}"
    attends = i >= N_LAYER or (i + 1) % N_LAYER == 0
    mixer = blocks.attention(b, gated=True) if attends else blocks.delta_net(b, fused_beta_alpha=fused)
    return [
        norm(f"{b}.attn_norm.weight", blocks.N_EMBD),
        norm(f"{b}.post_attention_norm.weight", blocks.N_EMBD),
        *mixer,
        *(blocks.mixture(b) if moe else blocks.feed_forward(b)),
        *(blocks.next_token(b) if i >= N_LAYER else []),
    ]


def attention_layer(i: int, qk_norm: bool) -> list[Tensor]:
    """Lists layer i of a plain transformer."""
    return with_feed_forward(i, blocks.attention(f"blk.{i}", qk_norm=qk_norm))


def windowed_layer(i: int) -> list[Tensor]:
    """Lists layer i of Gemma 3, which norms what a block adds; that is made as loud as its scaled embeddings."""
    loud = blocks.N_EMBD**0.5
    post = [
        norm(f"blk.{i}.{name}.weight", blocks.N_EMBD, weight=loud) for name in ("post_attention_norm", "post_ffw_norm")
    ]
    return [*attention_layer(i, qk_norm=True), *post]


def mamba_layer(i: int, mixer: Callable[[str], list[Tensor]]) -> list[Tensor]:
    """Lists layer i of a pure Mamba model, which has no feed-forward."""
    return [norm(f"blk.{i}.attn_norm.weight", blocks.N_EMBD), *mixer(f"blk.{i}")]


def mixed_layer(i: int, recurrent: Callable[[str], list[Tensor]], qk_norm: bool = False) -> list[Tensor]:
    """Lists layer i of a hybrid whose every other layer attends."""
    b = f"blk.{i}"
    return with_feed_forward(i, blocks.attention(b, qk_norm=qk_norm) if i % 2 else recurrent(b))


def with_feed_forward(i: int, mixer: list[Tensor]) -> list[Tensor]:
    """Adds the norms and the feed-forward network to a mixer."""
    b = f"blk.{i}"
    norms = [norm(f"{b}.attn_norm.weight", blocks.N_EMBD), norm(f"{b}.ffn_norm.weight", blocks.N_EMBD)]
    return [*norms, *mixer, *blocks.feed_forward(b)]


CATALOGUE: dict[str, Architecture] = {
    "qwen35": Architecture("qwen35", "hybrid", qwen35_layer, QWEN35),
    "qwen35-mtp": Architecture("qwen35", "hybrid", qwen35_layer, QWEN35 | {"nextn_predict_layers": 1}, n_extra=1),
    "qwen35moe": Architecture("qwen35moe", "hybrid", lambda i: qwen35_layer(i, moe=True), QWEN35 | EXPERTS),
    "qwen3next": Architecture(
        "qwen3next", "hybrid", lambda i: qwen35_layer(i, moe=True, fused=True), DELTA_NET | EXPERTS
    ),
    "mamba": Architecture("mamba", "recurrent", lambda i: mamba_layer(i, blocks.mamba1), MAMBA1),
    "mamba2": Architecture("mamba2", "recurrent", lambda i: mamba_layer(i, blocks.mamba2), MAMBA2),
    "lfm2": Architecture(
        "lfm2",
        "hybrid",
        lambda i: mixed_layer(i, blocks.short_convolution, qk_norm=True),
        MIXED | {"shortconv.l_cache": blocks.SHORT_CONV_WIDTH},
        final_norm="token_embd_norm.weight",
    ),
    "jamba": Architecture(
        "jamba",
        "hybrid",
        lambda i: mixed_layer(i, lambda b: blocks.mamba1(b, normed=True)),
        MIXED | MAMBA1,
    ),
    "granitehybrid": Architecture("granitehybrid", "hybrid", lambda i: mixed_layer(i, blocks.mamba2), MIXED | MAMBA2),
    "llama": Architecture("llama", "attention", lambda i: attention_layer(i, qk_norm=False), ATTENTION),
    "qwen3": Architecture("qwen3", "attention", lambda i: attention_layer(i, qk_norm=True), ATTENTION),
    "gemma3": Architecture("gemma3", "attention", windowed_layer, WINDOWED),
}
