"""Random histories of `tests.strategies`, written down as another tool would: one EDN map per line."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from harness.history.formats.edn_values import Keyword
from harness.history.formats.edn_writer import write
from tests.harness.checker.linearizability.brute_force import Op

Entry = dict[Keyword, Any]
Spelling = Callable[[Op], tuple[str, Any, Any]]  # f, value as invoked, value as completed

_NAMES = {"write": "write", "insert": "add", "empty": "dequeue", "failed-cas": "cas"}


def spelled(op: Op) -> tuple[str, Any, Any]:
    """The usual words of Jepsen."""
    f = _NAMES.get(op.kind, op.kind)
    if op.kind in ("cas", "failed-cas"):
        value = (op.expected, op.argument)
        return f, value, value
    if op.kind in ("read", "dequeue", "empty"):
        return f, None, op.result
    if op.kind in ("contains", "fetch-and-add"):
        return f, op.argument, op.result
    if op.kind in ("acquire", "release"):
        return f, None, None
    return f, op.argument, op.argument


def spelled_as_store(op: Op) -> tuple[str, Any, Any]:
    f, value, result = spelled(op)
    return {"write": "put", "read": "get"}.get(f, f), value, result


def entries(
    ops: Sequence[Op], rng: random.Random, *, key: Any = None, spell: Spelling = spelled, by_holder: bool = False
) -> list[tuple[int, int, Entry]]:
    """(time, 1 for completions, entry). Each op has a process of its own, or its argument is one. Reads of unknown
    outcome have no value; half of the unknown ops are never completed.
    """
    end = max((op.completed or op.invoked for op in ops), default=0) + 1
    found = []
    for number, op in enumerate(ops):
        f, value, result = spell(op)
        process = op.argument if by_holder else number + (0 if key is None else 100 * key)
        about = {"process": process, "f": Keyword(f)} | ({} if key is None else {"key": key})
        found.append((op.invoked, 0, _entry(about, "invoke", value, op.invoked)))
        completed = end if op.completed is None else op.completed
        if op.certain:
            kind = "fail" if op.kind == "failed-cas" else "ok"
            found.append((completed, 1, _entry(about, kind, result, completed)))
        elif rng.random() < 0.5:
            found.append((end, 1, _entry(about, "info", value, end)))
    return found


def failed(ops: Sequence[Op], rng: random.Random, spell: Spelling = spelled) -> list[tuple[int, int, Entry]]:
    """The same ops by other processes, none of which happened, and a nemesis."""
    found = []
    for number, op in enumerate(ops):
        f, value, _ = spell(op)
        about = {"process": 1000 + number, "f": Keyword(f)}
        found.append((op.invoked, 0, _entry(about, "invoke", value, op.invoked)))
        refused = {**_entry(about, "fail", value, op.invoked), Keyword("error"): Keyword("no-leader")}
        found.append((op.invoked, 1, refused))
    nemesis = _entry({"process": Keyword("nemesis"), "f": Keyword("start")}, "info", None, 0)
    return [*found, (0, rng.randrange(2), nemesis)]


def as_edn(*parts: Sequence[tuple[int, int, Entry]]) -> str:
    ordered = sorted((entry for part in parts for entry in part), key=lambda entry: entry[:2])
    return "".join(write(entry) + "\n" for _, _, entry in ordered)


def _entry(about: dict[str, Any], kind: str, value: Any, time: int) -> Entry:
    named = {**about, "type": Keyword(kind), "value": value, "time": time}
    return {Keyword(name): item for name, item in named.items()}
