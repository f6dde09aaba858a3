"""FIFO queues whose values are unique and whose dequeues all returned one: exact, O(n log n).

What was enqueued first must be dequeued first. With unique values each dequeue names its enqueue, and everything that
can be wrong is wrong between at most two values (Bouajjani, Emmi, Enea and Hamza, 2015):

    a value is dequeued that nobody enqueued, or twice, or before its enqueue was invoked;
    a was enqueued before b (completed before b's enqueue was invoked), yet b's dequeue had completed before a's was
    invoked, or a was never dequeued.

An enqueue of unknown outcome that nobody dequeued is left out. Dequeues that found nothing, or whose answer nobody
saw, are refused.
"""

from __future__ import annotations

import numpy as np

from harness.checker.linearizability.log import NEVER, OPEN
from harness.checker.linearizability.operations import (
    DEQUEUE,
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
    if not operations.only(ENQUEUE, DEQUEUE):
        return Refused(ENGINE, "every operation enqueues or dequeues a value")
    if initial != NIL:
        return Refused(ENGINE, "the queue is empty at first")
    enqueues = np.flatnonzero(operations.kind == ENQUEUE)
    dequeues = np.flatnonzero(operations.kind == DEQUEUE)
    if (operations.result[dequeues] == UNSEEN).any() or not operations.certain[dequeues].all():
        return Refused(ENGINE, "every dequeue is known to have happened and what it returned was seen")
    values, place = np.unique(operations.argument[enqueues], return_inverse=True)
    if len(values) < len(enqueues):
        return Refused(ENGINE, "every value is enqueued once")
    enqueue = np.full(len(values) + 1, -1, np.int64)
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
    return _overtaken(operations, enqueue[:-1], dequeue)


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
