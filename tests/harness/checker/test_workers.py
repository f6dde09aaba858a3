"""Python workers on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def test_workers_do_without_pandas(spark: SparkSession) -> None:
    """Importing it takes as long as all else that they need, beside the workload of a run."""

    def has_pandas(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        for batch in batches:
            pa.array([1])  # Arrow's first list
            yield pa.RecordBatch.from_pydict({"has": pa.array(["pandas" in sys.modules] * len(batch))})

    assert {row["has"] for row in spark.range(0, 2).mapInArrow(has_pandas, "has boolean").collect()} == {False}
