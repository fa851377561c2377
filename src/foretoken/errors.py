"""The errors a person can cause, each with what to do about it."""

from __future__ import annotations

from pathlib import Path


class ForetokenError(Exception):
    """Base of everything foretoken raises on purpose."""


class ModelLoadError(ForetokenError):
    """The model file cannot be used; the message carries the library's own reason."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot load {path}: {reason}")
        self.path = path
        self.reason = reason


class ContextError(ForetokenError):
    """The model is fine, but no context with these settings can be made for it."""


class ConfigError(ForetokenError):
    """A setting is wrong, or contradicts the model or another setting."""


class EncoderOnly(ConfigError):
    """The model looks at whole texts and cannot continue one."""


class InvalidRequest(ForetokenError):
    """The request can never be served as it is."""


class PromptTooLong(InvalidRequest):
    """The prompt leaves no room for an answer."""

    def __init__(self, n_prompt: int, n_ctx: int) -> None:
        super().__init__(
            f"the prompt has {n_prompt} tokens and a slot's context holds {n_ctx}; "
            f"shorten the prompt or start with a larger context (-c)"
        )
        self.n_prompt = n_prompt
        self.n_ctx = n_ctx


class QueueFull(ForetokenError):
    """Too many requests are waiting; try again later."""


class GrammarError(ForetokenError):
    """An answer cannot go on within its grammar: the grammar has become too complex to follow."""


class DecodeError(ForetokenError):
    """libllama refused or failed to compute a batch."""


class IntegrityError(ForetokenError):
    """The model's memory does not hold what the engine believes it holds."""


class EngineStopped(ForetokenError):
    """The engine was closed, or died, before the answer was complete."""
