"""What a Spark worker does with the transactions of a run: Arrow columns in, cycles out.

In a module that imports nothing but Arrow and NumPy, because executors of a cluster need not have anything else; and the kernels, with
Numba, are loaded where they run: the driver only plans.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.checker.dependencies import Rows, dependencies
from harness.checker.serializability.graph import RW

if TYPE_CHECKING:
    from harness.checker.serializability.cycles import Cycles

CYCLES_FOUND = (
    "run string, type string, pure boolean, count long, source array<long>, target array<long>, kind array<int>, "
    "log array<long>, offset array<long>"
)
_OF_RECORDS = range(1, RW + 1)  # kinds of edges that are about a record
_LISTS = pa.list_(pa.int64())
_SCHEMA = pa.schema(
    {
        "run": pa.string(), "type": pa.string(), "pure": pa.bool_(), "count": pa.int64(), "source": _LISTS, "target": _LISTS,
        "kind": pa.list_(pa.int32()), "log": _LISTS, "offset": _LISTS,
    }
)  # fmt: skip
Int64s = npt.NDArray[np.int64]


def sweep_reads(table: pa.Table) -> pa.Table:
    """The rows of one run (cycles.py) -> its cycles of reads and orders in time."""
    return _sweep(table, everything=False)


def sweep_everything(table: pa.Table) -> pa.Table:
    """The same, and the cycles of all edges."""
    return _sweep(table, everything=True)


def found_rows(run: str, units: Int64s, log: Int64s, offset: Int64s, told: Iterable[tuple[bool, Cycles]]) -> pa.Table:
    """CYCLES_FOUND rows. `told`: (pure, cycles) of a graph of which the nodes are `units`, and items places in `log` and `offset`."""
    found: list[dict[str, Any]] = []
    for pure, one in told:
        items = [step.item if step.kind in _OF_RECORDS else -1 for step in one.steps]
        found.append(
            {
                "run": run,
                "type": one.type,
                "pure": pure,
                "count": one.count,
                "source": [int(units[step.source]) for step in one.steps],
                "target": [int(units[step.target]) for step in one.steps],
                "kind": [step.kind for step in one.steps],
                "log": [int(log[item]) if item >= 0 else 0 for item in items],
                "offset": [int(offset[item]) if item >= 0 else -1 for item in items],
            }
        )
    return pa.Table.from_pylist(found, schema=_SCHEMA)


def _sweep(table: pa.Table, *, everything: bool) -> pa.Table:
    from harness.checker.serializability.cycles import cycles

    names = ("unit", "write", "happened", "key", "log", "offset", "process", "invoked", "completed")
    rows = Rows(**{name: table[name].to_numpy() for name in names})
    graphs = dependencies(rows, everything=everything)
    told = [(True, one) for one in cycles(graphs.reads)]
    if everything:
        told += [(False, one) for one in cycles(graphs.everything)]
    return found_rows(table["run"][0].as_py(), graphs.units, rows.log, rows.offset, told)
