"""A history as a few lines of EDN, judged in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.checker.foreign import Request, judge_path


def judged(path: Path, text: str, **request: Any) -> dict[str, Any]:
    path.write_text(text)
    return judge_path(path, Request(**request))


def ops(*lines: str) -> str:
    """`0 invoke read nil`: process, type, f, value as EDN, and more keys behind a `|`."""
    entries = []
    for line in lines:
        about, _, more = line.partition("|")
        process, kind, f, value = about.split(maxsplit=3)
        entries.append(f"{{:process {process}, :type :{kind}, :f :{f}, :value {value.strip()}{more and ', ' + more}}}")
    return "\n".join(entries) + "\n"


def types(answer: dict[str, Any]) -> list[str]:
    return [anomaly["type"] for anomaly in answer["anomalies"]]
