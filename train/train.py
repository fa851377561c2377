"""The training loop: a schedule by time, checkpoints to go on from, distillation when a teacher is named."""

import math
import time
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

import model as models
from data import Batches, validation
from model import Config, Model
from optimizer import Optimizer
from settings import Settings, read_settings
from weights import load_model, save_weights

MTP_STEPS = 2  # how far the MTP layer is trained to run ahead on its own output


def cross_entropy(hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Mean loss by weight; targets below zero do not count."""
    logits = (hidden @ head.to(hidden.dtype).t()).float().flatten(0, 1)
    losses = F.cross_entropy(logits, targets.flatten(), reduction="none", ignore_index=-100)
    weights = weights.flatten() * (targets.flatten() >= 0)
    return (losses * weights).sum() / weights.sum()


def distillation(
    hidden: Tensor, head: Tensor, taught: Tensor, teacher_head: Tensor, targets: Tensor, weights: Tensor
) -> Tensor:
    """Mostly the distance to the teacher's distribution, with some of the plain loss."""
    student = F.log_softmax((hidden @ head.to(hidden.dtype).t()).float().flatten(0, 1), -1)
    teacher = F.softmax((taught @ teacher_head.to(taught.dtype).t()).float().flatten(0, 1), -1)
    towards = -(teacher * student).sum(-1)
    plain = F.nll_loss(student, targets.flatten(), reduction="none")
    weights = weights.flatten()
    return ((0.8 * towards + 0.2 * plain) * weights).sum() / weights.sum()


class Trainer:
    """Model, optimiser and data of one run."""

    def __init__(self, settings: Settings) -> None:
        self.s = settings
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = True
        self.model = Model(Config.load(settings.config)).to(self.device)
        self.window = min(settings.length, self.model.config.context)
        self.optimizer = Optimizer(self.model, settings.muon_rate, settings.adam_rate, settings.weight_decay)
        self.loss, self.distil = cross_entropy, distillation
        self.teacher = (
            Model(Config.load(settings.teacher_config)).to(self.device) if settings.teacher_config else None
        )
        if settings.compile:
            models.STEPS.compile()
            self.loss, self.distil = (torch.compile(f, dynamic=False) for f in (cross_entropy, distillation))
        s, weights = settings, (settings.answer_weight, settings.focus_weight)
        self.batches = Batches(s.shards, s.batch, s.length, s.dialogue_share, weights, self.device)
        self.checks = {
            name: validation(
                settings.shards / f"heldout-{name}.npy", settings.batch, settings.length, self.device
            )
            for name in ("plain", "dialogue")
        }
        self.elapsed = 0.0
        self.tokens = 0

    def forward(
        self, tokens: Tensor, weights: Tensor, mtp: bool, teacher: Model | None = None
    ) -> list[Tensor]:
        """The loss to train on (towards a teacher where there is one), then those of the MTP layer."""
        with torch.autocast(self.device, torch.bfloat16):
            inputs, targets = tokens[:, :-1], tokens[:, 1:]
            weights = weights[:, 1:]
            hidden = self.model.hidden(inputs.reshape(-1, self.window)).reshape(*inputs.shape, -1)
            if teacher is not None:
                with torch.no_grad():
                    taught = teacher.hidden(inputs)
                head = teacher.head.weight.detach()
                return [self.distil(hidden, self.model.head.weight, taught, head, targets, weights)]
            losses = [self.loss(hidden, self.model.head.weight, targets, weights)]
            hidden, head = hidden.detach(), self.model.head.weight.detach()
            for _ in range(MTP_STEPS if mtp else 0):
                hidden = self.model.mtp_hidden(hidden, targets.clamp(min=0))
                targets = torch.cat([targets[:, 1:], torch.full_like(targets[:, :1], -100)], 1)
                weights = torch.cat([weights[:, 1:], torch.zeros_like(weights[:, :1])], 1)
                losses.append(self.loss(hidden, head, targets, weights))
            return losses

    def scale(self, progress: float) -> float:
        """Learning rate over its peak: warm-up by steps, constant, then linear to almost zero by time."""
        warm = min(1.0, (self.optimizer.steps + 1) / self.s.warm_steps)
        return warm * min(1.0, max(0.002, (1 - progress) / self.s.decay_share))

    def step(self, progress: float) -> list[Tensor]:
        """One batch forward, backward and update; returns the losses."""
        tokens, weights = self.batches.take()
        mtp = self.model.config.mtp and progress >= self.s.mtp_from
        losses = self.forward(tokens, weights, mtp, self.teacher)
        torch.stack(losses).sum().backward()
        self.optimizer.step(self.scale(progress))
        self.model.zero_grad(set_to_none=True)
        self.tokens += tokens[:, 1:].numel()
        return [loss.detach() for loss in losses]

    def validate(self, mtp: bool) -> str:
        """Plain mean losses on held-out windows."""
        words = []
        for name, tokens in self.checks.items():
            # with gradients on, because without them every compiled piece would be compiled once more
            losses = [
                loss.item()
                for loss in self.forward(tokens, torch.ones_like(tokens, dtype=torch.float32), mtp)
            ]
            words.append(" ".join([name, *(f"{loss:.4f}" for loss in losses)]))
        return ", ".join(words)

    def warm_up(self) -> None:
        """Run every path once without learning, so that compiling does not eat into the schedule."""
        tokens, weights = self.batches.take()
        for mtp in (False, True) if self.model.config.mtp else (False,):
            torch.stack(self.forward(tokens, weights, mtp, self.teacher)).sum().backward()
            self.model.zero_grad(set_to_none=True)
        self.validate(self.model.config.mtp)
        torch.cuda.empty_cache()  # while it waits for its teacher, a run leaves the memory to the teacher's

    def seconds(self) -> float:
        """The length of the run; a file beside the weights may change it while the run goes on."""
        path = self.s.out.with_suffix(".seconds")
        return float(path.read_text()) if path.exists() else self.s.seconds

    def save(self) -> None:
        """Write the weights, and all that is needed to go on."""
        save_weights(self.model, self.s.out)
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state(),
            "elapsed": self.elapsed,
            "tokens": self.tokens,
        }
        partial = self.s.out.with_suffix(".state.partial")
        torch.save(state, partial)
        partial.replace(self.s.out.with_suffix(".state"))

    def resume(self) -> None:
        """Go on from the saved state, if there is one."""
        path = self.s.out.with_suffix(".state")
        if path.exists():
            state = torch.load(path, map_location=self.device, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load(state["optimizer"])
            self.elapsed, self.tokens = state["elapsed"], state["tokens"]
            print(f"going on after {self.elapsed:.0f} s, {self.optimizer.steps} steps", flush=True)

    def run(self) -> None:
        """Train until the time is up."""
        begun, saved, looked, reported = time.time() - self.elapsed, time.time(), time.time(), time.time()
        since, tokens_then, checked, seconds = 0.0, self.tokens, 0, self.seconds()
        while (progress := (time.time() - begun) / seconds) < 1 and self.optimizer.steps < self.s.steps:
            loss, *ahead = self.step(progress)
            since = since + loss
            if self.optimizer.steps % 25 == 0:
                self.elapsed, now = time.time() - begun, time.time()
                mean, speed = float(since) / 25, (self.tokens - tokens_then) / (now - reported)
                since, tokens_then, reported = 0.0, self.tokens, now
                tail = "".join(f" {extra.item():.3f}" for extra in ahead)
                data = self.batches.report()
                where = f"{self.optimizer.steps} {self.elapsed:.0f}s {self.tokens / 1e6:.0f}M"
                print(
                    f"{where} loss {mean:.4f}{tail} {speed / 1e3:.0f}k/s {data}",
                    flush=True,
                )
                if not math.isfinite(mean):
                    raise SystemExit("the loss is not a number")
            if time.time() - looked > 5:
                self.batches.refresh()
                seconds, looked = self.seconds(), time.time()
            if time.time() - saved > self.s.save_every:
                self.save()
                saved = time.time()
            if progress * 8 >= checked + 1:
                checked += 1
                print(f"held out at {progress:.0%}: {self.validate(bool(ahead))}", flush=True)
        self.elapsed = time.time() - begun
        self.save()
        summary = f"{self.optimizer.steps} steps, {self.tokens / 1e6:.0f}M tokens, {self.elapsed:.0f} s"
        print(f"done: {summary}; held out: {self.validate(self.model.config.mtp)}", flush=True)


def wait_for(path: Path) -> None:
    """Sleep until a file is there."""
    while not path.exists():
        time.sleep(0.5)


def main() -> None:
    """Train one model."""
    s = read_settings()
    wait_for(s.shards / "heldout-dialogue.npy")
    trainer = Trainer(s)
    size = sum(p.numel() for p in trainer.model.parameters()) / 1e6
    print(f"{size:.2f}M parameters on {trainer.device}", flush=True)
    while not trainer.batches.ready():
        time.sleep(0.5)
        trainer.batches.refresh()
    begun = time.time()
    trainer.warm_up()
    print(f"ready after {time.time() - begun:.0f} s", flush=True)
    if s.teacher and trainer.teacher is not None:
        wait_for(s.teacher)
        trainer.teacher.load_state_dict(load_model(s.teacher, trainer.device).state_dict())
        trainer.batches.refresh()
    if s.init:
        wait_for(s.init)
        trainer.model.load_state_dict(load_model(s.init, trainer.device).state_dict())
    trainer.resume()
    trainer.run()


if __name__ == "__main__":
    main()
