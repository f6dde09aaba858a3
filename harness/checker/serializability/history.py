"""Transactions of a history: what each did, as micro-operations, and whether it happened.

    Operation(index=4, process=2, value=(("append", "x", 1), ("r", "y", None)), result=(("append", "x", 1), ("r", "y", (7,))))

    ->  row 3: micro-operations (("append", "x", 1), ("r", "y", (7,))), outcome OK, index 4, process 2

A transaction of unknown outcome happened if somebody saw something of it; what it read is not known. One that failed did
not happen, but what it wrote can be seen nevertheless, which is an anomaly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.checker.serializability.graph import OPEN, Int64s
from harness.history.formats.pairing import Operation, Paired
from workloads.op import Outcome

FAILED, UNKNOWN, OK = range(3)
_OUTCOMES = {Outcome.FAIL: FAILED, Outcome.INFO: UNKNOWN, Outcome.OK: OK}
READ = "r"
FUNCTIONS = frozenset({"txn"})


class NotATransaction(ValueError):
    """An op is none; the message says which and why. `row` is its place in the history."""

    def __init__(self, row: int, message: str) -> None:
        self.row = row
        super().__init__(message)


@dataclass(frozen=True, kw_only=True)
class Transactions:
    """Columns by row, the place of an op in the history."""

    operations: list[Operation]
    outcome: Int64s  # FAILED, UNKNOWN, OK
    process: Int64s  # numbered from 0; -1: unknown
    invoked: Int64s
    completed: Int64s  # OPEN: unknown


def columns(history: Paired) -> Transactions:
    operations = history.operations
    count = len(operations)
    names: dict[Any, int] = {None: -1}
    return Transactions(
        operations=operations,
        outcome=np.fromiter((_OUTCOMES[o.outcome] for o in operations), np.int64, count),
        process=np.fromiter((names.setdefault(o.process, len(names) - 1) for o in operations), np.int64, count),
        invoked=np.fromiter((o.invoked for o in operations), np.int64, count),
        completed=np.fromiter((OPEN if o.completed is None else o.completed for o in operations), np.int64, count),
    )


def micro_operations(history: Paired, write: str) -> Iterator[tuple[int, int, Any]]:
    """Row, outcome and micro-operations (f, key, value) of each transaction. NotATransaction."""
    for row, operation in enumerate(history.operations):
        outcome = _OUTCOMES[operation.outcome]
        answered = outcome == OK and operation.result is not None
        done = operation.result if answered else operation.value
        if type(done) is not tuple:
            if done is None and outcome != OK:
                continue
            raise NotATransaction(row, f"op {operation.index}: a transaction is a list of micro-operations")
        for micro in done:
            if not _is_micro(micro, write):
                message = f"{said(micro)} is neither [{READ} key value] nor [{write} key value]"
                raise NotATransaction(row, f"op {operation.index}: {message}")
        yield row, outcome, done if answered else tuple(micro for micro in done if micro[0] == write)


def _is_micro(micro: Any, write: str) -> bool:
    if type(micro) is not tuple or not micro:
        return False
    return (micro[0] == write and len(micro) == 3) or (micro[0] == READ and 2 <= len(micro) <= 3)


def looks_like(history: Paired, write: str) -> bool:
    """Whether all of a history are transactions of reads and this write, and there is such a write."""
    written = False
    for operation in history.operations:
        if operation.f not in FUNCTIONS or type(operation.value) not in (tuple, type(None)):
            return False
        for micro in operation.value or ():
            if not _is_micro(micro, write):
                return False
            written = written or micro[0] == write
    return written


def said(value: Any) -> str:
    """For people, at most 60 characters."""
    if type(value) is tuple:
        text = f"[{' '.join(map(said, value[:20]))}{' ...' if len(value) > 20 else ''}]"
    else:
        text = "nil" if value is None else value if type(value) is str else repr(value)
    return text if len(text) <= 60 else f"{text[:28]} ... {text[-27:]}"
