"""Ops out of Jepsen's console, where they stand between other lines:

    INFO  jepsen.util - 3<tab>:invoke<tab>:cas<tab>[3 0]
    INFO  jepsen.util - 3<tab>:info<tab>:cas<tab>:timed-out
    2026-01-02 10:11:12,345{GMT}  INFO  [jepsen worker 3] jepsen.util: 3<tab>:ok<tab>:read<tab>5

A line of jepsen.util that names a process and a type is an op, and must be readable as one; all other lines are not ours.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.history.errors import HistoryError
from harness.history.formats.edn import EdnError, Reader
from harness.history.formats.pieces import lines

LINE = re.compile(
    r"(?:.*\s)?INFO\s+(?:\[[^\]]*\]\s+)?jepsen\.util(?:\s+-|:)\s+(?P<process>:?[\w-]+)\s+:(?P<type>invoke|ok|fail|info)\b"
)
_REST = re.compile(r"\s+:(?P<f>[^\s:]+)\s+(?P<value>\S[^\t\n]*)(?:\t(?P<error>[^\n]*))?\s*")


def log_entries(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """(op as a map, line). HistoryError for a line that is an op but cannot be read."""
    for number, line in lines(path):
        beginning = LINE.match(line)
        if beginning is None:
            continue
        rest = _REST.fullmatch(line, beginning.end())
        if rest is None:
            where = f"line {number}, column {beginning.end() + 1}"
            raise HistoryError(path, where, "expected :F and a value, separated by tabs, after the type")
        name = beginning["process"]
        entry: dict[str, Any] = {
            "process": int(name) if name.isdecimal() and len(name) < 20 else name.removeprefix(":"),
            "type": beginning["type"],
            "f": sys.intern(rest["f"]),
            "value": _value(path, number, rest, "value"),
        }
        if rest["error"]:
            entry["error"] = rest["error"].strip()
        yield entry, number


def _value(path: Path, number: int, found: re.Match[str], group: str) -> Any:
    try:
        return _read(found[group].strip())
    except EdnError as error:
        where = f"line {number}, column {found.start(group) + error.column}"
        raise HistoryError(path, where, error.reason) from None


@lru_cache(maxsize=4096)
def _read(text: str) -> Any:
    reader = Reader(keyword=sys.intern, symbol=sys.intern)
    forms = [*reader.feed(text), *reader.close()]
    if len(forms) != 1:
        raise EdnError(f"expected one value, found {len(forms)}", 1, 1)
    return forms[0]
