"""Encoders: models that look at whole texts, for embeddings and for ranking."""

from dataclasses import dataclass

from . import blocks
from .architectures import N_CTX_TRAIN, N_LAYER, Value, embedding
from .tensors import Tensor, exact, matrix, norm

MEAN, CLS, RANK = 1, 2, 4  # libllama's numbers for ways to pool


@dataclass(frozen=True, slots=True)
class Encoder:
    """One tiny BERT, by how it pools."""

    pooling: int
    name: str = "bert"
    n_token_types: int = 2

    def tensors(self) -> list[Tensor]:
        """Lists every tensor of the model."""
        n = blocks.N_EMBD
        found = [
            embedding(),
            exact("position_embd.weight", (N_CTX_TRAIN, n), 0.0, 0.5),
            exact("token_types.weight", (self.n_token_types, n), 0.0, 0.5),
            *layer_norm("token_embd_norm"),
        ]
        for i in range(N_LAYER):
            found += layer(f"blk.{i}")
        if self.pooling == RANK:
            found += [*biased("cls", n, n), *biased("cls.output", 1, n)]
        return found

    def all_metadata(self) -> dict[str, Value]:
        """Returns the metadata."""
        return {
            "context_length": N_CTX_TRAIN,
            "embedding_length": blocks.N_EMBD,
            "block_count": N_LAYER,
            "feed_forward_length": blocks.N_FF,
            "attention.head_count": blocks.N_HEAD,
            "attention.head_count_kv": blocks.N_HEAD,
            "attention.layer_norm_epsilon": 1e-6,
            "attention.causal": False,
            "pooling_type": self.pooling,
        }


def layer(b: str) -> list[Tensor]:
    """Lists a layer of BERT: norms come after what they norm."""
    n = blocks.N_EMBD
    return [
        *biased(f"{b}.attn_q", n, n, blocks.SHARP),
        *biased(f"{b}.attn_k", n, n),
        *biased(f"{b}.attn_v", n, n),
        *biased(f"{b}.attn_output", n, n, 2.0),
        *layer_norm(f"{b}.attn_output_norm"),
        *biased(f"{b}.ffn_up", blocks.N_FF, n),
        *biased(f"{b}.ffn_down", n, blocks.N_FF, 1.5),
        *layer_norm(f"{b}.layer_output_norm"),
    ]


def biased(name: str, n_out: int, n_in: int, gain: float = 1.0) -> list[Tensor]:
    """Lists a projection with its bias."""
    return [matrix(f"{name}.weight", n_out, n_in, gain), exact(f"{name}.bias", (n_out,), 0.0, 0.1)]


def layer_norm(name: str) -> list[Tensor]:
    """Lists a norm with its bias."""
    return [norm(f"{name}.weight", blocks.N_EMBD), exact(f"{name}.bias", (blocks.N_EMBD,), 0.0, 0.1)]


ENCODERS: dict[str, Encoder] = {"bert": Encoder(MEAN), "bert-cls": Encoder(CLS), "bert-rank": Encoder(RANK)}
