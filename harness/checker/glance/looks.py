"""The jobs of looking: Spark hands batches of runs, or slices of a large one, to its workers, which read the records themselves.

Reading Parquet into arrays takes a tenth of what it takes Spark to make rows of it and a worker arrays of those. So it is only
done where workers see the files, which is on this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from harness.checker.glance.slices import Group, Slice

MOST_ROWS = 4_000_000  # of one batch: some 400 bytes each while a worker looks at them
SLICE_ROWS = 2_000_000  # wanted; a slice may have up to MOST_ROWS
FILE_ROWS = 20_000  # what opening a file costs, in rows
MOST_NOWHERE = 200_000  # records without an offset, which all slices of a run get
MOST_FATES = 200_000  # of transactions of a run that is looked at in slices; the same
SURVEYS = 4  # for each worker


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
    part: Slice | None = None  # of a run that no worker can hold; None: the files as a whole
    nowhere: bytes = b""  # then its records without an offset
    most: int = 0  # records of a slice


def looked(
    spark: SparkSession, sources: Sequence[Source], *, bounds: pa.Table, fates: pa.Table, foreign: bool
) -> list[dict[str, Any]] | None:
    """LOOKED rows (logs.py) of all logs of all sources; None: nobody could say at a glance."""
    if not sources:
        return None
    workers = spark.sparkContext.defaultParallelism
    small = [source for source in sources if source.rows <= MOST_ROWS]
    runs = [[_batch(batch, bounds, fates)] for batch in batched(small, workers)] if small else []
    for source in sources:
        if source.rows > MOST_ROWS:
            cut = _cut(spark, source, bounds, fates, workers)
            if cut is None:
                return None
            runs.append(cut)
    batches = [batch for run in runs for batch in run]
    found = _told(spark, partial(look_at, batches=batches, foreign=foreign), len(batches))
    if found is None:
        return None
    rows = iter(found)
    return [row for run in runs for row in _together([next(rows) for _ in run])]


def _batch(sources: Sequence[Source], bounds: pa.Table, fates: pa.Table) -> Batch:
    return Batch(
        files=[str(file.resolve()) for source in sources for file in source.files],
        bounds=_stream(_of(bounds, sources)),
        fates=_stream(_of(fates, sources)),
    )


def _cut(spark: SparkSession, source: Source, bounds: pa.Table, fates: pa.Table, workers: int) -> list[Batch] | None:
    """A batch for each slice of a run. None: it cannot be cut into any."""
    from harness.checker.glance.slices import groups_of, slices

    if len(source.runs) > 1 or _of(fates, [source]).num_rows > MOST_FATES:
        return None
    whole = _batch([source], bounds, fates)
    groups = groups_of(source.files)
    each = max(-(-len(groups) // (SURVEYS * workers)), 1)
    tasks = [groups[begin : begin + each] for begin in range(0, len(groups), each)]
    surveyed = _told(spark, partial(survey_at, files=whole.files, tasks=tasks), len(tasks))
    if surveyed is None:
        return None
    nowhere = pa.concat_tables([table for _, table in surveyed if table.num_rows] or [surveyed[0][1]])
    if nowhere.num_rows > MOST_NOWHERE:
        return None
    given = _stream(nowhere.unify_dictionaries())
    most = MOST_ROWS + MOST_NOWHERE
    cut = slices(pa.concat_tables([held for held, _ in surveyed]), wanted=SLICE_ROWS, most=MOST_ROWS)
    return None if cut is None else [replace(whole, part=one, nowhere=given, most=most) for one in cut]


def _together(tables: Sequence[Sequence[pa.Table]]) -> list[dict[str, Any]]:
    from harness.checker.glance.carried import together

    if len(tables[0]) == 1:
        return [row for (table,) in tables for row in table.to_pylist()]
    return together([tuple(table.to_pylist() for table in one) for one in tables])


_RESULT = "number int, tables array<binary>"


def _told(spark: SparkSession, work: Any, count: int) -> list[list[pa.Table]] | None:
    """What workers answer to 0 .. count - 1, in that order. None: one of them cannot say."""
    found = spark.range(0, count, numPartitions=count).mapInArrow(work, _RESULT).collect()
    if any(row["tables"] is None for row in found):
        return None
    return [[_table(one) for one in row["tables"]] for row in sorted(found, key=lambda row: row["number"])]


def look_at(rows: Iterator[pa.RecordBatch], *, batches: Sequence[Batch], foreign: bool) -> Iterator[pa.RecordBatch]:
    """What a worker does: numbers of batches in, for each LOOKED out, of a slice also EDGES and SPANS (carried.py); null where
    nothing can be said."""
    from harness.checker.glance.carried import edges, spans
    from harness.checker.glance.logs import look_closely

    def answer(number: int) -> Sequence[pa.Table]:
        batch = batches[number]
        found, seen = look_closely(_records(batch), _table(batch.bounds), _table(batch.fates), foreign=foreign)
        return [found] if batch.part is None else [found, edges(seen), spans(seen)]

    return _answers(rows, answer)


def survey_at(
    rows: Iterator[pa.RecordBatch], *, files: Sequence[str], tasks: Sequence[Sequence[Group]]
) -> Iterator[pa.RecordBatch]:
    """The same: numbers of tasks in, for each HELD of its row groups out, and their records without an offset (slices.py)."""
    from harness.checker.glance.slices import survey

    return _answers(rows, lambda number: survey(files, tasks[number]))


def _answers(rows: Iterator[pa.RecordBatch], answer: Callable[[int], Sequence[pa.Table]]) -> Iterator[pa.RecordBatch]:
    from harness.checker.glance.columns import Unusual

    for number in (number for numbers in rows for number in numbers.column(0).to_pylist()):
        try:
            streams = [_stream(table) for table in answer(number)]
        except (Unusual, OSError, MemoryError, pa.ArrowException):  # what is wrong with a file, Spark will say
            streams = None
        yield pa.RecordBatch.from_pydict(
            {"number": pa.array([number], pa.int32()), "tables": pa.array([streams], pa.list_(pa.binary()))}
        )


def _records(batch: Batch) -> pa.Table:
    from harness.checker.glance.columns import READ_COLUMNS
    from harness.checker.glance.slices import parquet, records

    if batch.part is not None:
        return records(batch.files, batch.part, _table(batch.nowhere), most=batch.most)
    return pa.concat_tables(parquet(file).read(list(READ_COLUMNS)) for file in batch.files)


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
