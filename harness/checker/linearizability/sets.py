"""Grow-only sets whose elements are unique: exact, O(total size of the reads).

Reads of the whole set must form a chain by inclusion; that is their order. An element was added between the last read
without it and the first read with it. So put reads of the i-th size at slot 2i, elements first read there at slot
2i - 1, elements that nobody read at the end, and sweep (see `log`):

    r: {}   add(1)  r: {1}   add(2) add(3)  r: {1, 2, 3}      slots 0, 1, 2, 3 3, 4

Adds at one slot may take effect in any order, so any order that real time asks for will do. An add of unknown outcome
that nobody read is left out.
"""

from __future__ import annotations

import numpy as np

from harness.checker.linearizability.log import inversions
from harness.checker.linearizability.operations import (
    INSERT,
    NIL,
    READ,
    Answer,
    Int64s,
    Operations,
    Refused,
    illegal,
    legal,
)

ENGINE = "set-sweep"


def grow_only_set(operations: Operations, initial: int = NIL) -> Answer | Refused:
    """Decides inserts of unique elements and reads of everything, from an empty set."""
    if not operations.only(READ, INSERT):
        return Refused(ENGINE, "every operation inserts an element or reads the whole set")
    if initial != NIL:
        return Refused(ENGINE, "the set is empty at first")
    inserts = np.flatnonzero(operations.kind == INSERT)
    elements, place = np.unique(operations.argument[inserts], return_inverse=True)
    if len(elements) < len(inserts):
        return Refused(ENGINE, "every element is inserted once")
    reads = np.flatnonzero((operations.kind == READ) & operations.certain)
    starts = operations.lists.starts
    sizes = np.diff(starts)[operations.result[reads]]
    known = 0  # how many elements the largest read so far has
    first = np.full(len(elements), -1, np.int64)  # the first read, by size, that has an element
    rank = np.zeros(len(reads), np.int64)
    reader: list[int] = []  # some read of each size
    for index in np.argsort(sizes, kind="stable").tolist():
        read, number = int(reads[index]), int(operations.result[reads[index]])
        held = operations.lists.symbols[starts[number] : starts[number + 1]]
        where, strange = _find(elements, held)
        if len(strange):
            return illegal(ENGINE, f"read #{read} returned an element that nobody inserted", read)
        new = where[first[where] < 0]
        if len(held) - len(new) < known:
            other = reader[-1]
            return illegal(ENGINE, f"reads #{other} and #{read} each lack an element that the other has", read, other)
        if not reader or len(new):
            reader.append(read)
            known = len(held)
        rank[index] = len(reader) - 1
        first[new] = rank[index]
    return _swept(operations, inserts, first[place], reads, rank, reader)


def _find(elements: Int64s, held: Int64s) -> tuple[Int64s, Int64s]:
    """Where they are among `elements`, and those that are not."""
    if not len(elements):
        return np.empty(0, np.int64), held
    where = np.minimum(np.searchsorted(elements, held), len(elements) - 1)
    return where, held[elements[where] != held]


def _swept(
    operations: Operations, inserts: Int64s, first: Int64s, reads: Int64s, rank: Int64s, reader: list[int]
) -> Answer:
    kept = (first >= 0) | operations.certain[inserts]
    inserts, first = inserts[kept], first[kept]
    rows = np.concatenate((inserts, reads))
    slot = np.concatenate((np.where(first >= 0, 2 * first - 1, 2 * len(reader)), 2 * rank))
    found = inversions(np.zeros_like(rows), slot, operations.invoked[rows], operations.completed[rows])
    if not len(found.x):
        return legal(ENGINE)
    x, y = int(found.x[0]), int(found.y[0])
    between = reader[(int(slot[x]) + 1) // 2]  # it has what came at x's slot and lacks what came later
    sentence = (
        f"operation #{rows[y]} had completed before operation #{rows[x]} was invoked, but reads show it came later"
    )
    return illegal(ENGINE, sentence, rows[x], rows[y], between)
