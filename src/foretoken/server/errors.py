"""Errors as clients see them: OpenAI's shape with llama.cpp's type names, or Anthropic's on its own endpoints."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from foretoken.errors import EngineStopped, ForetokenError, InvalidRequest, PromptTooLong, QueueFull

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    500: "server_error",
    501: "not_supported_error",
    503: "unavailable_error",
}
_ANTHROPIC = "/v1/messages"
_ANTHROPIC_TYPES = {413: "request_too_large", 500: "api_error", 501: "api_error", 503: "overloaded_error"}


class ApiError(Exception):
    """An answer that is an error: a status, a reason, and where to look."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        kind: str | None = None,
        retry_after: float | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.kind = kind or _TYPES.get(status, "invalid_request_error")
        self.retry_after = retry_after
        self.details = details

    def body(self, path: str = "") -> dict[str, Any]:
        """The error in the dialect of the endpoint that failed."""
        if path.startswith(_ANTHROPIC):
            kind = _ANTHROPIC_TYPES.get(self.status, _TYPES.get(self.status, "invalid_request_error"))
            return {"type": "error", "error": {"type": kind, "message": self.message}}
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.status,
                **self.details,
            }
        }

    def headers(self) -> dict[str, str]:
        if self.retry_after is None:
            return {}
        return {"retry-after": str(max(1, round(self.retry_after)))}


def as_api_error(error: Exception) -> ApiError:
    """Any failure as an answer; only what nobody foresaw is a 500."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, PromptTooLong):
        return ApiError(
            400,
            str(error),
            kind="exceed_context_size_error",
            n_prompt_tokens=error.n_prompt,
            n_ctx=error.n_ctx,
        )
    if isinstance(error, InvalidRequest):
        return ApiError(400, str(error))
    if isinstance(error, QueueFull):
        return ApiError(429, str(error), retry_after=1)
    if isinstance(error, EngineStopped):
        return ApiError(503, str(error), retry_after=5)
    if isinstance(error, ValidationError):
        return _invalid(error)
    if isinstance(error, ForetokenError):
        return ApiError(500, str(error))
    return ApiError(500, "the server failed to answer; its log says why")


def _invalid(error: ValidationError) -> ApiError:
    """The first thing that is wrong with a body, in words."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    param = ".".join(str(part) for part in first["loc"]) or None
    message = first["msg"].removeprefix("Value error, ")
    return ApiError(400, f"{param}: {message}" if param else message, param=param)
