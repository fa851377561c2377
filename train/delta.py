"""The gated delta rule: a step-by-step reference and a chunked form that trains fast in plain PyTorch.

Shapes: B batch, T tokens, H heads, D head size, N chunks of C tokens, M = B·H.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

C = 64
BLOCK = 16
NORM_EPS = 1e-6


def unit(x: Tensor) -> Tensor:
    """Scale the last axis to length one, as libllama does."""
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + NORM_EPS)


def causal_conv(x: Tensor, weight: Tensor) -> Tensor:
    """Mix each channel with its own recent past: x [B, T, channels], weight [channels, width]."""
    length, width = x.shape[1], weight.shape[1]
    padded = F.pad(x, (0, 0, width - 1, 0))
    mixed = padded[:, :length] * weight[:, 0]
    for j in range(1, width):
        mixed = mixed + padded[:, j : j + length] * weight[:, j]
    return F.silu(mixed)


def recurrent(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """Run the rule token by token: q, k, v [B, T, H, D]; log decay and beta [B, T, H]."""
    q, k, v, decay, beta = (t.float() for t in (q, k, v, decay, beta))
    q, k = unit(q) * q.shape[-1] ** -0.5, unit(k)
    state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], q.shape[3])
    outputs = []
    for t in range(q.shape[1]):
        state = state * decay[:, t].exp()[..., None, None]
        recalled = torch.einsum("bhkv,bhk->bhv", state, k[:, t])
        update = (v[:, t] - recalled) * beta[:, t][..., None]
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], update)
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1)


class UnitLowerInverse(torch.autograd.Function):
    """(I + A)⁻¹ for strictly lower triangular A [..., C, C]: Neumann products in blocks, then merges."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        tf32 = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = (
            False  # the inverse amplifies rounding, so it needs full precision
        )
        with torch.autocast(a.device.type, enabled=False):
            inverse = invert_unit_lower(a.reshape(-1, C, C)).view(a.shape)
        torch.backends.cuda.matmul.allow_tf32 = tf32
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        with torch.autocast(grad.device.type, enabled=False):
            return -(inverse.mT @ grad.to(inverse.dtype) @ inverse.mT).tril(-1)


