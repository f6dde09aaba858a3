"""Counters that count by one: exact, O(n log n).

`unit_counter`: increments that answer nothing, and reads. The k-th increment takes slot k; a read of v stands between
the v-th and the next. So reads are ordered by what they read; an increment must come after every read that had
completed before it was invoked (slot > the largest of those) and before every read invoked after it completed (slot <=
the smallest of those); and every slot up to the largest read must be taken. Unit jobs with release times and
deadlines: earliest deadline first decides it. Increments of unknown outcome have no deadline.

`sequencer`: increments that answer what the counter was before. They name their slots, as appends to a log do: the
slot sweep of `log`. A value that was passed but that nobody got was taken by an increment of unknown outcome which was
invoked before anything later had completed; each such hole needs its own: match them in order.
"""

from __future__ import annotations

import heapq

import numpy as np

from harness.checker.linearizability.log import OPEN, inversions
from harness.checker.linearizability.operations import (
    ADD,
    FETCH_ADD,
    READ,
    UNSEEN,
    Answer,
    Int64s,
    Operations,
    Refused,
    illegal,
    legal,
)

UNIT = "unit-counter"
SEQUENCER = "sequencer-sweep"


def unit_counter(operations: Operations, initial: int = 0) -> Answer | Refused:
    if not operations.only(READ, ADD) or (operations.argument[operations.kind == ADD] != 1).any():
        return Refused(UNIT, "every operation reads or adds one")
    adds = np.flatnonzero(operations.kind == ADD)
    reads = np.flatnonzero((operations.kind == READ) & operations.certain)
    value = operations.result[reads] - initial
    if (value < 0).any():
        row = int(reads[value < 0][0])
        return illegal(UNIT, f"read #{row} returned less than the counter began with", row)
    invoked, completed = operations.invoked, operations.completed
    found = inversions(np.zeros_like(value), value, invoked[reads], completed[reads])
    if len(found.x):
        x, y = int(reads[found.x[0]]), int(reads[found.y[0]])
        return illegal(UNIT, f"read #{x} returned less than read #{y}, which had completed before it was invoked", x, y)
    by_end = np.argsort(completed[reads], kind="stable")
    most = np.concatenate(([0], np.maximum.accumulate(value[by_end])))
    release = 1 + most[np.searchsorted(completed[reads][by_end], invoked[adds], side="left")]
    by_start = np.argsort(invoked[reads], kind="stable")
    least = np.append(np.minimum.accumulate(value[by_start][::-1])[::-1], OPEN)
    deadline = least[np.searchsorted(invoked[reads][by_start], completed[adds], side="right")]
    deadline = np.where(operations.certain[adds], deadline, OPEN)
    last = int(value.max()) if len(value) else 0
    failed = _earliest_deadline_first(release, deadline, last)
    if failed is None:
        return legal(UNIT)
    return illegal(UNIT, failed, *_up_to(operations, adds, reads))


def _earliest_deadline_first(release: Int64s, deadline: Int64s, last: int) -> str | None:
    """Fill slots 1..last; what is wrong, if that cannot be done."""
    order = np.argsort(release, kind="stable").tolist()
    waiting: list[int] = []
    at = 0
    for slot in range(1, last + 1):
        while at < len(order) and release[order[at]] <= slot:
            heapq.heappush(waiting, int(deadline[order[at]]))
            at += 1
        if not waiting:
            return f"reads show {last} increments, but none can have been number {slot}"
        if heapq.heappop(waiting) < slot:
            return f"more increments had completed than reads show at {slot - 1}"
    left = waiting + deadline[order[at:]].tolist()
    return f"more increments had completed than reads show at {min(left)}" if left and min(left) <= last else None


def _up_to(operations: Operations, adds: Int64s, reads: Int64s) -> list[int]:
    return [*reads.tolist(), *adds.tolist()]


def sequencer(operations: Operations, initial: int = 0) -> Answer | Refused:
    adds = operations.kind == FETCH_ADD
    if not operations.only(READ, FETCH_ADD) or (operations.argument[adds] != 1).any():
        return Refused(SEQUENCER, "every operation reads or fetches and adds one")
    if (operations.certain & adds & (operations.result == UNSEEN)).any():
        return Refused(SEQUENCER, "every increment that is known to have happened returned a value")
    rows = np.flatnonzero(operations.certain)
    value = operations.result[rows] - initial
    if (value < 0).any():
        row = int(rows[value < 0][0])
        return illegal(SEQUENCER, f"operation #{row} returned less than the counter began with", row)
    slot = 2 * value + adds[rows]
    invoked, completed = operations.invoked[rows], operations.completed[rows]
    got = np.flatnonzero(adds[rows])
    order = got[np.argsort(value[got], kind="stable")]
    same = np.flatnonzero(value[order][1:] == value[order][:-1])
    if len(same):
        pair = rows[order[same[0]]], rows[order[same[0] + 1]]
        return illegal(SEQUENCER, f"operations #{pair[0]} and #{pair[1]} got the same value", *pair)
    found = inversions(np.zeros_like(slot), slot, invoked, completed)
    if len(found.x):
        x, y = rows[found.x[0]], rows[found.y[0]]
        sentence = f"operation #{x} was invoked after operation #{y} had completed, but got what came before"
        return illegal(SEQUENCER, sentence, x, y)
    return _holes(operations, initial, rows, slot, value[order])


def _holes(operations: Operations, initial: int, rows: Int64s, slot: Int64s, taken: Int64s) -> Answer:
    end = int((slot.max() + 1) // 2) if len(slot) else 0
    lost = np.flatnonzero(~operations.certain & (operations.kind == FETCH_ADD))
    lost = lost[np.argsort(operations.invoked[lost], kind="stable")]
    if end - len(taken) > len(lost):
        top = rows[np.argmax(slot)]
        sentence = f"operation #{top} shows {end} increments, {len(taken) + len(lost)} were invoked"
        return illegal(SEQUENCER, sentence, top, *rows[(slot % 2 == 1)], *lost)
    holes = np.setdiff1d(np.arange(end), taken)
    by_slot = np.argsort(slot, kind="stable")
    earliest = np.append(np.minimum.accumulate(operations.completed[rows][by_slot][::-1])[::-1], OPEN)
    due = earliest[np.searchsorted(slot[by_slot], 2 * holes + 1, side="right")]
    late = np.flatnonzero(operations.invoked[lost[: len(holes)]] > due)
    if not len(late):
        return legal(SEQUENCER)
    hole = int(holes[late[0]]) + initial
    after = rows[np.argsort(operations.completed[rows], kind="stable")]
    after = after[operations.result[after] - (operations.kind[after] == READ) >= hole]
    sentence = (
        f"value {hole} was passed when operation #{after[0]} completed, but no increment can have taken it by then"
    )
    return illegal(SEQUENCER, sentence, after[0], *rows, *lost)
