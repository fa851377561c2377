"""A compact `qwen35`: Gated DeltaNet layers, gated attention every few layers, one MTP layer.

Where every layer is attention and nothing is gated, it is a `qwen3`.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import delta


@dataclass(frozen=True, slots=True)
class Config:
    """The shape of a model; names follow libllama's words where it has one."""

    vocabulary: int = 8192
    width: int = 512
    layers: int = 12
    feed_forward: int = 1536
    heads: int = 8
    kv_heads: int = 2
    head_size: int = 64
    delta_heads: int = 4
    delta_size: int = 128
    conv: int = 4
    rotary: int = 32
    rope_base: float = 10000.0
    eps: float = 1e-6
    attention_every: int = 4
    gated: bool = True
    tied: bool = False
    mtp: bool = False
    context: int = 4096

    @property
    def architecture(self) -> str:
        """Libllama's name for a model of this shape."""
        return "qwen35" if self.gated else "qwen3"

    @staticmethod
    def load(path: Path) -> "Config":
        """Read a configuration from a JSON file that names only what differs from the defaults."""
        return Config(**json.loads(path.read_text()))


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Root-mean-square norm with a plain (not offset) weight."""
    return F.rms_norm(x, (x.shape[-1],), weight.to(x.dtype), eps)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the first dimensions of each head by position; the rest passes through."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


class Attention(nn.Module):
    """Grouped-query attention with normed queries and keys and, where told, a sigmoid gate on its output."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        inner, kv = config.heads * config.head_size, config.kv_heads * config.head_size
        self.q = nn.Linear(config.width, (1 + config.gated) * inner, bias=False)
        self.k = nn.Linear(config.width, kv, bias=False)
        self.v = nn.Linear(config.width, kv, bias=False)
        self.o = nn.Linear(inner, config.width, bias=False)
        self.q_norm = nn.Parameter(torch.ones(config.head_size))
        self.k_norm = nn.Parameter(torch.ones(config.head_size))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        c, (batch, length, _) = self.config, x.shape
        q, *gate = self.q(x).view(batch, length, c.heads, 1 + c.gated, c.head_size).unbind(3)
        k, v = (p(x).view(batch, length, c.kv_heads, c.head_size) for p in (self.k, self.v))
        q = rotate(rms_norm(q, self.q_norm, c.eps), cos, sin).transpose(1, 2)
        k = rotate(rms_norm(k, self.k_norm, c.eps), cos, sin).transpose(1, 2)
        out = F.scaled_dot_product_attention(q, k, v.transpose(1, 2), is_causal=True, enable_gqa=True)
        out = out.transpose(1, 2)
        if gate:
            out = out * gate[0].sigmoid()
        return self.o(out.reshape(batch, length, -1))


class DeltaNet(nn.Module):
    """The parameters of a Gated DeltaNet mixer; the block runs it in compiled pieces."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        inner, heads = config.delta_heads * config.delta_size, config.delta_heads
        self.qkv = nn.Linear(config.width, 3 * inner, bias=False)
        self.z = nn.Linear(config.width, inner, bias=False)
        self.beta_alpha = nn.Linear(config.width, 2 * heads, bias=False)
        self.out = nn.Linear(inner, config.width, bias=False)
        self.conv = nn.Parameter(torch.empty(3 * inner, config.conv).uniform_(-0.5, 0.5))
        self.a_log = nn.Parameter(torch.empty(heads).uniform_(1, 16).log())
        step = torch.exp(torch.rand(heads) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.dt = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.norm = nn.Parameter(torch.ones(config.delta_size))


class Block(nn.Module):
    """One layer: a mixer (attention or DeltaNet) and a gated feed-forward, each on the residual stream."""

    def __init__(self, config: Config, attention: bool) -> None:
        super().__init__()
        self.config = config
        self.norm1 = nn.Parameter(torch.ones(config.width))
        self.norm2 = nn.Parameter(torch.ones(config.width))
        self.mixer: nn.Module = Attention(config) if attention else DeltaNet(config)
        self.gate_up = nn.Linear(config.width, 2 * config.feed_forward, bias=False)
        self.down = nn.Linear(config.feed_forward, config.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if isinstance(self.mixer, Attention):
            return STEPS.attend(self, x, cos, sin)
        if x.shape[1] % delta.C:
            q, k, v, decay, beta, z = project(self, x)
            return finish(self, x, delta.recurrent(q, k, v, decay, beta).to(x.dtype), z)
        *inputs, scores, queries, z = STEPS.before(self, x)
        states, new = delta.scan(*inputs)
        return STEPS.after(self, x, scores, queries, states, new, z)


def feed_forward(block: Block, x: Tensor) -> Tensor:
    """Add the gated feed-forward to the stream."""
    gate, up = block.gate_up(rms_norm(x, block.norm2, block.config.eps)).chunk(2, -1)
    return x + block.down(F.silu(gate) * up)


def attend(block: Block, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Run a whole attention layer."""
    return feed_forward(block, x + block.mixer(rms_norm(x, block.norm1, block.config.eps), cos, sin))


