"""Muon for the matrices inside layers, AdamW for embeddings, head, norms and other vectors."""

import math
from typing import Any

import torch
from torch import Tensor

from model import Model

STACKED = {
    "qkv.weight": 3,
    "gate_up.weight": 2,
}  # projections that hold several matrices, orthogonalised one by one


def orthogonalise(x: Tensor) -> Tensor:
    """Newton-Schulz steps towards the nearest semi-orthogonal matrix, batched over the first axis."""
    x = x.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x.mT if tall else x


class Optimizer:
    """Both optimisers behind one step; rates are scaled by the schedule."""

    def __init__(self, model: Model, muon_rate: float, adam_rate: float, decay: float) -> None:
        self.muon_rate, self.decay = muon_rate, decay
        self.steps = 0
        self.groups: dict[tuple[int, int, bool], list[tuple[torch.nn.Parameter, int]]] = {}
        self.momentum: dict[str, Tensor] = {}
        self.names: dict[int, str] = {}
        tables, vectors = [], []
        for name, parameter in model.named_parameters():
            inside = name.startswith(("blocks", "mtp")) and parameter.dim() == 2
            if inside and not name.endswith(("conv", "beta_alpha.weight")):
                count = next((n for end, n in STACKED.items() if name.endswith(end)), 1)
                key = (parameter.shape[0] // count, parameter.shape[1], name.startswith("mtp"))
                self.groups.setdefault(key, []).append((parameter, count))
                self.momentum[name], self.names[id(parameter)] = torch.zeros_like(parameter), name
            else:
                (tables if name.startswith(("embedding", "head")) else vectors).append(parameter)
        self.clipped = tables + vectors
        fused = next(model.parameters()).is_cuda
        groups = [{"params": tables, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(groups, lr=adam_rate, betas=(0.9, 0.95), eps=1e-10, fused=fused)
        self.adam_rate = adam_rate

    def step(self, scale: float) -> None:
        """Update all parameters that have gradients."""
        torch.nn.utils.clip_grad_norm_([p for p in self.clipped if p.grad is not None], 1.0)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_rate * scale
        self.adam.step()
        self._muon(self.muon_rate * scale, min(0.95, 0.85 + 0.1 * self.steps / 300))
        self.steps += 1

    @torch.no_grad()
    def _muon(self, rate: float, beta: float) -> None:
        for (rows, columns, _), members in self.groups.items():
            active = [(p, n) for p, n in members if p.grad is not None]
            if not active:
                continue
            parameters = [p for p, _ in active]
            gradients: list[Any] = [p.grad for p in parameters]
            momenta = [self.momentum[self.names[id(p)]] for p in parameters]
            torch._foreach_lerp_(momenta, gradients, 1 - beta)
            updates = torch._foreach_lerp(gradients, momenta, beta)
            stacked = torch.cat([u.view(n, rows, columns) for u, (_, n) in zip(updates, active, strict=True)])
            direction = orthogonalise(stacked).float() * (0.2 * math.sqrt(max(rows, columns)))
            parts = direction.split([n for _, n in active])
            torch._foreach_mul_(parameters, 1 - rate * self.decay)
            torch._foreach_add_(
                parameters, [d.reshape(p.shape) for d, p in zip(parts, parameters, strict=True)], alpha=-rate
            )

    def state(self) -> dict[str, Any]:
        """Everything needed to go on later."""
        return {"adam": self.adam.state_dict(), "momentum": self.momentum, "steps": self.steps}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.adam.load_state_dict(state["adam"])
        for name, tensor in state["momentum"].items():
            self.momentum[name].copy_(tensor)
        self.steps = state["steps"]
