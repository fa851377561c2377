"""Which model drafts when none is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretoken.cli.settings import engine_config
from foretoken.errors import ConfigError
from foretoken.models import draft_for, path_of


def drafting(model: Path, wish: str | None = None, spec_type: str = "auto") -> Path | None:
    config = engine_config(
        model,
        n_gpu_layers=-1,
        threads=1,
        spec_type=spec_type,
        draft_max=64,
        draft_min=0,
        draft_p_min=0.0,
        draft_model=wish,
        draft_gpu_layers=-1,
    )
    return config.speculation.draft_model and config.speculation.draft_model.path


def test_the_embedded_model_has_a_companion() -> None:
    assert drafting(path_of("mini")) == path_of("pico")
    assert drafting(path_of("mini"), spec_type="draft-model") == path_of("pico")


def test_it_can_be_sent_away() -> None:
    assert drafting(path_of("mini"), wish="none") is None
    assert drafting(path_of("mini"), spec_type="none") is None
    assert drafting(path_of("mini"), spec_type="copy,suffix") is None


def test_other_models_draft_for_none_but_by_name(tmp_path: Path) -> None:
    assert draft_for(path_of("nano")) is None
    assert drafting(tmp_path / "model.gguf") is None
    assert drafting(tmp_path / "model.gguf", wish="nano") == path_of("nano")


@pytest.mark.parametrize(("wish", "spec_type"), [("none", "draft-model"), ("nano", "copy")])
def test_contradictions_are_refused(wish: str, spec_type: str) -> None:
    with pytest.raises(ConfigError, match="-md"):
        drafting(path_of("mini"), wish, spec_type)
