"""In a log whose offsets have no gaps: can appends of unknown outcome that nobody saw explain the offsets that nobody filled?

The slot sweep (`log`) decides whatever has an offset. Where every offset holds one record, more follows: an offset h below a
length that somebody observed held a record, and if no append was told h and no read returned it, one of the appends that
never got an answer must be there, invoked before the log was known to be longer:

    acknowledged: 0, 3      so 1 and 2 were held before the append at 3 had completed, at time 9
    of unknown outcome, never read: invoked at 4 and at 12      only one of them can have been in time

The latest moment D(h) for a hole is the earliest completion at a slot above 2h + 1; it grows with h. So holes and appends
can be matched iff, both sorted, the i-th append was invoked no later than the i-th D: exact, O(n log n). Where one append may
take several offsets, or offsets may be left out (transactions, compaction), this says nothing, and is not asked.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from harness.checker.linearizability.log import Int64s


class Hole(NamedTuple):
    offset: int
    row: int  # which of the rows shows that it was held
    holes: int  # offsets up to this one that nobody filled
    appends: int  # of unknown outcome that had been invoked by then


def unexplained(slot: Int64s, completed: Int64s, filled: Int64s, unseen: Int64s) -> Hole | None:
    """The first hole that is one too many. `slot`, `completed`: rows as of `log.inversions`, in any order; `filled`: offsets
    of which somebody was told what they hold; `unseen`: when appends of unknown outcome that nobody saw were invoked.
    """
    if not len(slot):
        return None
    order = np.argsort(slot, kind="stable")
    slots = slot[order]
    invoked = np.sort(unseen)
    for number, offset in enumerate(_first_holes(filled, (int(slots[-1]) + 1) // 2, len(invoked) + 1)):
        above = order[np.searchsorted(slots, 2 * offset + 1, side="right") :]
        row = int(above[np.argmin(completed[above])])
        if number == len(invoked) or invoked[number] > completed[row]:
            return Hole(offset, row, number + 1, int(np.searchsorted(invoked, completed[row], side="right")))
    return None


def _first_holes(filled: Int64s, length: int, most: int) -> list[int]:
    """Offsets below the length that are not filled, in order; no more than needed, since a length may be a huge number."""
    holes: list[int] = []
    places = np.unique(filled[filled < length]).tolist()
    for before, after in pairwise([-1, *places, length]):
        holes += range(before + 1, min(after, before + 1 + most - len(holes)))
    return holes
