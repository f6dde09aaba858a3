"""The loop on real Kafka, from the command line: deploy, break, record, judge, report; and again from what was recorded."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.history.plan import first_difference
from tests.harness.judged_runs import JudgedRuns
from tests.harness.krash import krash, start_krash

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

SHORT = ("--system", "kafka", "--time-limit", "8s", "--json")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("runs")
    ran = krash("run", Path("examples/healthy.yaml").resolve(), *SHORT, "--seed", "7", "--out", "runs", cwd=out)
    assert ran.code == 0
    return {**ran.answer, "run_dir": str(out / ran.answer["run_dir"])}


def test_a_healthy_cluster_is_valid(healthy: dict[str, Any]) -> None:
    assert (healthy["verdict"], healthy["status"], healthy["exit"]) == ("valid", "judged", 0)
    counts = healthy["counts"]
    assert counts["acknowledged"] > 1000
    assert counts["lost"] == 0
    assert counts["read"] >= counts["acknowledged"]
    assert {check["verdict"] for check in healthy["checks"]} == {"valid"}


def test_the_run_directory_is_whole(healthy: dict[str, Any]) -> None:
    directory = Path(healthy["run_dir"])
    info = json.loads((directory / "run.json").read_text())
    assert info["seed"] == 7
    assert [phase["name"] for phase in info["phases"]] == ["deploy", "workload", "heal", "drain", "collect"]
    assert all(phase["end_ns"] > phase["start_ns"] for phase in info["phases"])
    assert not (directory / "journal").exists()
    assert not (directory / "work").exists()
    for node in ("c1", "b1", "b2", "b3"):
        assert any((directory / "nodes" / node / "log").iterdir())
        assert any((directory / "nodes" / node / "metadata").iterdir())
    page = (directory / "report.html").read_text()
    assert "VALID" in page
    assert (directory / "junit.xml").read_text().startswith("<?xml")
    assert pq.read_table(directory / "history" / "records").num_rows > 2000
    metadata = pq.read_table(directory / "history" / "metadata").to_pylist()
    assert {row["topic"] for row in metadata if row["kind"] == "partition"} >= {"log"}
    assert {row["broker"] for row in metadata if row["kind"] == "register-broker"} == {1, 2, 3}
    assert len({(row["node"], row["offset"], row["index"]) for row in metadata}) == len(metadata)
    assert any(row["at_ns"] is not None for row in metadata)


def test_checking_and_reporting_again_give_the_same(healthy: dict[str, Any]) -> None:
    directory = Path(healthy["run_dir"])
    page = (directory / "report.html").read_bytes()
    again = krash("check", directory, "--json")
    assert again.code == 0
    assert again.answer["verdict"] == "valid"
    assert again.answer["counts"] == healthy["counts"]
    (directory / "report.html").unlink()
    assert krash("report", directory).code == 0
    assert len((directory / "report.html").read_bytes()) == pytest.approx(len(page), rel=0.05)
    listed = krash("runs", directory.parent, "--json")
    assert [run["verdict"] for run in json.loads(listed.stdout)] == ["valid"]


def test_the_same_seed_gives_the_same_plan_and_a_replay_takes_it_again(runs: JudgedRuns, tmp_path: Path) -> None:
    mix = [f"nemesis.mix.{name}" for name in ("interval=2s", "quiet=500ms", "start_after=1s", "duration=[500ms, 1s]")]

    def run() -> Path:
        return Path(runs.run(None, *mix, out=tmp_path, seed=7, nemesis="pause,partition", time_limit="6s")["run_dir"])

    first, second = run(), run()
    replayed = Path(krash("run", "--replay", first, "--json", "--out", tmp_path).answer["run_dir"])
    assert first_difference(first, second) is None
    assert first_difference(first, replayed) is None
    plans = [json.loads((run / "run.json").read_text())["plan"] for run in (first, second, replayed)]
    assert plans[0] == plans[1] == plans[2]
    assert plans[0]
    assert '"resolved"' in (first / "choices.jsonl").read_text()


def test_ctrl_c_heals_drains_judges_and_reports(tmp_path: Path) -> None:
    process = start_krash("run", "--system", "kafka", "--nemesis", "pause", "--time-limit", "10m", "--out", tmp_path)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.lstrip().startswith("deploy"):
                break
        os.kill(process.pid, signal.SIGINT)
        output = process.communicate(timeout=300)[0]
    finally:
        process.kill()
    assert process.returncode == 130, output
    (directory,) = tmp_path.iterdir()
    verdict = json.loads((directory / "verdict.json").read_text())
    assert verdict["status"] == "interrupted"
    assert (directory / "report.html").exists()
    assert "interrupted" in output


def test_a_command_beside_a_cluster_gets_its_bootstrap_and_hands_its_code_through(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from confluent_kafka.admin import AdminClient\n"
        "metadata = AdminClient({'bootstrap.servers': os.environ['KRASH_BOOTSTRAP']}).list_topics(timeout=20)\n"
        "print('brokers:', sorted(metadata.brokers)); sys.exit(7)\n"
    )
    ran = krash("up", "--system", "kafka", "--out", tmp_path, "--", sys.executable, "-c", script)
    assert ran.code == 7
    assert "brokers: [1, 2, 3]" in ran.stdout


@pytest.mark.parametrize(("example", "time_limit"), [("unclean", "30s"), ("acks-1", "18s")])
def test_data_that_a_configuration_gives_up_is_found_lost(
    runs: JudgedRuns, tmp_path: Path, example: str, time_limit: str
) -> None:
    ran = runs.run(example, out=tmp_path, seed=1, time_limit=time_limit)
    assert (ran["exit"], ran["verdict"]) == (1, "invalid")
    lost = {anomaly["type"]: anomaly for anomaly in ran["anomalies"]}["lost-write"]
    assert lost["count"] > 0
    witness = lost["witnesses"][0]
    assert witness["topic"] == "log"
    assert witness["offset"] is not None
    assert witness["ops"]
    assert witness["faults"]
    assert lost["expected"]
