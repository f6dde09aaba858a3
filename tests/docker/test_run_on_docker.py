"""The loop on real Kafka in containers, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nodes.backends.docker import DockerBackend
from tests.harness.krash import krash

pytestmark = [pytest.mark.timeout(900)]


def run(spec: str, limit: str, out: Path) -> dict[str, Any]:
    ran = krash("run", spec, "--backend", "docker", "--time-limit", limit, "--seed", "7", "--out", out, "--json")
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
