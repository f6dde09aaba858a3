"""The fewest operations that contradict each other, whatever all the others did.

An operation may be weakened: an observer is left out; one that changes the state becomes one of unknown outcome, which
may have happened or not, whenever after its invocation. A legal history stays legal when operations are weakened, so
what is still illegal with most of them weakened is a contradiction between the few that are not. Chunks first, halved
until single operations are tried (Zeller's delta debugging); whatever cannot be decided cheaply stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harness.checker.linearizability.operations import (
    OBSERVERS,
    OPEN,
    Answer,
    Operations,
)

Flags = npt.NDArray[np.bool_]
Engine = Callable[[Operations], Answer]


def shrink(operations: Operations, answer: Answer, engine: Engine, seconds: float = 1.0) -> Answer:
    """The same answer with less evidence. Its first operation is the one whose completion nothing explains.

    `engine`: what decides; give it a small budget.
    """
    if answer.evidence is None:
        return answer
    deadline = time.monotonic() + seconds
    rows = np.array(answer.evidence.operations, np.int64)
    rows = rows[np.argsort(operations.invoked[rows], kind="stable")]
    end = operations.completed[answer.evidence.operations[0]]
    prefix = operations.invoked <= end
    rows = rows[operations.completed[rows] <= end]  # what was open then may have taken effect, or not
    strong = np.zeros(len(operations), bool)
    strong[rows] = True
    if not _still(operations, strong, prefix, engine):
        return answer
    size = max(1, len(rows) // 2)
    while True:
        progress = False
        for start in range(0, len(rows), size):
            if time.monotonic() > deadline:
                break
            fewer = strong.copy()
            fewer[rows[start : start + size]] = False
            if fewer.sum() < strong.sum() and _still(operations, fewer, prefix, engine):
                strong, progress = fewer, True
        rows = rows[strong[rows]]
        if time.monotonic() > deadline or (size == 1 and not progress):
            break
        size = max(1, size // 2)
    kept = [row for row in answer.evidence.operations if strong[row]]
    return replace(answer, evidence=replace(answer.evidence, operations=tuple(kept)))


def _still(operations: Operations, strong: Flags, prefix: Flags, engine: Engine) -> bool:
    return engine(weakened(operations, strong, prefix)).verdict == "illegal"


def weakened(operations: Operations, strong: Flags, kept: Flags) -> Operations:
    """Only `strong` operations stay what they are; of the `kept` others those that change the state may happen."""
    observer = np.isin(operations.kind, list(OBSERVERS))
    taken = operations.take(np.flatnonzero(strong | (kept & ~observer)))
    stays = strong[np.flatnonzero(strong | (kept & ~observer))]
    return replace(
        taken,
        completed=np.where(stays, taken.completed, OPEN),
        certain=taken.certain & stays,
    )
