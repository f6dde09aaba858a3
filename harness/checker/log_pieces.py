"""What a Spark worker does with bundles of pieces of logs: Arrow columns in, inversions out (linearizability/pieces.py).

In a module that imports nothing but NumPy, because executors of a cluster need not have anything else; and the kernel, with Numba, is
loaded where it runs: the driver only plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

OPEN: Final = int(np.iinfo(np.int64).max)  # completed: perhaps never; as linearizability/log.py has it
NEVER: Final = int(np.iinfo(np.int64).min)  # invoked: bounds others, is not bounded itself


def sweep_logs(table: pa.Table) -> pa.Table:
    from harness.checker.linearizability.pieces import sweep_pieces

    return sweep_pieces(table)
