"""Teach a draft model to say what its target said (see answers.py), with weights as they will be stored.

These are few texts: it would soon know them by heart, and be as sure of everything else. So in the requests
between the answers it is to go on thinking what it thought before.
"""

import argparse
import math
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from fetch import HERE
from model import Config, Model
from restore import restore
from weights import save_weights

BLOCK = 32
SEEN = 24  # tokens that a draft model has read before anything is asked of it
TOLD = 0.5  # the share of the loss that is the token said, not how likely the others were
N_CHECKS = 12
KEPT = 0.5  # the weight of what is to stay as it was


def as_stored(weights: Tensor) -> Tensor:
    """What Q4_0 makes of a matrix: 16 steps for each block of 32, the first at the value farthest from 0."""
    blocks = weights.reshape(-1, BLOCK)
    farthest = blocks.gather(1, blocks.abs().argmax(1, keepdim=True))
    step = (farthest / -8).half().float()
    inverse = torch.where(farthest == 0, 0.0, -8 / farthest)
    return (((blocks * inverse + 8.5).floor().clamp(0, 15) - 8) * step).reshape(weights.shape)


def stored_weights(model: Model) -> dict[str, Tensor]:
    """The parameters as they will be, with gradients as if they were not rounded."""
    return {
        name: p + (as_stored(p.detach()) - p.detach()) if p.dim() == 2 else p
        for name, p in model.named_parameters()
    }


class Windows:
    """Stretches of conversations as long as a draft model's context, beginning anywhere."""

    def __init__(self, files: list[Path], length: int, batch: int) -> None:
        self.length, self.batch = length, batch
        parts = [np.load(path) for path in files]
        self.tokens, self.best, self.chances = (
            np.concatenate([part[name] for part in parts]) for name in ("tokens", "best", "chances")
        )
        self.said = np.concatenate([part["kind"] & 1 for part in parts]).astype(bool)
        edges = [np.flatnonzero(np.diff(part["kind"] >> 1, prepend=-1)) for part in parts]
        offsets = np.cumsum([0, *(len(part["tokens"]) for part in parts)])
        self.starts = np.concatenate(
            [edge + offset for edge, offset in zip(edges, offsets[:-1], strict=True)]
        )
        self.ends = np.append(self.starts[1:], offsets[-1])

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        """Tokens; where to guess answers, and the likeliest there with their chances; places in between."""
        rng = np.random.default_rng(0)
        n_batches = len(self.starts) // self.batch
        while True:
            order = rng.permutation(len(self.starts))[: n_batches * self.batch]
            yield from (self._batch(chosen, rng) for chosen in order.reshape(n_batches, self.batch))

    def _batch(self, chosen: "np.typing.NDArray[np.intp]", rng: np.random.Generator) -> tuple[Tensor, ...]:
        tokens = np.zeros((self.batch, self.length + 1), np.int64)
        rows, places, others = [], [], []
        for row, number in enumerate(chosen):
            start, end = self.starts[number], self.ends[number]
            start += rng.integers(0, max(1, end - start - 3 * SEEN))
            end = min(end, start + self.length + 1)
            tokens[row, : end - start] = self.tokens[start:end]
            said = self.said[start:end]
            asked, other = (found[found >= SEEN] for found in (np.flatnonzero(said), np.flatnonzero(~said)))
            rows.append(np.stack([np.full_like(asked, row), asked - 1]))
            places.append(start + asked)
            others.append(np.stack([np.full_like(other, row), other - 1])[:, :: 1 + len(other) // 32])
        at, place = np.concatenate(rows, 1), np.concatenate(places)
        return (
            torch.from_numpy(tokens[:, :-1]),
            torch.from_numpy(at),
            torch.from_numpy(self.best[place].astype(np.int64)),
            torch.from_numpy(np.exp(self.chances[place].astype(np.float32))),
            torch.from_numpy(np.concatenate(others, 1)),
        )


def loss_of(
    model: Model, weights: dict[str, Tensor], batch: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss, how often the likeliest token is the one said, and the guesses at the places in between."""
    tokens, at, best, chances, others = batch
    logits = functional_call(model, weights, (tokens, torch.cat([at, others], 1)))
    guessed = F.log_softmax(logits.float(), -1)
    guessed, between = guessed[: at.shape[1]], guessed[at.shape[1] :]
    towards = -(chances * guessed.gather(1, best)).sum(1)
    told = -guessed.gather(1, best[:, :1]).squeeze(1)
    right = (guessed.argmax(1) == best[:, 0]).float().mean()
    return ((1 - TOLD) * towards + TOLD * told).mean(), right, between


class Draft(Model):
    """The model, asked for logits at some places only."""

    def forward(self, tokens: Tensor, at: Tensor) -> Tensor:
        return self.head(self.hidden(tokens)[at[0], at[1]])


def main() -> None:
    """Train for so many seconds, and tell how it goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("gguf", type=Path, help="the draft model to begin with")
    add("--said", type=Path, nargs="+", default=[HERE / "work" / "said.npz"])
    add("--held-out", type=Path, default=HERE / "work" / "said-held-out.npz")
    add("--config", type=Path, default=HERE / "configs" / "pico.json")
    add("--out", type=Path, default=HERE / "work" / "pico.pt")
    add("--seconds", type=float, default=1200)
    add("--rate", type=float, default=5e-4)
    add("--batch", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = Config.load(args.config)
    model = Draft(config)
    model.load_state_dict(restore(args.gguf, config).state_dict())
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.rate, betas=(0.9, 0.98))
    checks = list(islice(Windows([args.held_out], config.context, args.batch), N_CHECKS))

    def check(label: str, weights: dict[str, Tensor]) -> None:
        with torch.no_grad():
            found = [torch.stack(loss_of(model, weights, batch)[:2]) for batch in checks]
        loss, right = torch.stack(found).mean(0).tolist()
        print(f"held out, {label}: loss {loss:.4f}, right {right:.2%}", flush=True)

    check("as it was", dict(model.named_parameters()))
    check("rounded", {k: v.detach() for k, v in stored_weights(model).items()})
    begun, steps, mean = time.time(), 0, 0.0
    batches = iter(Windows(args.said, config.context, args.batch))
    while (progress := (time.time() - begun) / args.seconds) < 1:
        batch = next(batches)
        loss, _, between = loss_of(model, stored_weights(model), batch)
        with torch.no_grad():
            thought = functional_call(model, before, (batch[0], batch[-1])).softmax(-1)
        kept = F.kl_div(between, thought, reduction="batchmean")
        (loss + KEPT * kept).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        warm = min(1.0, (steps + 1) / 50)
        for group in optimizer.param_groups:
            group["lr"] = args.rate * warm * (0.02 + 0.98 * (1 + math.cos(math.pi * progress)) / 2)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps += 1
        mean += loss.item() / 50
        if steps % 50 == 0:
            print(
                f"{steps} steps, {time.time() - begun:.0f} s: loss {mean:.4f}, moved {kept.item():.4f}",
                flush=True,
            )
            mean = 0.0
        if steps % 300 == 0:
            check("rounded", {k: v.detach() for k, v in stored_weights(model).items()})
            save_weights(model, args.out)
    check("rounded", {k: v.detach() for k, v in stored_weights(model).items()})
    save_weights(model, args.out)


if __name__ == "__main__":
    main()
