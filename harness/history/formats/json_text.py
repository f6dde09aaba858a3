"""Histories in JSON: one object per line, or one array of objects (as elle-cli and others write them).

Stricter than Python's json: no key twice in one object, no NaN or Infinity, no half characters. Lists become tuples.
An array is read whole; lines are read one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.history.errors import HistoryError
from harness.history.formats.edn import MAX_DEPTH
from harness.history.formats.edn_atoms import MAX_DIGITS
from harness.history.formats.pieces import head, lines

_SCALARS = (str, int, float, bool, type(None))


class _Refused(ValueError):
    """JSON that Python would take and we do not."""


def json_entries(path: Path) -> Iterator[tuple[Any, int | None]]:
    """(object, its line). HistoryError with line and column."""
    if head(path).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[":
        yield from _array(path)
        return
    for number, line in lines(path):
        if line.strip():
            yield _value(path, line, number), number


def _array(path: Path) -> Iterator[tuple[Any, None]]:
    text = "".join(line for _, line in lines(path))
    value = _value(path, text, 1)
    if not isinstance(value, tuple):
        raise HistoryError(path, "line 1, column 1", "expected an array of ops")
    for entry in value:
        yield entry, None


def _value(path: Path, text: str, line: int) -> Any:
    try:
        return _plain(_DECODER.decode(text), 0)
    except json.JSONDecodeError as error:
        where = f"line {line + error.lineno - 1}, column {error.colno}"
        raise HistoryError(path, where, f"not JSON: {error.msg}") from None
    except (_Refused, RecursionError) as error:
        reason = str(error) if isinstance(error, _Refused) else f"nested deeper than {MAX_DEPTH}"
        raise HistoryError(path, f"line {line}, column 1", reason) from None


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise _Refused("half a character (an unpaired surrogate) in a string")
        return value
    if isinstance(value, _SCALARS):
        return value
    if depth >= MAX_DEPTH:
        raise _Refused(f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    return tuple([_plain(item, depth + 1) for item in value])


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Refused("an object with one key twice")
    return made


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _Refused(f"a number of more than {MAX_DIGITS} digits")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise _Refused(f"{digits[:40]} is too large for a floating-point number")
    return number


def _constant(name: str) -> float:
    raise _Refused(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant)
