"""Is an append-only log linearizable? Exact, O(n log n), no search: offsets already tell the order of the appends.

Put every op that took effect on a line of slots: an append at offset o at slot 2o + 1, an exact observation of the end
n (offsets below n are there) at slot 2n, a read that returned offset o at slot 2o + 2 (the record is there; where the
log ends is not said). Then the log is linearizable iff there are no x, y with slot(x) < slot(y) where y had completed
before x was invoked (strictly: equal times are concurrent).

Why pairs suffice: slots are a weak order and real time is an interval order, so a shortest cycle in their union has
length two. So one sort and one sweep from the end that remembers the earliest completion seen so far decides it:

    slot        1          3          5
    interval  [0, 4]     [5, 9]     [1, 3]        3 < 5: the append at slot 5 had completed before the one at slot 3 was invoked

A read may only be y: it says that a prefix exists, so everything below it must have been invoked by then; give it
`NEVER` as its invocation. An append whose completion is unknown may only be x: give it `OPEN` as its completion; an
unknown append that nobody saw is left out.

Pure NumPy on int64 columns, no Spark, no I/O. Many logs at once (`log` tells them apart), because a history may have
ten thousand tiny ones; one huge log in pieces (`later` carries what lies beyond a piece), because no piece may have to
hold 10^7 rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

OPEN = np.iinfo(np.int64).max  # completed: perhaps never
NEVER = np.iinfo(np.int64).min  # invoked: bounds others, is not bounded itself


class Inversions(NamedTuple):
    """Rows x that were invoked after something at a higher slot had completed. Columns of equal length."""

    x: Int64s  # index into the input
    y: Int64s  # index of the row at a higher slot that completed first; -1: it is beyond this piece, see `later`
    completed: Int64s  # when y completed


def inversions(
    log: Int64s, slot: Int64s, invoked: Int64s, completed: Int64s, later: Int64s | None = None
) -> Inversions:
    """All x for which some y of the same log has slot[x] < slot[y] and completed[y] < invoked[x]; y is the earliest such.

    Rows may come in any order. `later[i]`: earliest completion among rows of the same log that are not in this piece
    and have a higher slot than row i (`OPEN`: none). No rows, no inversions.
    """
    rows = len(slot)
    if not rows:
        nothing = np.empty(0, np.int64)
        return Inversions(nothing, nothing, nothing)
    order = np.lexsort((slot, log))
    logs, slots = log[order], slot[order]
    first = _earliest_from(logs, completed[order])
    above = _next_slot(logs, slots)
    y = np.where(above < rows, order[first[np.minimum(above, rows - 1)]], -1)
    bound = np.where(y >= 0, completed[y], OPEN)
    if later is not None:
        carried = later[order] < bound
        y = np.where(carried, -1, y)
        bound = np.where(carried, later[order], bound)
    found = np.flatnonzero(bound < invoked[order])
    return Inversions(order[found], y[found], bound[found])


def _earliest_from(logs: Int64s, completed: Int64s) -> Int64s:
    """For each row the row of the earliest completion among itself and the later rows of its log; rows are sorted by log.

    A running minimum from the end over many logs at once: ranks are made so that every rank of a log lies above all
    ranks of the logs before it, hence what was carried over from the next log always loses.
    """
    rows = len(logs)
    by_time = np.argsort(completed, kind="stable")
    rank = np.empty(rows, np.int64)
    rank[by_time] = np.arange(rows)
    number = np.cumsum(np.concatenate(([0], logs[1:] != logs[:-1]))).astype(np.int64)
    keyed = number * rows + rank
    earliest = np.minimum.accumulate(keyed[::-1])[::-1] - number * rows
    found: Int64s = by_time[earliest]
    return found


def _next_slot(logs: Int64s, slots: Int64s) -> Int64s:
    """For each row the first row of the same log with a higher slot, or the number of rows if there is none."""
    rows = len(slots)
    changes = np.flatnonzero((logs[1:] != logs[:-1]) | (slots[1:] != slots[:-1])) + 1
    group = np.searchsorted(changes, np.arange(rows), side="right")
    following = np.concatenate((changes, [rows]))[group]
    same = logs[np.minimum(following, rows - 1)] == logs
    found: Int64s = np.where((following < rows) & same, following, rows)
    return found
