"""Open a run to judge or show it: all of its form is checked here, so that no later stage meets a surprise.

A missing column, a wrong type, a truncated or foreign file, a flipped byte (pages carry checksums), rows of another
run, what nobody can have recorded (an offset below zero, an op that was over before it was invoked, one of two that have
one number): each is a HistoryError with the file and, where there is one, the row group. Nothing is ever changed by reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.history.errors import HistoryError
from harness.history.place import Place
from harness.history.rundir import HISTORY, JOURNAL, RunInfo, read_run_info
from harness.history.tables import BOUNDS_TABLE, OPS_TABLE, RECORDS_TABLE, TABLES, Table

_NEVER_NEGATIVE = {RECORDS_TABLE: ("position", "offset"), BOUNDS_TABLE: ("log_start", "log_end", "read_to")}
_TAKES_TIME = (OPS_TABLE, RECORDS_TABLE, BOUNDS_TABLE)


@dataclass(frozen=True, kw_only=True)
class History:
    """A finished run. `files`: table -> its Parquet files, never none; columns as the table's owner says, or more."""

    path: Place
    info: RunInfo
    files: dict[str, list[Place]]
    rows: dict[str, int]  # table -> rows

    def table(self, name: str) -> pa.Table:
        """A whole table in memory: for faults, events and small runs."""
        columns = TABLES[name].schema.names
        tables = []
        for path in self.files[name]:
            with pq.ParquetFile(_source(path)) as file:
                tables.append(file.read(columns=columns))
        return pa.concat_tables(tables)


def open_run(run_dir: Place, *, deep: bool = True) -> History:
    """Check a run directory and say where its tables are. `deep`: read every page; otherwise only what footers tell."""
    info = read_run_info(run_dir)
    if (run_dir / JOURNAL).is_dir():
        raise HistoryError(run_dir / JOURNAL, "", f"this run is not finished; try: krash recover {run_dir}")
    found = check_tables(run_dir / HISTORY, info.run, deep=deep)
    return History(
        path=run_dir,
        info=info,
        files={name: list(files) for name, files in found.items()},
        rows={name: sum(files.values()) for name, files in found.items()},
    )


def check_tables(history: Place, run: str, *, deep: bool = True) -> dict[str, dict[Place, int]]:
    """Table -> file -> rows, of all tables; HistoryError when anything is not as it should be."""
    found: dict[str, dict[Place, int]] = {}
    for name, table in TABLES.items():
        paths = sorted((history / name).glob("*.parquet"), key=lambda path: path.name)
        if not paths:
            raise HistoryError(history / name, "", "no Parquet files: this part of the history is missing")
        found[name] = {path: _check_file(path, table, run, deep=deep) for path in paths}
    return found


def _source(path: Place) -> Any:
    """What Arrow opens: it reads local files by itself."""
    return path if isinstance(path, Path) else path.open("rb")


def _check_file(path: Place, table: Table, run: str, *, deep: bool) -> int:
    try:
        file = pq.ParquetFile(_source(path), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise HistoryError(path, "", f"not a whole Parquet file (truncated or foreign): {error}") from error
    with file:
        present = file.schema_arrow
        for wanted in table.schema:
            if present.get_field_index(wanted.name) < 0:
                raise HistoryError(path, f"column {wanted.name}", "missing")
            kind = present.field(wanted.name).type
            if kind != wanted.type:
                raise HistoryError(path, f"column {wanted.name}", f"expected {wanted.type}, found {kind}")
        for group in range(file.num_row_groups):
            _check_row_group(path, file, group, table, run, deep=deep)
        return int(file.metadata.num_rows)


def _check_row_group(path: Place, file: pq.ParquetFile, group: int, table: Table, run: str, *, deep: bool) -> None:
    where = f"row group {group}"
    leaves = [file.schema.column(leaf).path for leaf in range(len(file.schema))]
    found = file.metadata.row_group(group).column(leaves.index("run")).statistics
    if found is not None and found.has_min_max and not found.min == found.max == run:
        raise HistoryError(path, where, f"has rows of run {found.min}, not of {run}")
    if not deep:
        return
    try:
        batch = file.read_row_group(group, columns=table.schema.names)
        batch.validate()
    except (pa.ArrowException, OSError) as error:
        raise HistoryError(path, where, f"cannot be read: {error}") from error
    for wanted in table.schema:
        if not wanted.nullable and batch[wanted.name].null_count:
            raise HistoryError(path, f"{where}, column {wanted.name}", "has empty cells that may not be empty")
    for name in _NEVER_NEGATIVE.get(table, ()):
        if (pc.min(batch[name]).as_py() or 0) < 0:
            raise HistoryError(path, f"{where}, column {name}", "is below zero somewhere")
    if table in _TAKES_TIME and pc.any(pc.less(batch["completed_ns"], batch["invoked_ns"])).as_py():
        raise HistoryError(path, where, "has something that was completed before it was invoked")
    if table is OPS_TABLE and pc.count_distinct(batch["op"]).as_py() < batch.num_rows:
        raise HistoryError(path, f"{where}, column op", "has a number twice")
