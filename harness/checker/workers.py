"""The daemon from which Spark forks its Python workers, with all that they need loaded: one import for all of them.

    spark.python.daemon.module = harness.checker.workers

Spark's own daemon has each of them import Arrow, NumPy and pyspark, and pyspark from an archive of sources that nobody keeps
compiled. Only on this machine: executors elsewhere get krash's sources with their first task.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def awake(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What it is given."""
    yield from batches


def wake(spark: SparkSession) -> None:
    """Start the daemon and as many workers as run at once."""
    count = spark.sparkContext.defaultParallelism
    spark.range(0, count, numPartitions=count).mapInArrow(awake, "id long").count()


def main() -> None:
    """What is imported here is for the workers; who wakes them need not have it."""
    sys.path[:] = [place for place in sys.path if not place.endswith(".zip")]  # pyspark as it was installed instead
    import pyspark.sql.pandas.serializers
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import harness.checker.glance.logs
    import harness.checker.glance.looks
    import harness.checker.linearizability.pieces  # noqa: F401
    from harness.history.arrow import spare_pandas

    spare_pandas()  # none of them needs it, and it takes as long as all the rest
    manager()


if __name__ == "__main__":
    main()
