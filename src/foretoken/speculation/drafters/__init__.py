"""The built-in drafters; those that only read text are listed here."""

from __future__ import annotations

from typing import Any

from foretoken.speculation.drafters.copy import CopyDrafter
from foretoken.speculation.drafters.ngram_cache import NgramCacheDrafter
from foretoken.speculation.drafters.ngram_map import NgramMapK4vDrafter, NgramMapKDrafter
from foretoken.speculation.drafters.ngram_mod import NgramModDrafter
from foretoken.speculation.drafters.ngram_simple import NgramSimpleDrafter
from foretoken.speculation.drafters.suffix import SuffixDrafter
from foretoken.speculation.drafters.text import TextDrafter

TEXT_DRAFTERS: tuple[type[TextDrafter[Any]], ...] = (
    NgramSimpleDrafter,
    NgramMapKDrafter,
    NgramMapK4vDrafter,
    NgramModDrafter,
    NgramCacheDrafter,
    SuffixDrafter,
    CopyDrafter,
)
