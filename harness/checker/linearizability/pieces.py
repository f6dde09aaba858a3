"""What a Spark worker does with pieces of logs: Arrow columns in, Arrow columns out.

In a module that imports nothing but Arrow and NumPy, because executors of a cluster need not have anything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.checker.linearizability.log import OPEN


def sweep_pieces(table: pa.Table) -> pa.Table:
    """log, offset, invoked, completed, read (when a read of it completed), later (see `log.inversions`), all int64, one row
    per offset -> log, offset, bound: appends that were invoked after something above them had completed, at `bound`.

    What `log.inversions` says of two points per offset. Here an offset is one row, so one sort is enough, which takes a
    fifth of the time: above an append at `offset` are the read of that offset and all that is at higher ones.
    """
    log, offset, invoked, completed, read, later = (
        table[name].to_numpy() for name in ("log", "offset", "invoked", "completed", "read", "later")
    )
    order = np.lexsort((offset, log))
    logs = log[order]
    done = np.minimum(completed, read)[order]
    higher = above([0, *(np.flatnonzero(logs[1:] != logs[:-1]) + 1).tolist(), len(logs)], done)
    bound = np.minimum(np.minimum(higher, read[order]), later[order])
    late = np.flatnonzero(bound < invoked[order])
    found = order[late]
    return pa.table({"log": log[found], "offset": offset[found], "bound": bound[late]})


def above(borders: Iterable[int], done: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Of each row the earliest `done` of those that come after it in its group; OPEN: there is none. `borders`: where groups
    begin, and where the last one ends; a group may be empty."""
    found = np.full(len(done), OPEN)
    for begin, end in pairwise(borders):
        if begin + 1 < end:
            found[begin : end - 1] = np.minimum.accumulate(done[begin + 1 : end][::-1])[::-1]
    return found
