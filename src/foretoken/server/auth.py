"""API keys: who may ask, and whose request it is."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from pathlib import Path

from foretoken.errors import ConfigError

_PUBLIC = frozenset({"/health", "/v1/health", "/models", "/v1/models", "/"})
"""What llama.cpp's server answers without a key."""


def is_public(path: str, headers: Mapping[str, str]) -> bool:
    """Whether nobody needs a key for this: the page is static, it asks for the key itself."""
    shell = path.startswith("/requests/") and "text/html" in headers.get("accept", "")
    return path in _PUBLIC or path.startswith("/page/") or shell


class Keys:
    """Knows the keys only by their digests."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def owner(self, headers: Mapping[str, str]) -> str | None:
        """The owner a request belongs to; None when its key is missing or wrong."""
        if not self._digests:
            return ""
        offered = _digest(_offered(headers))
        # Every key is compared in full: how long it takes tells nothing.
        matches = [hmac.compare_digest(offered, known) for known in self._digests]
        return offered.hex()[:16] if any(matches) else None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _offered(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return headers.get("x-api-key", "")


def read_keys(given: Iterable[str], file: Path | None) -> tuple[str, ...]:
    """All keys: each may be a comma-separated list, a file has one per line; # begins a comment."""
    keys = [part.strip() for text in given for part in text.split(",")]
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the API keys in {file}: {error}") from None
        keys += [line.strip() for line in lines if not line.lstrip().startswith("#")]
        if not any(keys):
            raise ConfigError(f"{file} holds no API key; nobody could ask anything")
    return tuple(dict.fromkeys(key for key in keys if key))
