"""How far Spark is with what the judge has asked it, for whoever waits: `one look at all records, 57 of 184 parts`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 2.0
FEW = 16  # parts of what is over soon


@contextmanager
def with_parts(spark: SparkSession, say: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """A `say` whose last text is said again, from a thread of its own, with how many parts are done while there are many."""
    said = [""]
    over = threading.Event()

    def tell(text: str) -> None:
        said[0] = text
        say(text)

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(LOOK_SECONDS):
            with suppress(Exception):  # a session that ends; whoever asked it is told
                done, parts = _parts(tracker)
                if parts > FEW and said[0]:
                    say(f"{said[0]}, {done:,} of {parts:,} parts")

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield tell
    finally:
        over.set()
        watching.join()


def _parts(tracker: Any) -> tuple[int, int]:
    """Tasks of all active stages: finished ones, and all."""
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
