"""Reading a run's Parquet tables for the report: in batches, never whole, and never giving up on the rest because one
file is damaged.

Why not load a table: a night of chaos leaves 10^7 ops, and the report must come out on the machine that just ran the
cluster. Why not raise: the report of a run that went wrong is the one that is needed most, so what cannot be read
becomes a line under "problems" and the page shows what is left. (Judging is different: the checker refuses a damaged
history.)

    history = History(Path("runs/x/history"))
    for batch in history.batches("ops", ["invoked_ns", "outcome"], dictionary=["outcome"]): ...
    history.problems  # ["ops/part-3.parquet: cannot be read: ..."]
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reports.wording import one_line

BATCH_ROWS = 65_536
PROBLEM_LIMIT = 20


@dataclass
class History:
    """The tables under one `history/` folder: `<folder>/<table>/*.parquet`. `problems` grows while they are read."""

    folder: Path
    problems: list[str] = field(default_factory=list)

    def files(self, table: str) -> list[Path]:
        return sorted((self.folder / table).glob("*.parquet"))

    def rows(self, table: str) -> int | None:
        """Rows of the table by its files' footers; None when there is no such table."""
        files = self.files(table)
        if not files:
            return None
        total = 0
        for path in files:
            try:
                total += pq.read_metadata(path).num_rows
            except (OSError, pa.ArrowException) as error:
                self._problem(path, error)
        return total

    def batches(
        self, table: str, columns: Sequence[str], *, dictionary: Sequence[str] = (), ops: Collection[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The table's rows in file order. `dictionary`: columns wanted as dictionary arrays; `ops`: only row groups
        that may hold these op ids.
        """
        wanted = None if ops is None else sorted(ops)
        for path in self.files(table):
            try:
                yield from self._file_batches(path, columns, dictionary, wanted)
            except (OSError, pa.ArrowException, KeyError) as error:
                self._problem(path, error)

    def _file_batches(
        self, path: Path, columns: Sequence[str], dictionary: Sequence[str], wanted: list[int] | None
    ) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path, read_dictionary=list(dictionary)) as file:
            if missing := [name for name in columns if name not in file.schema_arrow.names]:
                raise KeyError(f"it has no column {missing[0]!r}")
            groups = [g for g in range(file.num_row_groups) if wanted is None or _may_hold(file, g, wanted)]
            if groups:
                yield from file.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(columns))

    def _problem(self, path: Path, error: Exception) -> None:
        reason = error.args[0] if isinstance(error, KeyError) else error
        line = f"{path.relative_to(self.folder)}: cannot be read: {one_line(str(reason), 200)}"
        if line not in self.problems and len(self.problems) < PROBLEM_LIMIT:
            self.problems.append(line)


def _may_hold(file: pq.ParquetFile, group: int, wanted: list[int]) -> bool:
    """Could this row group hold one of the op ids (ascending)? By its statistics first, then by its op column alone."""
    place = file.schema_arrow.names.index("op")
    statistics = file.metadata.row_group(group).column(place).statistics
    if statistics is not None and statistics.has_min_max:
        first = bisect_left(wanted, statistics.min)
        if first == len(wanted) or wanted[first] > statistics.max:
            return False
    ids = pa.array(wanted, pa.int64())
    batches = file.iter_batches(BATCH_ROWS, row_groups=[group], columns=["op"])
    return any(pc.any(pc.is_in(batch.column(0), value_set=ids)).as_py() for batch in batches)


def text(value: Any) -> str:
    """A string cell whose bytes nobody vouches for."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows as dicts; bytes that are not UTF-8 come back escaped instead of raising."""
    columns = {name: _cells(batch.column(place)) for place, name in enumerate(batch.schema.names)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _cells(array: pa.Array) -> list[Any]:
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return [None if cell is None else text(cell) for cell in array.cast(pa.large_binary()).to_pylist()]
    cells: list[Any] = array.to_pylist()
    return cells


@dataclass
class Codes:
    """Names seen so far in a dictionary column, numbered in order of appearance. At most `limit`; the rest share the
    last number.
    """

    limit: int = 4_096
    names: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        if name not in self._numbers:
            if len(self.names) >= self.limit:
                return self.limit - 1
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]

    def encode(self, column: pa.DictionaryArray) -> npt.NDArray[np.int64]:
        """One number per row; -1 where the cell is null."""
        names = column.dictionary.cast(pa.large_binary()).to_pylist()
        numbers = np.array([self.number(text(name)[:200]) for name in names] + [-1], dtype=np.int64)
        places = column.indices.fill_null(len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
        codes: npt.NDArray[np.int64] = numbers[places]
        return codes
