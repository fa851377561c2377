"""Weights on disk, with the shape of the model they belong to."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from model import Config, Model


def save_weights(model: Model, path: Path) -> None:
    """Write shape and weights in half precision, atomically."""
    weights = {
        k: v.half() if v.dim() == 2 and not k.endswith("conv") else v for k, v in model.state_dict().items()
    }
    partial = path.with_suffix(".partial")
    torch.save({"config": asdict(model.config), "weights": weights}, partial)
    partial.replace(path)


def load_model(path: Path, device: str = "cpu") -> Model:
    """Read a model written by `save_weights`."""
    saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    model = Model(Config(**saved["config"]))
    model.load_state_dict({k: v.float() for k, v in saved["weights"].items()})
    return model.to(device)
