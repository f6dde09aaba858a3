"""Races on real Kafka, from the command line: where the bug is, where it is not, and a race out of a file."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.harness.krash import krash, start_krash

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_race.py"


def one_try(out: Path, *arguments: str | Path) -> dict[str, Any]:
    ran = krash("race", "run", *arguments, "--json", "--out", out)
    assert ran.code == ran.answer["exit"]
    return ran.answer


def steps_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    rows = pq.read_table(Path(answer["run_dir"]) / "history" / "steps").to_pylist()
    return sorted(rows, key=lambda row: int(row["step"]))


def test_kafka_14139_loses_every_record_on_3_4(tmp_path: Path) -> None:
    answer = one_try(tmp_path, "kafka-14139", "--system", "kafka:3.4.1")
    assert (answer["verdict"], answer["status"], answer["exit"]) == ("invalid", "judged", 1)
    assert "lost-write" in answer["anomalies"]
    assert (answer["acknowledged"], answer["lost"]) == (200, 200)
    assert (answer["expected"], answer["as_expected"]) == ("lost-write", True)
    steps = steps_of(answer)
    assert {step["status"] for step in steps} == {"done"}
    assert "the controller accepted: b2 is in the ISR with an empty log" in [step["text"] for step in steps]
    faults = pq.read_table(Path(answer["run_dir"]) / "history" / "faults").to_pylist()
    assert {row["name"] for row in faults} >= {"kill", "hold", "wipe", "cut"}
    assert {row["status"] for row in faults} == {"healed"}
    held = [row for row in pq.read_table(Path(answer["run_dir"]) / "history" / "messages").to_pylist() if row["rule"]]
    released = next(step for step in steps if step["verb"] == "release")
    assert released["message"] in [row["message"] for row in held]
    info = json.loads((Path(answer["run_dir"]) / "run.json").read_text())
    assert info["race"]["variant"] == "kill-leader"
    assert [phase["name"] for phase in info["phases"]] == ["deploy", "race", "heal", "drain", "collect"]


def test_kafka_14139_loses_nothing_on_4_3(tmp_path: Path) -> None:
    answer = one_try(tmp_path, "kafka-14139", "--system", "kafka:4.3.1")
    assert (answer["verdict"], answer["exit"], answer["as_expected"]) == ("valid", 0, True)
    assert (answer["acknowledged"], answer["lost"]) == (200, 0)
    assert "the controller refused: INELIGIBLE_REPLICA" in [step["text"] for step in steps_of(answer)]


def test_a_race_out_of_a_file(tmp_path: Path) -> None:
    answer = one_try(tmp_path, EXAMPLE, "--system", "kafka:4.3.1", "--set", "records=30")
    assert (answer["race"], answer["verdict"], answer["expected"]) == ("acks-one", "invalid", "lost-write")
    assert (answer["acknowledged"], answer["lost"], answer["as_expected"]) == (30, 30, True)
    again = krash("run", "--replay", answer["run_dir"], "--json", "--out", tmp_path).answer
    assert (again["lost"], again["parameters"]) == (30, {"variant": "cut-off", "records": 30})


NOT_REACHED = '''
from nemesis.races.conditions import leader_of
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage

@race("never", cluster=lambda given: cluster(given, brokers=1, topics=[topic("t", [1])]), gate=False,
      expects=(), affected="", fixed="")
async def never(on: Stage, seconds: float = 2.0) -> None:
    """Waits for what never comes."""
    await on.produce("t", 0, 10)
    await on.until(leader_of("t", 0) == "b2", within=seconds)
'''


def test_what_is_not_reached_is_never_valid(tmp_path: Path) -> None:
    file = tmp_path / "never.py"
    file.write_text(NOT_REACHED)
    answer = one_try(tmp_path / "runs", file, "--system", "kafka:4.3.1")
    assert (answer["verdict"], answer["status"], answer["exit"]) == ("unknown", "not-reached", 2)
    assert "the leader of t-0 is b2 (within 2 s); instead: the leader of t-0 is b1" in answer["reason"]
    assert (answer["acknowledged"], answer["expected"], answer["as_expected"]) == (10, None, None)


def test_ctrl_c_in_a_race_heals_and_judges(tmp_path: Path) -> None:
    file = tmp_path / "never.py"
    file.write_text(NOT_REACHED)
    running = start_krash(
        "race", "run", file, "--system", "kafka:4.3.1", "--set", "seconds=300", "--out", tmp_path / "runs"
    )
    assert running.stdout is not None
    for line in running.stdout:
        if "sends 10 records" in line:
            os.kill(running.pid, signal.SIGINT)
            break
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 130, said
    assert "10 acknowledged · 10 read back" in said
