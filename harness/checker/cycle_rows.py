"""What a Spark worker does with the transactions of a run: Arrow columns in, cycles out.

In a module that imports nothing but Arrow, NumPy and kernels, because executors of a cluster need not have anything else.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from harness.checker.dependencies import Rows, dependencies
from harness.checker.serializability.cycles import cycles
from harness.checker.serializability.graph import PROCESS, REALTIME, WR


def sweep_reads(table: pa.Table) -> pa.Table:
    """The rows of one run (cycles.py) -> its cycles of reads and orders in time."""
    return _sweep(table, everything=False)


def sweep_everything(table: pa.Table) -> pa.Table:
    """The same, and the cycles of all edges."""
    return _sweep(table, everything=True)


def _sweep(table: pa.Table, *, everything: bool) -> pa.Table:
    names = ("unit", "write", "happened", "key", "log", "offset", "process", "invoked", "completed")
    rows = Rows(**{name: table[name].to_numpy() for name in names})
    graphs = dependencies(rows, everything=everything)
    told = [(True, one) for one in cycles(graphs.reads)]
    if everything:
        plain = {WR, PROCESS, REALTIME}
        told += [(False, one) for one in cycles(graphs.everything) if not {step.kind for step in one.steps} <= plain]
    of_records = {kind for kind in range(4) if kind}
    found: list[dict[str, Any]] = []
    for pure, one in told:
        items = [step.item if step.kind in of_records else -1 for step in one.steps]
        found.append(
            {
                "run": table["run"][0].as_py(),
                "type": one.type,
                "pure": pure,
                "count": one.count,
                "source": [int(graphs.units[step.source]) for step in one.steps],
                "target": [int(graphs.units[step.target]) for step in one.steps],
                "kind": [step.kind for step in one.steps],
                "log": [int(rows.log[item]) if item >= 0 else 0 for item in items],
                "offset": [int(rows.offset[item]) if item >= 0 else -1 for item in items],
            }
        )
    lists = pa.list_(pa.int64())
    schema = pa.schema(
        {
            "run": pa.string(), "type": pa.string(), "pure": pa.bool_(), "count": pa.int64(), "source": lists,
            "target": lists, "kind": pa.list_(pa.int32()), "log": lists, "offset": lists,
        }
    )  # fmt: skip
    return pa.Table.from_pylist(found, schema=schema)
