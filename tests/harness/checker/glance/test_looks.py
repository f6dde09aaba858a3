"""The job: who looks at which files, and what a judgement makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.checker import glance, judge
from harness.checker.glance.looks import MOST_ROWS, Source, batched
from harness.checker.glance.plain import Plain
from harness.checker.history import History, opened
from harness.checker.judge import judge_history
from harness.history.finished import write_finished
from harness.history.reading import History as Stored
from harness.history.reading import open_run
from tests.harness.checker.stories import Story, clean
from tests.harness.checker.test_seeded_defects import DEFECTS


def source(rows: int, name: str = "a") -> Source:
    return Source(runs=[name], files=[Path(name)], rows=rows)


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        ([10], [1]),
        ([10, 10], [1, 1]),
        ([10] * 10, [5, 5]),
        ([MOST_ROWS, 10, MOST_ROWS], [1, 1, 1]),
        ([MOST_ROWS // 2] * 6, [1, 1, 1, 1, 1, 1]),
    ],
)
def test_batches_keep_two_workers_busy_and_fit_into_each(rows: Sequence[int], sizes: Sequence[int]) -> None:
    sources = [source(count, f"r{place}") for place, count in enumerate(rows)]
    batches = batched(sources, 2)
    assert [len(batch) for batch in batches] == sizes
    assert [one for batch in batches for one in batch] == sources


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[Stored]:
    folder = tmp_path_factory.mktemp("glance")
    stories = [clean(f"c{place}", partitions=1 + place % 3) for place in range(4)]
    return [open_run(story.save(folder / story.run)) for story in stories]


def told(history: History) -> list[Any]:
    """Verdicts, but for how long they took."""
    judged = judge_history(history)
    return [
        replace(one.verdict, checks=tuple(replace(check, seconds=0) for check in one.verdict.checks)) for one in judged
    ]


@pytest.mark.spark
def test_healthy_runs_are_judged_without_a_screen_and_alike(
    spark: Any, stored: list[Stored], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(spark, stored) as history:
        history._sources = ()
        assert history.looked is None
        screened, tallies, settled = told(history), history.tallies, history.settled
        assert not history.plain
    asked: list[str] = []
    counted = judge._counted
    monkeypatch.setattr(
        judge,
        "_counted",
        lambda history, table, searches: asked.append(table.__name__) or counted(history, table, searches),
    )
    with opened(spark, stored) as history:
        assert told(history) == screened
        assert history.plain == set(Plain)
        assert (history.tallies, history.settled) == (tallies, settled)
        assert "ledger" not in vars(history)
    assert not set(asked) & {table.__name__ for table in judge.LOOKED_AT}


@pytest.mark.spark
@pytest.mark.parametrize("name", ["the_tail_was_truncated", "an_end_offset_below_an_acknowledgement"])
def test_one_that_is_not_healthy_is_found_by_itself(spark: Any, tmp_path: Path, name: str) -> None:
    make, expected = DEFECTS[name]
    story: Story = make(name)
    with opened(spark, [open_run(story.save(tmp_path / name))]) as history:
        (judged,) = judge_history(history)
    assert {one.type: one.count for one in judged.verdict.anomalies if one.severity == "violation"} == expected


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glance.looks, "MOST_ROWS", 100)
    monkeypatch.setattr(glance.looks, "SLICE_ROWS", 60)


def in_small_row_groups(story: Story, folder: Path) -> Stored:
    write_finished(folder, story.info(), story.tables(), files=2, row_group=20)
    return open_run(folder)


@pytest.mark.spark
@pytest.mark.usefixtures("small_slices")
def test_a_run_that_no_worker_can_hold_is_judged_in_slices_and_alike(spark: Any, tmp_path: Path) -> None:
    """Beside one that a worker can hold."""
    stored = [in_small_row_groups(clean(f"s{size}", records=size), tmp_path / str(size)) for size in (10, 60)]
    assert stored[0].rows["records"] <= 100 < stored[1].rows["records"]
    with opened(spark, stored) as history:
        history._sources = ()
        screened, tallies = told(history), history.tallies
    with opened(spark, stored) as history:
        assert told(history) == screened
        assert history.plain == set(Plain)
        assert history.tallies == tallies
        assert "ledger" not in vars(history)


@pytest.mark.spark
@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("name", ["the_tail_was_truncated", "an_end_offset_below_an_acknowledgement"])
def test_one_that_is_not_healthy_is_found_in_slices_too(spark: Any, tmp_path: Path, name: str) -> None:
    make, expected = DEFECTS[name]
    with opened(spark, [in_small_row_groups(make(name), tmp_path / name)]) as history:
        (judged,) = judge_history(history)
        assert history.looked is not None
    assert {one.type: one.count for one in judged.verdict.anomalies if one.severity == "violation"} == expected


@pytest.mark.spark
def test_what_cannot_be_said_at_a_glance_is_left_to_the_screens(
    spark: Any, stored: list[Stored], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glance.looks, "MOST_ROWS", 10)  # a row group has more, and is not split
    with opened(spark, stored) as history:
        assert history.looked is None
        assert history.tallies
    with opened(spark, [in_small_row_groups(clean("n", records=60), tmp_path / "n")]) as history:
        monkeypatch.setattr(glance.looks, "MOST_ROWS", 100)
        monkeypatch.setattr(glance.looks, "MOST_FATES", -1)
        assert history.looked is None
    monkeypatch.undo()
    with opened(spark, stored) as history:
        history._sources = [source(10, "nowhere")]
        assert history.looked is None
