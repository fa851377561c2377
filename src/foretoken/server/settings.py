"""What an operator may choose about the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from foretoken.types import SamplingParams

Reasoning = Literal["on", "off", "auto"]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where to listen, whom to answer, how much to accept."""

    host: str = "127.0.0.1"
    port: int = 8080
    alias: str | None = None
    """The model's name in answers; None is the file's name."""
    api_keys: tuple[str, ...] = ()
    """Without keys everyone who can reach the port may ask."""
    cors_origins: tuple[str, ...] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)
    n_predict: int | None = None
    cache_prompt: bool = True
    slot_save_path: Path | None = None
    """Where clients may save what a slot holds; without it they may not."""
    reasoning: Reasoning = "auto"
    chat_template: str | None = None
    """Instead of the model's own."""
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_body: int = 16 << 20
    """Bytes of one request."""
    max_prompt: int | None = None
    """None is as many as the context holds."""
    max_choices: int = 128
    """Prompts times choices of one request."""
    max_streams: int | None = None
    """Requests of one key answered at the same time."""
    time_limit: float | None = None
    """Seconds after which an answer ends where it is."""
    keep_alive: float = 15.0
    """Seconds of silence after which a stream gets a comment, so that nobody in between closes it."""
    grace: float = 30.0
    """Seconds that running answers have to finish when the server is told to stop."""
    page: bool = True
    """Whether / shows a page."""
    keep_requests: int = 64
    """Requests of one key that are kept in memory for their pages."""
    patience: float = 60.0
    """Seconds beyond what a step should take after which the engine is taken for hung and started again."""
    log_prompts: bool = False
    responses_db: str = "auto"
    """The file that keeps responses; auto is one in the user's folder, none keeps nothing."""
    responses_max_bytes: int = 256 << 20
    """All responses together; those not used for longest are forgotten first."""
    responses_max_days: float = 30.0
