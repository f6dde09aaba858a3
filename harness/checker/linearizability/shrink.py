"""The fewest operations that contradict each other, whatever all the others did.

An operation may be weakened: an observer is left out; one that changes the state becomes one of unknown outcome, which
may have happened or not, whenever after its invocation. A legal history stays legal when operations are weakened, so
what is still illegal with most of them weakened is a contradiction between the few that are not. First the few latest
ones are tried, then more of them, since most contradictions are short; of what is left chunks are weakened, halved until
single operations are tried (Zeller's delta debugging). Whatever cannot be decided cheaply stays.

A register that gets the same values over and over needs another way to forget: what had completed before some moment
matters only by the value that it left. So all of it is left out, and any value is tried as the first one:

    w(1) ... w(4) r: 4 w(2) ... w(3)   w(1)   r: 2        w(1) and r: 2 contradict each other, from whatever value
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.checker.linearizability.operations import (
    CAS,
    CAS_FAILED,
    NEVER,
    NIL,
    OBSERVERS,
    OPEN,
    READ,
    UNSEEN,
    WRITE,
    Answer,
    Int64s,
    Operations,
)

Flags = npt.NDArray[np.bool_]
Engine = Callable[[Operations, int], Answer]  # an initial state
FEW = 4  # operations that need no shrinking


def shrink(operations: Operations, answer: Answer, engine: Engine, initial: int = NIL, seconds: float = 1.0) -> Answer:
    """The same answer with less evidence. A search's first operation is the one whose completion nothing explains.

    `engine`: what decides; give it a small budget.
    """
    if answer.evidence is None:
        return answer
    rows = np.array(answer.evidence.operations, np.int64)
    ends = operations.completed[rows]
    end = ends[0] if answer.evidence.configurations else ends[ends != OPEN].max(initial=NEVER)
    kept = rows
    for forgets in (False, True):
        if not forgets or (len(kept) > FEW and len(operations.lists.starts) == 1):
            shrinking = _Shrinking(operations, end, engine, initial, forgets, time.monotonic() + seconds / 2)
            fewer = shrinking.run(rows)
            kept = kept if fewer is None or len(fewer) > len(kept) else fewer
    left = set(kept.tolist())
    order = tuple(row for row in answer.evidence.operations if row in left)
    return replace(answer, evidence=replace(answer.evidence, operations=order))


@dataclass
class _Shrinking:
    operations: Operations
    end: int  # what was invoked later does not matter
    engine: Engine
    initial: int
    forgets: bool  # leave out what had completed before the operations that are tried
    deadline: float

    def run(self, rows: Int64s) -> Int64s | None:
        """None: nothing smaller was found in time."""
        completed = self.operations.completed
        rows = rows[completed[rows] <= self.end]  # what was open then may have taken effect, or not
        if self.forgets and not self.operations.only(READ, WRITE, CAS, CAS_FAILED):
            return None
        rows = rows[np.argsort(completed[rows], kind="stable")]
        count = FEW
        while not self._still(rows[-count:]):
            if count >= len(rows) or self._late():
                return None
            count *= 4
        return self._fewer(rows[-count:])

    def _fewer(self, rows: Int64s) -> Int64s:
        size = max(1, len(rows) // 2)
        while True:
            progress = False
            start = 0
            while start < len(rows) and not self._late():
                fewer = np.delete(rows, slice(start, start + size))
                if len(fewer) and self._still(fewer):
                    rows, progress = fewer, True
                else:
                    start += size
            if self._late() or (size == 1 and not progress):
                return rows
            size = max(1, size // 2)

    def _late(self) -> bool:
        return time.monotonic() > self.deadline

    def _still(self, rows: Int64s) -> bool:
        """Illegal with only these unweakened?"""
        operations = self.operations
        strong = np.zeros(len(operations), bool)
        strong[rows] = True
        kept = operations.invoked <= self.end
        if self.forgets:
            kept &= operations.completed >= operations.completed[rows].min()
        some = weakened(operations, strong, kept)
        initials = _values(some) if self.forgets else [self.initial]
        return all(self.engine(some, initial).verdict == "illegal" for initial in initials)


def _values(operations: Operations) -> list[int]:
    """All that matter, and one that nobody observes."""
    observed = np.concatenate((operations.result[operations.kind == READ], operations.expected))
    return [*np.unique(observed).tolist(), UNSEEN + 2]


def weakened(operations: Operations, strong: Flags, kept: Flags) -> Operations:
    """Only `strong` operations stay what they are; of the `kept` others those that change the state may happen."""
    rows = np.flatnonzero(strong | (kept & ~np.isin(operations.kind, list(OBSERVERS))))
    taken, stays = operations.take(rows), strong[rows]
    return replace(taken, completed=np.where(stays, taken.completed, OPEN), certain=taken.certain & stays)
