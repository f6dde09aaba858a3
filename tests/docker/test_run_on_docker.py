"""The loop in containers, from the command line: on real Kafka, and once on the reference cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from nodes.backends.docker import DockerBackend
from tests.harness.krash import krash, start_krash
from tests.nodes import traces

pytestmark = [pytest.mark.timeout(900)]

GONE_SECONDS = 180.0  # a stage that lost its supervisor heals, drains and collects first
SMALL = """
name: doomed
system: kafka
combined: true
brokers: 1
topics: [{name: log, partitions: 2}]
workload: {name: log, clients: 1}
rate: 100
time_limit: 10m
"""


def run(spec: str, limit: str, out: Path, system: str = "kafka") -> dict[str, Any]:
    chosen = ("--system", system, "--backend", "docker", "--time-limit", limit, "--seed", "7")
    ran = krash("run", spec, *chosen, "--out", out, "--json")
    assert ran.code == 0
    assert DockerBackend.leftovers() == []
    return ran.answer


def test_a_healthy_cluster_is_valid(tmp_path: Path) -> None:
    answer = run("examples/healthy.yaml", "10s", tmp_path)
    assert (answer["verdict"], answer["status"]) == ("valid", "judged")
    assert answer["counts"]["acknowledged"] > 1000
    assert answer["counts"]["lost"] == 0
    directory = Path(answer["run_dir"])
    assert not (directory / "work").exists()
    for node in ("c1", "b1", "b2", "b3"):
        assert any((directory / "nodes" / node / "log").iterdir())


def test_chaos_does_not_lose_a_record(tmp_path: Path) -> None:
    answer = run("examples/chaos.yaml", "40s", tmp_path)
    assert (answer["verdict"], answer["counts"]["lost"]) == ("valid", 0)
    faults = pq.read_table(Path(answer["run_dir"]) / "history" / "faults").to_pylist()
    assert {fault["status"] for fault in faults} <= {"healed", "refused", "planned", "injected"}
    assert any(fault["status"] == "healed" for fault in faults)
    assert json.loads((Path(answer["run_dir"]) / "run.json").read_text())["spec"]["backend"] == "docker"


def test_the_reference_cluster_runs_in_an_image_without_a_python(tmp_path: Path) -> None:
    answer = run("examples/healthy.yaml", "5s", tmp_path, "reference")
    assert (answer["verdict"], answer["counts"]["lost"]) == ("valid", 0)
    assert answer["counts"]["acknowledged"] > 500
    said = (Path(answer["run_dir"]) / "nodes" / "b1" / "log" / "stdout.log").read_text()
    assert "starts: broker" in said


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[psutil.Process, Path]]:
    """A run in the middle of its workload, of one node and one client; its process, its directory."""
    spec, out = tmp_path / "small.yaml", tmp_path / "runs"
    spec.write_text(SMALL)
    with start_krash("run", spec, "--backend", "docker", "--out", out) as process:
        try:
            until_it_works(out)
            yield psutil.Process(process.pid), next(out.iterdir())
        finally:
            process.kill()
            krash("heal", "--all")


def until_it_works(out: Path) -> None:
    """Wait until clients have written something."""
    script = 'until [ -n "$(find "$0" -path "*/journal/*" -name "0.*" -size +0)" ]; do sleep 0.1; done'
    subprocess.run(["sh", "-c", script, str(out)], check=True, timeout=GONE_SECONDS)


def test_heal_removes_what_is_left_when_all_of_krash_was_killed(running: tuple[psutil.Process, Path]) -> None:
    top, directory = running
    (stage,) = [child for child in top.children() if "harness.stage" in child.cmdline()]
    for process in (top, stage):
        process.kill()
    psutil.wait_procs([top, stage], timeout=GONE_SECONDS)
    left = [item.what.split()[0] for item in DockerBackend.leftovers() if item.run == directory.name]
    assert sorted(left) == ["container", "container", "network"]
    assert "java" in " ".join(traces.processes(directory.name).values()), "the server outlives krash"
    told = krash(
        "run", "examples/healthy.yaml", "--backend", "docker", "--set", "system=kafka:/nowhere", "--out", directory
    )
    assert directory.name in told.stdout + told.stderr, "the next run says what is left"
    healed = krash("heal", "--all")
    assert (healed.code, healed.stdout.count("removed ")) == (0, 3)
    assert DockerBackend.leftovers() == []
    assert traces.left(lambda: traces.processes(directory.name), within=GONE_SECONDS) == {}
    assert not (directory / "work").exists()


def test_a_run_ends_itself_when_only_its_supervisor_was_killed(running: tuple[psutil.Process, Path]) -> None:
    top, directory = running
    top.kill()
    assert traces.left(lambda: traces.processes(directory.name), within=GONE_SECONDS) == {}
    assert krash("heal", "--all").stdout == "nothing was left to heal\n"
