"""The job of looking: Spark hands batches of runs to its workers, which read the records themselves.

Reading Parquet into arrays takes a tenth of what it takes Spark to make rows of it and a worker arrays of those. So it is only
done where workers see the files, which is on this machine, and for histories of which a worker can hold a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_ROWS = 4_000_000  # of one batch: some 400 bytes each while a worker looks at them
FILE_ROWS = 20_000  # what opening a file costs, in rows


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where all records of some runs are, which belong together for no other reason than that they are there."""

    runs: Sequence[str]
    files: Sequence[Path]
    rows: int


@dataclass(frozen=True, kw_only=True)
class Batch:
    files: Sequence[str]
    bounds: bytes  # an Arrow stream of BOUNDS
    fates: bytes  # of transactions.FATES


def looked(
    spark: SparkSession, sources: Sequence[Source], *, bounds: pa.Table, fates: pa.Table, foreign: bool
) -> pa.Table | None:
    """LOOKED rows (logs.py) of all logs of all sources; None: nobody could say at a glance."""
    if not sources or max(source.rows for source in sources) > MOST_ROWS:
        return None
    batches = [
        Batch(
            files=[str(file.resolve()) for source in batch for file in source.files],
            bounds=_stream(_of(bounds, batch)),
            fates=_stream(_of(fates, batch)),
        )
        for batch in batched(sources, spark.sparkContext.defaultParallelism)
    ]
    look = partial(look_at, batches=batches, foreign=foreign)
    found = spark.range(0, len(batches), numPartitions=len(batches)).mapInArrow(look, _RESULT).collect()
    if any(row["rows"] is None for row in found):
        return None
    return pa.concat_tables([_table(row["rows"]) for row in found])


_RESULT = "rows binary"


def look_at(rows: Iterator[pa.RecordBatch], *, batches: Sequence[Batch], foreign: bool) -> Iterator[pa.RecordBatch]:
    """What a worker does: numbers of batches in, for each an Arrow stream of LOOKED out; null where nothing can be said."""
    from harness.checker.glance.columns import Unusual
    from harness.checker.glance.logs import look

    for batch in (batches[number] for numbers in rows for number in numbers.column(0).to_pylist()):
        try:
            found = _stream(look(_records(batch), _table(batch.bounds), _table(batch.fates), foreign=foreign))
        except (Unusual, OSError, MemoryError, pa.ArrowException):  # what is wrong with a file, Spark will say
            found = None
        yield pa.RecordBatch.from_pydict({"rows": pa.array([found], pa.binary())})


def _records(batch: Batch) -> pa.Table:
    from harness.checker.glance.columns import READ_COLUMNS, TEXTS

    return pa.concat_tables(
        pq.ParquetFile(file, read_dictionary=list(TEXTS), page_checksum_verification=True).read(list(READ_COLUMNS))
        for file in batch.files
    )


def batched(sources: Sequence[Source], workers: int) -> list[list[Source]]:
    """Batches that one worker can hold, about as much in each, and as few as keep all workers busy."""
    weights = [source.rows + FILE_ROWS * len(source.files) for source in sources]
    wanted = min(MOST_ROWS, max(-(-sum(weights) // workers), 1))
    batches: list[list[Source]] = [[]]
    filled = 0
    for source, weight in zip(sources, weights, strict=True):
        if batches[-1] and filled + weight > wanted:
            batches.append([])
            filled = 0
        batches[-1].append(source)
        filled += weight
    return batches


def _of(table: pa.Table, batch: Sequence[Source]) -> pa.Table:
    runs = pa.array([run for source in batch for run in source.runs], pa.string())
    return table.filter(pc.is_in(table["run"], runs))


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(pa.BufferReader(data)).read_all()
