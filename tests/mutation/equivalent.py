"""Survivors that decide what the original decides, each with the reason. Names are those of docs/mutation.jsonl."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
