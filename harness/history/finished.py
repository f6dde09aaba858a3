"""A run directory written at once, from tables that are in memory: of simulated runs, and of the histories of tests.

write_finished(run_dir, RunInfo(run="r", ...), {"ops": table, ...})
tables_of({"ops": [Op(...), ...], "faults": []})                # the missing ones are there, and empty
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.rundir import RunInfo, write_run_info
from harness.history.tables import TABLES


def tables_of(rows: Mapping[str, Iterable[Any]]) -> dict[str, pa.Table]:
    """Rows are the dataclasses that TABLES has the schemas of."""
    return {
        name: pa.Table.from_pylist([asdict(row) for row in rows.get(name, ())], schema=table.schema)
        for name, table in TABLES.items()
    }


def write_finished(
    run_dir: Path, info: RunInfo, tables: Mapping[str, pa.Table], *, files: int = 1, row_group: int | None = None
) -> None:
    """`files` Parquet files per table. FileExistsError: nothing is overwritten."""
    run_dir.mkdir(parents=True)
    write_run_info(run_dir, info)
    for name, table in tables.items():
        folder = run_dir / "history" / name
        folder.mkdir(parents=True)
        share = -(-table.num_rows // files) or 1
        for number in range(files):
            pq.write_table(
                table.slice(number * share, share),
                folder / f"{number}.parquet",
                row_group_size=row_group,
                write_page_checksum=True,
                compression="zstd",
            )
