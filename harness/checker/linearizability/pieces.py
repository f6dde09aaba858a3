"""What a Spark worker does with pieces of logs: Arrow columns in, Arrow columns out.

In a module that imports nothing but Arrow and NumPy, because executors of a cluster need not have anything else.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from harness.checker.linearizability.log import NEVER, inversions


def sweep_pieces(table: pa.Table) -> pa.Table:
    """log, offset, invoked, completed, read (when a read of it completed), later (see `inversions`), all int64, one row per
    offset -> log, offset, bound: appends that were invoked after something above them had completed, at `bound`.
    """
    log, offset, invoked, completed, read, later = (
        table[name].to_numpy() for name in ("log", "offset", "invoked", "completed", "read", "later")
    )
    rows = len(offset)
    found = inversions(
        np.concatenate((log, log)),
        np.concatenate((2 * offset + 1, 2 * offset + 2)),
        np.concatenate((invoked, np.full(rows, NEVER))),
        np.concatenate((completed, read)),
        np.concatenate((later, later)),
    )
    return pa.table({"log": log[found.x], "offset": offset[found.x], "bound": found.completed})
