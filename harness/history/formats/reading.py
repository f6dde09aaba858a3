"""Read a history that another tool wrote, entry by entry, without holding the file in memory.

    for event in read_events(Path("history.edn")): ...

What it is, is seen from its first 64 KiB, unless told. Whatever is wrong with a file is a HistoryError with path, line
and column; a file that ends early is an error too, never a shorter history.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.history.errors import HistoryError
from harness.history.formats.edn import EdnError, Reader
from harness.history.formats.edn_values import Tagged
from harness.history.formats.event import Event, NotAnOp, event_of
from harness.history.formats.json_text import json_entries
from harness.history.formats.log_text import LINE, log_entries
from harness.history.formats.pieces import HEAD_BYTES, head, lines, pieces


class Format(StrEnum):
    JEPSEN_EDN = "jepsen-edn"  # one vector of op maps, or one map after the other
    JEPSEN_LOG = "jepsen-log"  # Jepsen's console
    JSONL = "jsonl"  # one object per line, or one array of objects
    EDN_LINES = "edn-lines"  # as jepsen-edn; keys and values of a key-value store: put, get, append


_KEY_VALUE = re.compile(rb":f\s+:(?:get|put|append)\b")
_OBJECT = re.compile(rb'\s*(?:\[\s*)?\{\s*"|\s*\[\s*\]\s*\Z|\s*\{\s*\}')
_EDN = re.compile(rb"[\s,]*[\[({;#]")
_ARCHIVES = {
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "compressed with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
}
_ARCHIVES |= {
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"PAR1": "a Parquet file, not a run directory",
}


def detect(path: Path) -> Format:
    """What a file is, from its content. HistoryError when it is none of the formats."""
    beginning = head(path)
    for magic, what in _ARCHIVES.items():
        if beginning.startswith(magic):
            raise HistoryError(path, "", f"is {what}; unpack it first")
    if beginning[257:262] == b"ustar":
        raise HistoryError(path, "", "is a tar archive; unpack it first")
    text = beginning.removeprefix(b"\xef\xbb\xbf")
    if not text.strip():
        raise HistoryError(path, "", "is empty: no history")
    if any(LINE.match(line.decode("utf-8", "replace")) for line in text.splitlines()):
        return Format.JEPSEN_LOG
    if _OBJECT.match(text):
        return Format.JSONL
    if _EDN.match(text):
        return Format.EDN_LINES if _KEY_VALUE.search(text) and b":key" in text else Format.JEPSEN_EDN
    known = ", ".join(Format)
    raise HistoryError(path, "line 1, column 1", f"is none of {known}, as far as its first {HEAD_BYTES} bytes tell")


def read_events(path: Path, format_name: Format | None = None) -> Iterator[Event]:
    """The entries of a file in its order. HistoryError, also in the middle, with path, line and column."""
    chosen = format_name or detect(path)
    if chosen is Format.JSONL:
        entries = json_entries(path)
    elif chosen is Format.JEPSEN_LOG:
        entries = log_entries(path)
    else:
        entries = _edn_entries(path)
    for number, (entry, line) in enumerate(entries):
        try:
            yield event_of(entry, number, line)
        except NotAnOp as error:
            where = f"line {line}, column 1" if line is not None else _place(path, number)
            raise HistoryError(path, where, str(error)) from None


def history_reader() -> Reader:
    """EDN as histories have it: ops one by one, names as plain strings."""
    return Reader(unwrap=True, keyword=sys.intern, symbol=sys.intern, tagged=_plain_tag)


def _plain_tag(tag: str, value: Any) -> Any:
    """Records are their maps, tuples of `jepsen.independent` are vectors; other tagged values stay what they are."""
    if isinstance(value, dict) or (isinstance(value, tuple) and tag.lower().endswith("tuple")):
        return value
    return Tagged(tag, value)


def _edn_entries(path: Path) -> Iterator[tuple[Any, None]]:
    reader = history_reader()
    try:
        for piece in pieces(path):
            for form in reader.feed(piece):
                yield form, None
        for form in reader.close():
            yield form, None
    except EdnError as error:
        raise HistoryError(path, f"line {error.line}, column {error.column}", error.reason) from None


def _place(path: Path, number: int) -> str:
    """Where entry `number` of an EDN file ends: read again line by line, since only now somebody asks."""
    reader = history_reader()
    seen = 0
    for line_number, line in lines(path):
        try:
            seen += len(list(reader.feed(line)))
        except EdnError:
            break
        if seen > number:
            return f"line {line_number}, column 1"
    return f"entry {number + 1}"
