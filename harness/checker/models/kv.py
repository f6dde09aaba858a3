"""A key-value store: put, get, and append to a string.

    {:f :put :key "a" :value "x"}   {:f :append :key "a" :value "y"}   {:f :get :key "a" :value nil} -> ok "xy"

Without appends each key is a register. With them its state is a string, and a search decides. What a search compares
is not characters, if that can be avoided: when no string that was written begins with another one, a concatenation of
them can be taken apart in one way only, so two of them are equal iff the sequences of their parts are. Then each part
is one symbol, however long; what a get found and cannot be taken apart so is a symbol that nobody wrote.

A key that was never put is nil, or "": stores differ, so both are the same here, unless an initial value is asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from harness.checker.linearizability.operations import APPEND, NIL, READ, WRITE
from harness.checker.models.bad_history import Misfit
from harness.checker.models.model import ABSENT, Question
from harness.checker.models.objects import ObjectModel, Rows, happened, known
from harness.checker.models.register import add as add_to_register
from harness.history.formats.pairing import Operation, Paired


def _build(rows: Rows, operations: Sequence[Operation], question: Question) -> None:
    initial = None if question.initial is ABSENT else question.initial
    if any(operation.f == "append" for operation in operations):
        _build_text(rows, operations, initial)
        return
    rows.initial = rows.values.number(initial)
    for operation in happened(operations):
        add_to_register(rows, _without_empty(operation) if question.initial is ABSENT else operation)


def _without_empty(operation: Operation) -> Operation:
    value, result = (None if found == "" else found for found in (operation.value, operation.result))
    return operation._replace(value=value, result=result)


def _build_text(rows: Rows, operations: Sequence[Operation], initial: Any) -> None:
    rows.engine = "text"
    changes = [operation for operation in happened(operations) if operation.f != "get"]
    texts = [_text(operation, operation.value) for operation in changes]
    if not isinstance(initial, str | None):
        raise Misfit(operations[0], "what is appended to must begin as a string")
    cut = _Cut(rows, [*texts, initial or ""])
    if initial:
        rows.initial = rows.add_list(cut(initial))
    for operation in happened(operations):
        if operation.f != "get":
            kind = APPEND if operation.f == "append" else WRITE
            rows.add(operation, kind, argument=rows.add_list(cut(operation.value)))
        elif known(operation):
            found = _text(operation, operation.result or "")
            rows.add(operation, READ, result=rows.add_list(cut(found)) if found else NIL)


def _text(operation: Operation, value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit(operation, "a key with appends holds strings")
    return value


class _Cut:
    """A string as symbols."""

    def __init__(self, rows: Rows, written: Sequence[str]) -> None:
        self._number = rows.values.number
        self._parts = sorted({text for text in written if text})
        self._longest = max(map(len, self._parts), default=0)
        self._unambiguous = not any(later.startswith(earlier) for earlier, later in pairwise(self._parts))

    def __call__(self, text: str) -> list[int]:
        if not self._unambiguous:
            return [self._number(character) for character in text]
        symbols = []
        at = 0
        while at < len(text):
            part = self._part_at(text, at)
            symbols.append(self._number(part))
            at += len(part)
        return symbols

    def _part_at(self, text: str, at: int) -> str:
        """What was written and is found there, or else all the rest. What sorts right before a string is its beginning."""
        ahead = text[at : at + self._longest]
        place = bisect_right(self._parts, ahead) - 1
        found = place >= 0 and text.startswith(self._parts[place], at)
        return self._parts[place] if found else text[at:]


def _has_gets(history: Paired) -> bool:
    return any(operation.f in ("get", "put") for operation in history.operations)


KV = ObjectModel(
    name="kv", functions=frozenset({"get", "put", "append"}), engine="kv", build=_build, looks_like=_has_gets
)
