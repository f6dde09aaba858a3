"""Leader epochs and fencing: exact, O(n log n). A monotone register is a log of epochs.

    elected(e)      somebody became the leader of epoch e              slot 2e
    accepted(e)     a write was accepted under epoch e: the newest     slot 2e + 1
                    elected epoch was e, exactly
    fenced(e)       refused because epoch e is there already: the      slot 2e + 1, a lower bound only
                    newest was e or later

Linearizable iff no operation was invoked after one at a higher slot had completed (`log.inversions`); two accepted
writes of one epoch are at one slot. Beside that, each epoch has one leader, and an epoch under which something was
accepted was elected. An accepted write of an epoch after something of a later epoch had completed is an *unfenced
stale leader*.
"""

from __future__ import annotations

import numpy as np

from harness.checker.linearizability.log import NEVER, inversions
from harness.checker.linearizability.operations import Answer, Int64s, illegal, legal

ENGINE = "epoch-sweep"
ELECTED, ACCEPTED, FENCED = 0, 1, 2


def epochs(kind: Int64s, epoch: Int64s, leader: Int64s, invoked: Int64s, completed: Int64s) -> Answer:
    """Rows in any order. `leader`: who was elected; of other kinds it does not matter.

    `completed`: OPEN if unknown. An operation of unknown outcome is left out, unless somebody saw that it happened.
    """
    elections = np.flatnonzero(kind == ELECTED)
    order = elections[np.lexsort((leader[elections], epoch[elections]))]
    same = epoch[order][1:] == epoch[order][:-1]
    two = np.flatnonzero(same & (leader[order][1:] != leader[order][:-1]))
    if len(two):
        one, other = int(order[two[0]]), int(order[two[0] + 1])
        sentence = f"epoch {epoch[one]} has two leaders, {leader[one]} and {leader[other]}"
        return illegal(ENGINE, sentence, one, other)
    nobody = np.flatnonzero((kind != ELECTED) & ~np.isin(epoch, epoch[elections]))
    if len(nobody):
        row = int(nobody[0])
        return illegal(ENGINE, f"operation #{row} knows of epoch {epoch[row]}, whose leader nobody elected", row)
    again = np.flatnonzero(same)
    if len(again):
        one, other = int(order[again[0]]), int(order[again[0] + 1])
        return illegal(ENGINE, f"leader {leader[one]} was elected twice in epoch {epoch[one]}", one, other)
    slot = 2 * epoch + (kind != ELECTED)
    found = inversions(np.zeros_like(slot), slot, np.where(kind == FENCED, NEVER, invoked), completed)
    if not len(found.x):
        return legal(ENGINE)
    x, y = int(found.x[0]), int(found.y[0])
    what = f"operation #{y} of epoch {epoch[y]} had completed before operation #{x} of epoch {epoch[x]} was invoked"
    if kind[x] == ACCEPTED:
        return illegal(ENGINE, f"unfenced stale leader: {what}, and yet it was accepted", x, y)
    return illegal(ENGINE, f"epochs went backwards: {what}", x, y)
