"""Where a judgement's rows come from: tables of many rows as Spark reads them from their files, tables of few rows as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from harness.checker.glance.looks import Source
from harness.checker.session import on_a_cluster, scratch
from harness.history.place import Place
from harness.history.reading import History as Stored
from harness.history.tables import TABLES

FEW_FILES = 8
ROWS_WORTH_A_FILE = 50_000
_ROWS_AT_ONCE = 500_000


def small_table(name: str, stored: Sequence[Stored]) -> pa.Table:
    """A table of few rows, of all runs; files without rows are not opened."""
    return pa.concat_tables([TABLES[name].schema.empty_table(), *(run.table(name) for run in stored if run.rows[name])])


def scanned(spark: SparkSession, name: str, stored: Sequence[Stored]) -> DataFrame:
    """A table of all runs. Many small files are gathered into one first, because every pass opens every file again (some
    ms each); not on a cluster, where nobody else sees what this machine gathers.
    """
    files = [path for run in stored for path in run.files[name]]
    small = len(files) > FEW_FILES and sum(run.rows[name] for run in stored) < len(files) * ROWS_WORTH_A_FILE
    local = [path for path in files if isinstance(path, Path)]
    if small and len(local) == len(files) and not on_a_cluster(spark):
        files = [_gathered(scratch(spark) / f"{name}.parquet", local, TABLES[name].schema)]
    reader = spark.read.option("__globPaths__", "false")  # a path is a path, whatever characters it has
    return reader.schema(from_arrow_schema(TABLES[name].schema)).parquet(*[as_uri(path) for path in files])


def sources(stored: Sequence[Stored]) -> Sequence[Source]:
    """Where the records are; nothing where not all of them are in files of this machine."""
    if not all(isinstance(path, Path) for run in stored for path in run.files["records"]):
        return ()
    return [
        Source(
            runs=[run.info.run],
            files=[path for path in run.files["records"] if isinstance(path, Path)],
            rows=run.rows["records"],
        )
        for run in stored
    ]


def as_uri(path: Place) -> str:
    """As Spark reads it, whatever its default file system is. Not `Path.as_uri`: Hadoop takes `%20` for what it is."""
    return f"file://{path.resolve()}" if isinstance(path, Path) else str(path)


def _gathered(to: Path, files: Sequence[Path], schema: pa.Schema) -> Path:
    with pq.ParquetWriter(to, schema) as out:
        pending: list[pa.Table] = []
        for path in files:
            pending.append(pq.read_table(path, columns=schema.names, partitioning=None).cast(schema))
            if sum(table.num_rows for table in pending) >= _ROWS_AT_ONCE:
                out.write_table(pa.concat_tables(pending))
                pending.clear()
        out.write_table(pa.concat_tables([schema.empty_table(), *pending]))
    return to
