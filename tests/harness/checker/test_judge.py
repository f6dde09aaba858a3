"""Judging as a whole: the same verdict however rows are stored and work is cut, and what is written."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.checker import history as tables
from harness.checker.conclude import Judged
from harness.checker.session import lasts
from harness.history.finished import write_finished
from harness.history.reading import open_run
from reports.verdict import ANOMALIES
from tests.harness.checker import test_against_oracle
from tests.harness.checker.stories import Story, clean
from tests.harness.checker.test_client_defects import DEFECTS as DEFECTS_OF_CLIENTS
from tests.harness.checker.test_seeded_defects import DEFECTS


def shuffled(story: Story, folder: Path, rng: random.Random) -> Path:
    """The same rows in another order, over three files of small row groups."""
    mixed = {}
    for name, table in story.tables().items():
        order = list(range(table.num_rows))
        rng.shuffle(order)
        mixed[name] = table.take(pa.array(order, pa.int64()))
    write_finished(folder / story.run, story.info(), mixed, files=3, row_group=7)
    return folder / story.run


def told(judged: Judged) -> Any:
    """The verdict without its stopwatch."""
    verdict = judged.verdict.as_json()
    for check in verdict["checks"]:
        check.pop("seconds")
    return json.dumps(verdict, indent=1)


@pytest.mark.spark
def test_the_verdict_does_not_depend_on_how_rows_are_stored_or_work_is_cut(
    spark: Any, conclusions: dict[str, Judged], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.checker.judge import judge

    rng = random.Random(7)
    stories = [DEFECTS[name][0](name) for name in list(DEFECTS)[::3]] + test_against_oracle.stories()[:10]
    stories += [DEFECTS_OF_CLIENTS[name][0](name) for name in list(DEFECTS_OF_CLIENTS)]
    monkeypatch.setattr(tables, "RANGE_BITS", 1)  # every log spans ranges
    monkeypatch.setattr(tables, "ROWS_PER_BUNDLE", 100)
    monkeypatch.setattr(tables, "ROWS_PER_PARTITION", 1000)
    monkeypatch.setattr(tables, "BROADCAST_ROWS", 0)
    again = judge(spark, [open_run(shuffled(story, tmp_path, rng)) for story in stories])
    for one in again:
        assert told(one) == told(conclusions[one.run])
    assert sum(one.verdict.verdict == "invalid" for one in again) > 8


@pytest.mark.spark
def test_faults_without_any_record_are_no_data(judged: Callable[..., dict[str, Judged]]) -> None:
    story = clean("silent")
    story.ops.clear()
    story.records.clear()
    story.bounds.clear()
    assert story.faults
    verdict = judged(story)["silent"].verdict
    assert (verdict.status, verdict.verdict) == ("no-data", "unknown")


@pytest.mark.spark
def test_a_record_acknowledged_without_an_offset_is_looked_up_by_its_value(
    judged: Callable[..., dict[str, Judged]],
) -> None:
    stories = {name: clean(name) for name in ("there", "gone")}
    for story in stories.values():
        place = next(i for i, r in enumerate(story.records) if r.kind == "send" and r.offset == 7 and r.partition == 0)
        sent = story.records[place]
        story.records[place] = replace(sent, offset=None)
        if story.run == "gone":
            story.records[:] = [r for r in story.records if r.kind == "send" or r.value != sent.value]
    verdicts = {name: found.verdict for name, found in judged(*stories.values()).items()}
    assert verdicts["there"].verdict == "valid"
    assert verdicts["gone"].verdict == "unknown"
    assert "acknowledged without an offset" in verdicts["gone"].unjudged[0]


@pytest.mark.spark
def test_a_verdict_is_written_whole(judged: Callable[..., dict[str, Judged]], tmp_path: Path) -> None:
    from harness.checker.judge import write

    story = clean("written", checks={"tolerate": ["lost-write"]})
    story.records[:] = [r for r in story.records if not (r.phase == "final" and r.partition == 1)]
    empty = Story(run="empty")
    found = judged(story, empty)
    assert (found["empty"].verdict.status, found["empty"].verdict.verdict) == ("no-data", "unknown")
    run_dir = story.save(tmp_path / "written")
    for _ in range(2):
        write(run_dir, found["written"])
    verdict = json.loads((run_dir / "verdict.json").read_bytes())
    assert verdict["verdict"] == "valid"
    assert verdict["anomalies"][0]["count"] == 20
    assert len(verdict["anomalies"][0]["witnesses"]) == 20
    assert verdict["counts"] == {
        "ops": {"ok": 52, "fail": 0, "info": 0},
        "attempted": 40,
        "acknowledged": 40,
        "read": 40,
        "lost": 20,
    }
    assert verdict["unavailability"] == [
        {"fault": 1, "name": "pause", "targets": ["b1"], "writes_seconds": 0.015, "reads_seconds": 0.1}
    ]
    stored = pq.read_table(run_dir / "anomalies")
    assert stored.schema.equals(ANOMALIES)
    assert stored.num_rows == 20
    assert sorted(path.name for path in run_dir.iterdir()) == ["anomalies", "history", "run.json", "verdict.json"]


@pytest.mark.spark
def test_one_run_twice_is_refused(spark: Any, tmp_path: Path) -> None:
    from harness.checker.judge import judge

    with pytest.raises(ValueError, match="two of the given directories hold the same run"):
        judge(spark, [open_run(clean("twin").save(tmp_path / name)) for name in "ab"])
    assert judge(spark, []) == []


@pytest.mark.spark
def test_a_session_that_lasts_compiles_its_plans_and_comes_to_the_same_verdict(
    spark: Any, judged: Callable[..., dict[str, Judged]], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "a_record_is_missing_from_the_final_read"
    story = DEFECTS[name][0](name)
    story.checks = {"enabled": ["lost-write", "nonlinearizable-log"]}
    assert not lasts(spark)
    first = judged(story)
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "false"
    monkeypatch.setattr(tables, "lasts", lambda spark: True)
    assert told(judged(story)[name]) == told(first[name])
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "true"
