"""Mutexes whose holders are known: exact, O(n log n).

The argument of an acquire or release names the holder, who does one operation at a time. So each release has its own
acquire, and the two are a block that nothing may interrupt: a zone, as a chain of `zones` is one. A holder who never
released comes last, as if its block were to end after everything. A release of unknown outcome may as well happen (at
the very end, if not before); an acquire of unknown outcome that was not released is left out.
"""

from __future__ import annotations

import numpy as np

from harness.checker.linearizability.operations import (
    ACQUIRE,
    NIL,
    OPEN,
    RELEASE,
    Answer,
    Operations,
    Refused,
    illegal,
    legal,
)
from harness.checker.linearizability.zones import clash

ENGINE = "mutex-zones"


def mutex(operations: Operations, initial: int = NIL) -> Answer | Refused:
    if not operations.only(ACQUIRE, RELEASE) or initial != NIL:
        return Refused(ENGINE, "every operation acquires or releases a mutex that is free at first")
    order = np.lexsort((operations.completed, operations.invoked, operations.argument))
    holder = operations.argument[order]
    follows = np.concatenate(([False], holder[1:] == holder[:-1]))[: len(order)]
    before = np.concatenate(([0], order[:-1]))[: len(order)]
    if (follows & (operations.completed[before] >= operations.invoked[order])).any():
        return Refused(ENGINE, "every holder does one operation at a time")
    release = operations.kind[order] == RELEASE
    unpaired = np.flatnonzero(release & ~(follows & (operations.kind[before] == ACQUIRE)))
    if len(unpaired):
        return Refused(ENGINE, "every release follows an acquire of its holder")
    acquires = np.flatnonzero(~release)
    paired = np.append(release, False)[acquires + 1]
    kept = paired | operations.certain[order[acquires]]
    acquires, paired = acquires[kept], paired[kept]
    first = order[acquires]
    second = np.where(paired, np.append(order, 0)[acquires + 1], -1)
    pair = clash(operations.completed[first], np.where(paired, operations.invoked[second], OPEN))
    if pair is None:
        return legal(ENGINE)
    one, other = sorted(pair, key=lambda block: int(operations.invoked[first[block]]))
    sentence = f"acquires #{first[one]} and #{first[other]} both held it: neither was released before the other began"
    return illegal(ENGINE, sentence, first[one], first[other], second[one], second[other])
