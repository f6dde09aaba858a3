"""One object's history as arrays, and what an engine answers about it.

Whatever the history came from (Kafka, a key-value log, Jepsen), engines see numbers only: values are interned, nil is
`NIL`, times are positions on one clock. Closed intervals: equal positions mean concurrent.

    kind   argument expected result invoked completed certain
    WRITE         1      NIL    NIL       0         5 True       wrote 1
    CAS           2        1    NIL       3         9 True       replaced 1 by 2
    READ        NIL      NIL      2       6        12 True       read 2
    WRITE         3      NIL    NIL      10      OPEN False      nobody knows: perhaps later, perhaps never

An operation that surely did not happen is left out by the caller, with one exception: a compare-and-set that failed
tells that the value was not `expected` (`CAS_FAILED`). `certain` without a completion (`OPEN`): it happened, at some
time after its invocation. Contents of sets, queues and texts are lists; a column then holds the number of a list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.checker.linearizability.log import NEVER, OPEN

__all__ = ["NEVER", "OPEN", "Answer", "BadOperations", "Evidence", "Operations", "Refused", "Spent"]

Int64s = npt.NDArray[np.int64]
Verdict = Literal["legal", "illegal", "unknown"]

NIL = -1  # no value: never written
UNSEEN = int(np.iinfo(np.int64).min) + 7  # the result of an operation whose answer nobody saw

READ, WRITE, CAS, CAS_FAILED = 0, 1, 2, 3  # register
ACQUIRE, RELEASE = 4, 5  # mutex; argument: the holder, one number for all if it does not matter who releases
ADD, FETCH_ADD = 6, 7  # counter; a fetch-and-add returns the value before
INSERT, REMOVE, CONTAINS = 8, 9, 10  # set; contains returns 0 or 1; READ returns the number of a sorted list
ENQUEUE, DEQUEUE, EMPTY = 11, 12, 13  # FIFO queue; EMPTY: a dequeue that found nothing
APPEND = 14  # text; argument: the number of a list of symbols; WRITE and READ name lists too

NAMES = (
    *("read", "write", "cas", "failed-cas", "acquire", "release", "add", "fetch-and-add"),
    *("insert", "remove", "contains", "enqueue", "dequeue", "empty", "append"),
)
OBSERVERS = frozenset({READ, CAS_FAILED, CONTAINS, EMPTY})  # never change the state


class BadOperations(ValueError):
    """The arrays are no history: names the row."""


class Lists(NamedTuple):
    """List number i is symbols[starts[i]:starts[i + 1]]."""

    starts: Int64s
    symbols: Int64s

    def list(self, number: int) -> list[int]:
        return [int(symbol) for symbol in self.symbols[self.starts[number] : self.starts[number + 1]]]


def lists_of(lists: list[list[int]]) -> Lists:
    lengths = [len(one) for one in lists]
    starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)
    return Lists(starts, np.array([symbol for one in lists for symbol in one], np.int64))


NO_LISTS = lists_of([])


@dataclass(frozen=True, kw_only=True)
class Operations:
    """Columns of equal length, one row per operation, in any order."""

    kind: Int64s
    argument: Int64s
    expected: Int64s
    result: Int64s
    invoked: Int64s
    completed: Int64s
    certain: npt.NDArray[np.bool_]
    lists: Lists = field(default=NO_LISTS)

    def __post_init__(self) -> None:
        columns = (self.kind, self.argument, self.expected, self.result, self.invoked, self.completed, self.certain)
        if len({len(column) for column in columns}) > 1:
            raise BadOperations(f"columns of unequal length: {[len(column) for column in columns]}")
        for wrong, why in (
            (self.completed < self.invoked, "completed before it was invoked"),
            (~self.certain & (self.completed != OPEN), "its outcome is unknown, so its completion must be OPEN"),
            ((self.kind < 0) | (self.kind >= len(NAMES)), "there is no such kind"),
        ):
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise BadOperations(f"operation {row}: {why}")

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: Int64s | npt.NDArray[np.bool_] | list[int]) -> Operations:
        return Operations(
            kind=self.kind[rows],
            argument=self.argument[rows],
            expected=self.expected[rows],
            result=self.result[rows],
            invoked=self.invoked[rows],
            completed=self.completed[rows],
            certain=self.certain[rows],
            lists=self.lists,
        )

    def has(self, *kinds: int) -> bool:
        return bool(np.isin(self.kind, kinds).any())

    def only(self, *kinds: int) -> bool:
        return bool(np.isin(self.kind, kinds).all())


class Configuration(NamedTuple):
    """One of the ways in which everything before the failing event can be explained."""

    state: int | list[int]  # UNSEEN: one that nobody read
    linearized: tuple[int, ...]  # open operations that took effect already


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Operations that contradict each other, smallest first choice; rows of the history that was asked about."""

    operations: tuple[int, ...]
    sentence: str  # "#7" is row 7
    configurations: tuple[Configuration, ...] = ()


class Spent(NamedTuple):
    steps: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    verdict: Verdict
    engine: str
    evidence: Evidence | None = None
    spent: Spent = field(default_factory=Spent)
    reason: str = ""  # of `unknown`: which budget ended it


@dataclass(frozen=True)
class Refused:
    """An exact engine's precondition does not hold; says which."""

    engine: str
    precondition: str


def legal(engine: str) -> Answer:
    return Answer(verdict="legal", engine=engine)


def illegal(engine: str, sentence: str, *operations: int) -> Answer:
    rows = tuple(dict.fromkeys(int(row) for row in operations if row >= 0))
    return Answer(verdict="illegal", engine=engine, evidence=Evidence(operations=rows, sentence=sentence))