def project(block: Block, x: Tensor) -> tuple[Tensor, ...]:
    """Queries, keys, values, log decay, beta and output gate of a DeltaNet layer."""
    m, c = block.mixer, block.config
    h = rms_norm(x, block.norm1, c.eps)
    mixed = delta.causal_conv(m.qkv(h), m.conv.to(h.dtype))
    q, k, v = mixed.view(*x.shape[:2], 3, c.delta_heads, c.delta_size).unbind(2)
    beta, alpha = m.beta_alpha(h).float().chunk(2, -1)
    decay = -m.a_log.float().exp() * F.softplus(alpha + m.dt.float())
    return q, k, v, decay, beta.sigmoid(), m.z(h)


def before(block: Block, x: Tensor) -> tuple[Tensor, ...]:
    """The part of a DeltaNet layer ahead of the scan over chunks."""
    *inputs, z = project(block, x)
    a, scores, keys_in, values_in, keys_out, decay, queries = delta.prepare(*inputs)
    return a, keys_in, values_in, keys_out, decay, scores, queries, z


def finish(block: Block, x: Tensor, mixed: Tensor, z: Tensor) -> Tensor:
    """Norm and gate the mixer's output, then the feed-forward."""
    m = block.mixer
    gated = rms_norm(mixed, m.norm, block.config.eps) * F.silu(z.view(mixed.shape))
    return feed_forward(block, x + m.out(gated.flatten(2)))


def after(
    block: Block, x: Tensor, scores: Tensor, queries: Tensor, states: Tensor, new: Tensor, z: Tensor
) -> Tensor:
    """The part of a DeltaNet layer behind the scan over chunks."""
    return finish(
        block, x, delta.combine(scores, queries, states, new, x.shape[0], block.config.delta_heads), z
    )


class Steps:
    """The pieces of a layer, each of which may be compiled; the scan between them stays eager."""

    def __init__(self) -> None:
        self.attend, self.before, self.after = attend, before, after

    def compile(self) -> None:
        """Compile the pieces, once for each shape of layer."""
        torch._dynamo.config.cache_size_limit = 64
        self.attend = torch.compile(attend, dynamic=False)
        self.before = torch.compile(before, dynamic=False)
        self.after = torch.compile(after, dynamic=False)


STEPS = Steps()


class Mtp(nn.Module):
    """Predicts the token after next from the trunk's hidden state and the next token."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.hidden_norm = nn.Parameter(torch.ones(config.width))
        self.embedding_norm = nn.Parameter(torch.ones(config.width))
        self.output_norm = nn.Parameter(torch.ones(config.width))
        self.join = nn.Linear(2 * config.width, config.width, bias=False)
        self.block = Block(config, attention=True)


class Model(nn.Module):
    """The language model: embedding, layers, head and, where configured, the MTP layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(
            Block(config, attention=(i + 1) % config.attention_every == 0) for i in range(config.layers)
        )
        self.output_norm = nn.Parameter(torch.ones(config.width))
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.mtp = Mtp(config) if config.mtp else None
        self.initialise()
        if config.tied:
            self.head.weight = self.embedding.weight
        steps = config.rope_base ** (-torch.arange(0, config.rotary, 2).float() / config.rotary)
        angles = torch.arange(config.context).float()[:, None] * steps
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def initialise(self) -> None:
        """Draw the matrices: small for embedding and head, smaller for what writes to the residual stream."""
        for name, parameter in self.named_parameters():
            if parameter.dim() != 2 or name.endswith("conv"):
                continue
            std = 0.8 * parameter.shape[1] ** -0.5
            if name.startswith(("embedding", "head")):
                std = 0.02
            elif name.endswith(("mixer.o.weight", "mixer.out.weight", "down.weight")):
                std /= math.sqrt(2 * self.config.layers)
            nn.init.normal_(parameter, std=std)

    def hidden(self, tokens: Tensor) -> Tensor:
        """The normed hidden state after the last trunk layer."""
        x = self.embedding(tokens)
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.bfloat16)
        for block in self.blocks:
            x = block(x, self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]])
        return rms_norm(x, self.output_norm, self.config.eps)

    def mtp_hidden(self, hidden: Tensor, following: Tensor) -> Tensor:
        """From hidden[i] and token i+1, the hidden state that predicts token i+2."""
        assert self.mtp is not None
        m, eps, length = self.mtp, self.config.eps, hidden.shape[1]
        embedded = rms_norm(self.embedding(following).to(hidden.dtype), m.embedding_norm, eps)
        x = m.join(torch.cat([embedded, rms_norm(hidden, m.hidden_norm, eps)], -1))
        return rms_norm(m.block(x, self.cos[:length], self.sin[:length]), m.output_norm, eps)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of every position."""
        return self.head(self.hidden(tokens))
