"""Durations as people write them in specs and flags: `60s`, `1.5m`, `500ms`, `2h`, or a number of seconds."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")


def parse_seconds(text: Any) -> float:
    """Seconds of `60s`, `1.5m`, `500ms`, `2h` or a bare number.

    Raises ValueError, saying what was expected, for anything else.
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        if text < 0:
            raise ValueError("expected a duration that is not negative")
        return float(text)
    match = _PATTERN.fullmatch(str(text).strip())
    if match is None:
        raise ValueError("expected a duration such as 60s, 1.5m, 500ms or 2h")
    return float(match[1]) * _UNITS[match[2] or "s"]


def format_seconds(seconds: float) -> str:
    """The shortest of the spellings that `parse_seconds` reads back exactly."""
    if seconds >= 60 and seconds % 60 == 0:
        return f"{seconds / 60:g}m"
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds:g}s"


Seconds = Annotated[
    float,
    BeforeValidator(parse_seconds),
    PlainSerializer(format_seconds, when_used="json"),
    WithJsonSchema({"type": ["string", "number"], "examples": ["60s", "1.5m", "500ms"]}),
]
