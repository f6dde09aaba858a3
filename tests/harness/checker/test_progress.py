"""Whoever waits for a long pass is told how far it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.checker import progress
from harness.checker.progress import FEW, with_parts

pytestmark = pytest.mark.spark


def waiting(for_it: Path) -> Any:
    """Work for Spark: whoever has number 0 is done at once, the others when there is such a file."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deadline = time.monotonic() + 120
        for batch in batches:
            while batch.column(0)[0].as_py() > 0 and not for_it.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            yield batch

    return wait


def test_parts_are_told_while_there_are_many(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.05)
    go_on = tmp_path / "go-on"
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        if text == f"one look, 1 of {FEW + 1} parts":
            go_on.touch()

    with with_parts(spark, say) as tell:
        tell("one look")
        spark.range(0, FEW + 1, numPartitions=FEW + 1).mapInArrow(waiting(go_on), "id long").collect()
        assert go_on.exists()
        tell("the next")
    assert said[0] == "one look"
    assert {text.partition(",")[0] for text in said} == {"one look", "the next"}


def test_a_few_parts_are_not_worth_it(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)
    looked = []
    monkeypatch.setattr(progress, "_parts", lambda tracker: looked.append(tracker) or (0, FEW))
    said: list[str] = []
    with with_parts(spark, said.append) as tell:
        tell("one look")
        deadline = time.monotonic() + 60
        while len(looked) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(looked) >= 3
    assert said == ["one look"]
