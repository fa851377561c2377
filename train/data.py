"""Batches of token windows from shards, on the training device; shards may still be arriving."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shards import ANSWER


class Windows:
    """Windows of one kind of shard: each token once per pass, in random order."""

    def __init__(
        self, folder: Path, prefix: str, length: int, device: str, aligned: float, seed: int = 0
    ) -> None:
        self.folder, self.prefix, self.length, self.device, self.aligned = (
            folder,
            prefix,
            length,
            device,
            aligned,
        )
        self.rng = np.random.default_rng(seed)
        self.files: set[Path] = set()
        self.tokens = torch.zeros(0, dtype=torch.int16, device=device)
        self.starts = torch.zeros(0, dtype=torch.int64, device=device)
        self.queue: list[int] = []
        self.passes = 0
        self.refresh()

    def refresh(self) -> None:
        """Take in shards that were written since the last look."""
        new = sorted(set(self.folder.glob(f"{self.prefix}-*.npy")) - self.files)
        if not new:
            return
        self.files.update(new)
        before = len(self.tokens)
        arrays = [torch.from_numpy(np.load(path).view(np.int16)).to(self.device) for path in new]
        self.tokens = torch.cat([self.tokens, *arrays])
        self.starts = torch.nonzero(self.tokens == 0)[:, 0] + 1  # token 0 ends every document
        self.queue = self._shuffled(before) + self.queue
        self.rng.shuffle(self.queue)

    def _shuffled(self, begin: int) -> list[int]:
        offset = int(self.rng.integers(0, self.length))
        places = np.arange(begin + offset, len(self.tokens) - self.length - 1, self.length)
        return self.rng.permutation(places).tolist()

    def ready(self, count: int) -> bool:
        """Tell whether there are enough tokens for a batch."""
        return len(self.tokens) > (count + 2) * self.length

    def take(self, count: int) -> Tensor:
        """Draw windows of length + 1 tokens; a share of them begins at the start of a document."""
        while len(self.queue) < count:
            self.passes += 1
            self.queue = self._shuffled(0) + self.queue
        places = torch.tensor([self.queue.pop() for _ in range(count)], device=self.device)
        following = torch.searchsorted(self.starts, places).clamp(max=len(self.starts) - 1)
        start = self.starts[following]
        usable = (start < len(self.tokens) - self.length - 1) & (
            torch.rand(count, device=self.device) < self.aligned
        )
        places = torch.where(usable, start, places)
        return (
            self.tokens[places[:, None] + torch.arange(self.length + 1, device=self.device)].long() & 0xFFFF
        )


class Batches:
    """Mixed batches of plain text and dialogues."""

    def __init__(
        self,
        folder: Path,
        batch: int,
        length: int,
        dialogue_share: float,
        weights: tuple[float, float],
        device: str,
    ) -> None:
        self.plain = Windows(folder, "plain", length, device, aligned=0.35)
        self.dialogue = Windows(folder, "dialogue", length, device, aligned=1.0, seed=1)
        self.batch, self.device = batch, device
        self.n_dialogue = round(batch * dialogue_share)
        answer, focus = weights
        self.weights = torch.tensor([1.0, answer, focus, 0.0], device=device)  # by the two marks of a token

    def refresh(self) -> None:
        """Look for new shards of both kinds."""
        self.plain.refresh()
        self.dialogue.refresh()

    def ready(self) -> bool:
        """Tell whether a first batch can be drawn."""
        return self.plain.ready(self.batch) and self.dialogue.ready(self.batch)

    def report(self) -> str:
        """How much data there is by now and how often it was passed."""
        kinds = (self.plain, self.dialogue)
        return " ".join(f"{k.prefix} {len(k.tokens) / 1e6:.0f}M x{k.passes}" for k in kinds)

    def take(self) -> tuple[Tensor, Tensor]:
        """Tokens [batch, length + 1] and the weights of their losses."""
        dialogue, plain = self.dialogue.take(self.n_dialogue), self.plain.take(self.batch - self.n_dialogue)
        drawn = torch.cat([dialogue, plain])[torch.randperm(self.batch, device=self.device)]
        return drawn % ANSWER, self.weights[drawn // ANSWER]


def validation(path: Path, count: int, length: int, device: str) -> Tensor:
    """The first windows of a shard, without marks."""
    tokens = torch.from_numpy(np.load(path).astype(np.int64) % ANSWER).to(device)
    count = min(count, (len(tokens) - 1) // length)
    return torch.stack([tokens[i * length : (i + 1) * length + 1] for i in range(count)])