def invert_unit_lower(a: Tensor) -> Tensor:
    """Invert I + A for a batch of strictly lower triangular [C, C] matrices."""
    count = a.shape[0]
    diagonal = torch.stack([a[:, i : i + BLOCK, i : i + BLOCK] for i in range(0, C, BLOCK)], 1)
    power = diagonal.reshape(-1, BLOCK, BLOCK)
    inverse = torch.eye(BLOCK, device=a.device, dtype=a.dtype) - power
    for _ in range(3):  # (I - A)(I + A²)(I + A⁴)(I + A⁸), exact because A¹⁶ = 0
        power = torch.bmm(power, power)
        inverse = torch.baddbmm(inverse, inverse, power)
    inverse = inverse.view(count, C // BLOCK, BLOCK, BLOCK)
    size = BLOCK
    while size < C:
        upper, lower = inverse[:, 0::2], inverse[:, 1::2]
        pairs = upper.shape[1]
        corner = torch.stack(
            [
                a[:, (2 * j + 1) * size : (2 * j + 2) * size, 2 * j * size : (2 * j + 1) * size]
                for j in range(pairs)
            ],
            1,
        )
        merged = a.new_zeros(count, pairs, 2 * size, 2 * size)
        merged[:, :, :size, :size] = upper
        merged[:, :, size:, size:] = lower
        merged[:, :, size:, :size] = -(lower @ corner @ upper)
        inverse, size = merged, 2 * size
    return inverse[:, 0]


class ChunkScan(torch.autograd.Function):
    """Carry the state from chunk to chunk: new_n = u_n - w_n h_n; h_{n+1} = decay_n h_n + k_nᵀ new_n."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, u: Tensor, k: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        chunks, count, _, size = w.shape
        states = w.new_zeros(chunks + 1, count, size, u.shape[-1])
        new = torch.empty_like(u)
        for n in range(chunks):
            torch.baddbmm(u[n], w[n], states[n], alpha=-1, out=new[n])
            torch.mul(states[n], decay[n], out=states[n + 1])
            states[n + 1].baddbmm_(k[n].mT, new[n])
        ctx.save_for_backward(w, k, decay, states, new)
        return states[:chunks], new

    @staticmethod
    def backward(ctx: Any, grad_states: Tensor, grad_new: Tensor) -> tuple[Tensor, ...]:
        w, k, decay, states, new = ctx.saved_tensors
        chunks = w.shape[0]
        into_new = grad_new.clone(memory_format=torch.contiguous_format)
        into_state = torch.zeros_like(states)
        for n in range(chunks - 1, -1, -1):
            into_new[n].baddbmm_(k[n], into_state[n + 1])
            torch.addcmul(grad_states[n], into_state[n + 1], decay[n], out=into_state[n])
            into_state[n].baddbmm_(w[n].mT, into_new[n], alpha=-1)
        after, before = into_state[1:], states[:chunks]
        return -(into_new @ before.mT), into_new, new @ after.mT, (before * after).sum((-1, -2), keepdim=True)


def chunked(x: Tensor, heads: int) -> Tensor:
    """Lay [B, T, H, D] out as [N, B·H, C, D]."""
    batch, length = x.shape[:2]
    return (
        x.reshape(batch, length // C, C, heads, -1)
        .permute(1, 0, 3, 2, 4)
        .reshape(length // C, batch * heads, C, -1)
    )


def prepare(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> tuple[Tensor, ...]:
    """Everything inside a chunk that needs no neighbour: inputs as for `recurrent`."""
    heads, size, dtype = q.shape[2], q.shape[3], q.dtype
    q, k, v = (chunked(t, heads) for t in (q, k, v))
    beta = chunked(beta[..., None], heads)
    total = chunked(decay[..., None], heads)[..., 0].cumsum(-1)
    qf, kf = unit(q.float()) * size**-0.5, unit(k.float())
    index = torch.arange(C, device=q.device)
    causal = index[:, None] >= index
    between = (total[..., :, None] - total[..., None, :]).masked_fill(~causal, 0.0).exp()
    between = torch.where(causal, between, 0.0)
    since_start, last = total.exp()[..., None], total[..., -1:]
    kt = kf.to(dtype)
    a = (((kf * beta).to(dtype) @ kt.mT).float() * between).tril(-1)
    scores = ((qf.to(dtype) @ kt.mT).float() * between).to(dtype)
    keys_in, values_in = (kf * beta * since_start).to(dtype), (v.float() * beta).to(dtype)
    keys_out = kf * (last - total).exp()[..., None]
    return a, scores, keys_in, values_in, keys_out, last[..., None].exp(), (qf * since_start).to(dtype)


def scan(
    a: Tensor, keys_in: Tensor, values_in: Tensor, keys_out: Tensor, decay: Tensor
) -> tuple[Tensor, Tensor]:
    """Solve each chunk's triangular system and carry the state through the sequence."""
    inverse = UnitLowerInverse.apply(a)
    with torch.autocast(a.device.type, enabled=False):
        solve = inverse.to(keys_in.dtype)
        w, u = (solve @ keys_in).float(), (solve @ values_in).float()
        return ChunkScan.apply(w, u, keys_out.float(), decay.float())


def combine(scores: Tensor, queries: Tensor, states: Tensor, new: Tensor, batch: int, heads: int) -> Tensor:
    """Outputs of all chunks from the carried states and the chunk's own new values, as [B, T, H, D]."""
    chunks, _, _, size = queries.shape
    dtype = queries.dtype
    out = (queries @ states.to(dtype)).float() + (scores @ new.to(dtype)).float()
    return (
        out.to(dtype)
        .view(chunks, batch, heads, C, size)
        .permute(1, 0, 3, 2, 4)
        .reshape(batch, chunks * C, heads, size)
    )
