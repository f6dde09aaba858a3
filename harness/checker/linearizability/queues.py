"""FIFO queues whose values are unique and whose dequeues all were answered: exact, O(n log n).

What was enqueued first must be dequeued first. With unique values each dequeue names its enqueue, and everything that
can be wrong is wrong between at most two values (Bouajjani, Emmi, Enea and Hamza, 2015):

    a value is dequeued that nobody enqueued, or twice, or before its enqueue was invoked;
    a was enqueued before b (completed before b's enqueue was invoked), yet b's dequeue had completed before a's was
    invoked, or a was never dequeued;

and a dequeue that found nothing contradicts values that, one after the other, were in the queue all the while: each is
there for sure after its enqueue completed and before its dequeue was invoked.

    enqueue 1 [0, 1]   enqueue 2 [3, 4]   dequeue 1 [6, 7]      empty [2, 9]      1 is there in (1, 6), 2 from 4 on

An enqueue of unknown outcome that nobody dequeued is left out. Dequeues whose answer nobody saw are refused.
"""

from __future__ import annotations

import numpy as np

from harness.checker.linearizability.log import NEVER, OPEN
from harness.checker.linearizability.operations import (
    DEQUEUE,
    EMPTY,
    ENQUEUE,
    NIL,
    UNSEEN,
    Answer,
    Int64s,
    Operations,
    Refused,
    illegal,
    legal,
)

ENGINE = "queue-sweep"


def fifo_queue(operations: Operations, initial: int = NIL) -> Answer | Refused:
    if not operations.only(ENQUEUE, DEQUEUE, EMPTY):
        return Refused(ENGINE, "every operation enqueues a value or dequeues")
    if initial != NIL:
        return Refused(ENGINE, "the queue is empty at first")
    enqueues = np.flatnonzero(operations.kind == ENQUEUE)
    dequeues = np.flatnonzero(operations.kind == DEQUEUE)
    if (operations.result[dequeues] == UNSEEN).any() or not operations.certain[dequeues].all():
        return Refused(ENGINE, "every dequeue is known to have happened and what it returned was seen")
    values, place = np.unique(operations.argument[enqueues], return_inverse=True)
    if len(values) < len(enqueues):
        return Refused(ENGINE, "every value is enqueued once")
    enqueue = np.empty(len(values), np.int64)
    enqueue[place] = enqueues
    where = np.searchsorted(values, operations.result[dequeues])
    strange = np.append(values, UNSEEN)[where] != operations.result[dequeues]
    if strange.any():
        row = int(dequeues[strange][0])
        return illegal(ENGINE, f"dequeue #{row} returned a value that nobody enqueued", row)
    dequeue = np.full(len(values), -1, np.int64)
    dequeue[where] = dequeues
    again = dequeues[dequeue[where] != dequeues]
    if len(again):
        one = int(again[0])
        other = int(dequeue[where[dequeues == one]][0])
        enqueued = int(enqueue[where[dequeues == one]][0])
        return illegal(ENGINE, f"dequeues #{one} and #{other} returned the same value", one, other, enqueued)
    early = np.flatnonzero(operations.completed[dequeues] < operations.invoked[enqueue[where]])
    if len(early):
        pair = int(enqueue[where[early[0]]]), int(dequeues[early[0]])
        return illegal(ENGINE, f"dequeue #{pair[1]} had completed before enqueue #{pair[0]} was invoked", *pair)
    found = _overtaken(operations, enqueue, dequeue)
    return found if found.verdict == "illegal" else _never_empty(operations, enqueue, dequeue)


def _overtaken(operations: Operations, enqueue: Int64s, dequeue: Int64s) -> Answer:
    """Both are rows, by value; dequeue -1: it was not."""
    if not len(enqueue):
        return legal(ENGINE)
    came_out = dequeue >= 0
    leaves = np.where(came_out, operations.invoked[dequeue], OPEN)
    order = np.argsort(operations.completed[enqueue], kind="stable")
    latest = np.maximum.accumulate(leaves[order])
    b = np.flatnonzero(came_out)
    ahead = np.searchsorted(operations.completed[enqueue][order], operations.invoked[enqueue[b]], side="left")
    bound = np.concatenate(([NEVER], latest))[ahead]
    wrong = np.flatnonzero((bound > operations.completed[dequeue[b]]) | (bound == OPEN))
    if not len(wrong):
        return legal(ENGINE)
    second = int(b[wrong[0]])
    first = int(order[np.argmax(leaves[order[: ahead[wrong[0]]]])])
    left = f"before dequeue #{dequeue[first]} was invoked" if dequeue[first] >= 0 else "and the first never left"
    sentence = (
        f"enqueue #{enqueue[first]} had completed before enqueue #{enqueue[second]} was invoked, but dequeue "
        f"#{dequeue[second]} took the second one {left}"
    )
    return illegal(ENGINE, sentence, enqueue[first], enqueue[second], dequeue[second], dequeue[first])


def _never_empty(operations: Operations, enqueue: Int64s, dequeue: Int64s) -> Answer:
    """As `_overtaken`."""
    empties = np.flatnonzero((operations.kind == EMPTY) & operations.certain)
    since = operations.completed[enqueue]
    until = np.where(dequeue >= 0, operations.invoked[dequeue], OPEN)
    there = np.flatnonzero(since < until)
    there = there[np.argsort(since[there], kind="stable")]
    if not len(empties) or not len(there):
        return legal(ENGINE)
    reach = np.maximum.accumulate(until[there])
    begins = np.flatnonzero(np.concatenate(([True], since[there][1:] >= reach[:-1])))  # of stretches without a gap
    ends = reach[np.append(begins[1:], len(there)) - 1]
    stretch = np.searchsorted(since[there][begins], operations.invoked[empties], side="left") - 1
    lasts = (ends[stretch] > operations.completed[empties]) | (ends[stretch] == OPEN)
    wrong = np.flatnonzero((stretch >= 0) & lasts)
    if not len(wrong):
        return legal(ENGINE)
    empty, first = int(empties[wrong[0]]), int(begins[stretch[wrong[0]]])
    values = _cover(there[first:], since, until, int(operations.invoked[empty]), int(operations.completed[empty]))
    rows = [int(row) for value in values for row in (enqueue[value], dequeue[value])]
    return illegal(ENGINE, f"dequeue #{empty} found nothing, but the queue was never empty meanwhile", empty, *rows)


def _cover(values: Int64s, since: Int64s, until: Int64s, invoked: int, completed: int) -> list[int]:
    """The fewest values that are there from before `invoked` to after `completed`, by when they came."""
    found: list[int] = []
    bound, best = invoked, -1
    for value in values.tolist():
        if since[value] >= bound:
            found.append(best)
            bound = int(until[best])
            if bound > completed or bound == OPEN:
                return found
        if best < 0 or until[value] > until[best]:
            best = value
    return [*found, best]
