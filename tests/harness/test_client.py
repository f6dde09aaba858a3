"""A client process from the outside: config in, JSON lines and a journal out, stopped by SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.client import ClientConfig, ConfigError
from harness.history.plan import recorded_choices
from harness.history.reading import open_run
from harness.history.store import finish
from tests.harness.history.conftest import RUN, Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def start(run: Run, plugins: Path, **changes: Any) -> subprocess.Popen[str]:
    config = ClientConfig(
        run=RUN,
        clock="host",
        writer=1,
        client="w1",
        index=0,
        clients=1,
        bootstrap="b1:9092",
        topics=[{"name": "log", "partitions": 4}],
        workload="toy",
        seed=7,
        journal=str(run.journal),
    )
    path = run.path.parent / "config.json"
    path.write_text(json.dumps(config.as_json() | changes))
    return subprocess.Popen(
        [sys.executable, "-m", "harness.client", str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{Path.cwd()}:{plugins}"},
    )


def end(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, _ = process.communicate()
    return [json.loads(line) for line in out.splitlines()]


def until_it_works(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if "progress" in json.loads(line):
            return
    raise AssertionError("it ended without any progress")


def test_it_records_until_it_is_told_to_stop(run: Run, plugins: Path) -> None:
    process = start(run, plugins)
    until_it_works(process)
    process.send_signal(signal.SIGTERM)
    lines = end(process)
    assert process.returncode == 0
    assert list(lines[-1]) == ["done"]
    finished = finish(run.path)
    assert finished.rows["ops"] >= 16
    assert finished.never_completed == 0
    assert list(recorded_choices(run.path)) == [("client/w1/main/producer", 0)]
    assert {row["client"] for row in open_run(run.path).table("ops").to_pylist()} == {"w1.p0"}


def test_the_life_after_a_kill_is_another_client_with_choices_of_its_own(run: Run, plugins: Path) -> None:
    first = start(run, plugins)
    until_it_works(first)
    first.kill()
    first.communicate()
    end(start(run, plugins, deadline_s=0.3, life=1, writer=2))
    finish(run.path)
    assert list(recorded_choices(run.path)) == [("client/w1/main/producer", 0), ("client/w1/mainr1/producer", 0)]
    ops = open_run(run.path).table("ops").to_pylist()
    assert {row["client"] for row in ops} == {"w1.p0", "w1r1.p0"}
    processes = [{row["process"] for row in ops if row["client"] == client} for client in ("w1.p0", "w1r1.p0")]
    assert not processes[0] & processes[1]


def test_the_same_seed_sends_to_the_same_partitions(run: Run, plugins: Path, tmp_path: Path) -> None:
    other, replay = Run(tmp_path / "other"), Run(tmp_path / "replay")
    for each, changes in ((run, {}), (other, {}), (replay, {"seed": 8, "replay": str(run.path)})):
        process = start(each, plugins, deadline_s=0.3, **changes)
        end(process)
        assert process.returncode == 0
        finish(each.path)
    partitions = [
        [row["partition"] for row in open_run(each.path).table("records").to_pylist()] for each in (run, other, replay)
    ]
    common = min(map(len, partitions))
    assert common >= 16
    assert partitions[0][:common] == partitions[1][:common] == partitions[2][:common]


def test_the_drain_is_a_phase_of_its_own(run: Run, plugins: Path) -> None:
    lines = end(start(run, plugins, phase="final", deadline_s=5, writer=2))
    assert lines[0]["started"]["phase"] == "final"
    finish(run.path)
    (record,) = open_run(run.path).table("records").to_pylist()
    assert (record["kind"], record["phase"], record["value"]) == ("poll", "final", "v")


@pytest.mark.parametrize(
    ("changes", "kind", "match"),
    [
        ({"settings": {"fail": True}}, "RuntimeError", "the toy broke"),
        ({"workload": "tyo"}, "PluginError", "no 'tyo' among the workloads"),
        ({"journal": "/nowhere"}, "FileNotFoundError", "/nowhere"),
        ({"phase": "fnial"}, "ConfigError", "config.json: phase is 'fnial'; expected one of main, final"),
        ({"colour": "red"}, "ConfigError", "unknown fields: colour"),
        ({"phase": "final"}, "ConfigError", "deadline_s is needed"),
    ],
)
def test_a_failure_is_the_last_line(run: Run, plugins: Path, changes: dict[str, Any], kind: str, match: str) -> None:
    process = start(run, plugins, **changes)
    error = end(process)[-1]["error"]
    assert process.returncode == 3
    assert error["type"] == kind
    assert match in error["message"]
    assert "Traceback" in error["trace"]


def test_a_config_must_be_whole() -> None:
    with pytest.raises(ConfigError, match=r"missing fields: bootstrap, client, .*writer"):
        ClientConfig.from_json({})
    with pytest.raises(ConfigError, match="expected a JSON object"):
        ClientConfig.from_json([])


def test_a_client_stays_light() -> None:
    """It shares two cores with what it measures; pyarrow alone would bring pandas in with its first list."""
    script = (
        "import sys, harness.client, pyarrow; harness.client.spare_pandas(); pyarrow.array(['x']);"
        "print([m for m in ('pandas', 'pyspark', 'matplotlib', 'numba', 'docker', 'fabric') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
