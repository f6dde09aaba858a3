"""What a newcomer gets: a verdict on the reference cluster, from the command line and from the examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.harness.judged_runs import JudgedRuns
from tests.harness.krash import krash

pytestmark = [pytest.mark.reference, pytest.mark.timeout(600)]

KILL = "nemesis={script: [{at: 1s, fault: kill, target: leader of log-0, for: 1s}]}"


def rows(run: dict[str, Any], table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(Path(run["run_dir"]) / "history" / table).to_pylist()
    return found


def test_a_run_without_a_word_about_the_system_needs_no_kafka(tmp_path: Path) -> None:
    ran = krash("run", "--time-limit", "5s", "--set", KILL, "--seed", "7", "--json", "--out", tmp_path)
    assert ran.code == 0
    assert (ran.answer["verdict"], ran.answer["counts"]["lost"]) == ("valid", 0)
    assert ran.answer["counts"]["acknowledged"] > 500
    directory = Path(ran.answer["run_dir"])
    info = json.loads((directory / "run.json").read_text())
    assert (info["system"], set(info["versions"])) == ("reference", {"c1", "b1", "b2", "b3"})
    assert "VALID" in (directory / "report.html").read_text()
    for node in info["versions"]:
        assert "starts: " in (directory / "nodes" / node / "log" / "stdout.log").read_text()
    (killed,) = rows(ran.answer, "faults")
    assert (killed["name"], killed["status"]) == ("kill", "healed")
    metadata = rows(ran.answer, "metadata")
    assert {row["broker"] for row in metadata if row["kind"] == "register-broker"} == {1, 2, 3}


def test_data_that_a_configuration_gives_up_is_found_lost(runs: JudgedRuns, tmp_path: Path) -> None:
    ran = runs.run("unclean", out=tmp_path, seed=1, time_limit="30s")
    assert (ran["exit"], ran["verdict"]) == (1, "invalid")
    lost = {anomaly["type"]: anomaly for anomaly in ran["anomalies"]}["lost-write"]
    assert lost["count"] > 0
    assert lost["expected"]


@pytest.mark.parametrize(
    ("example", "settings"),
    [
        ("transactions", ("nemesis.script=[{at: 2s, fault: kill, target: leader of log-0, for: 1s}]",)),
        ("groups", ("nemesis.script=[{at: 2s, fault: kill, target: w1, for: 1s}]",)),
        ("wire", ("nemesis.mix.interval=3s", "nemesis.mix.duration=[1s, 2s]", "nemesis.mix.quiet=1s")),
    ],
)
def test_examples_are_valid_as_on_kafka(
    runs: JudgedRuns, tmp_path: Path, example: str, settings: tuple[str, ...]
) -> None:
    ran = runs.run(example, *settings, out=tmp_path, seed=5, time_limit="8s")
    assert (ran["exit"], ran["verdict"]) == (0, "valid"), ran
    assert ran["counts"]["acknowledged"] > 500
    assert any(fault["status"] == "healed" for fault in rows(ran, "faults"))
