"""Whole clusters in a simulated world: they come up, survive what they must, and lose what a missing protection gives away."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.history.reading import open_run
from harness.protection_table import kept_table, write_table
from harness.simulated.cluster import Shape, SimulatedCluster, Topic
from harness.simulated.defect import SAFE_TOPIC, Defect, log
from harness.simulated.defects import DEFECTS
from harness.simulated.isr_scripts import stale_alter_partition
from harness.simulated.run import Plan, simulate
from nodes.reference.environment import SECOND
from nodes.reference.protections import Protection
from reports.protections import Row, Share, Table
from tests.harness.krash import krash

BY_NAME = {one.protection.value: one for one in DEFECTS}


def rows(run_dir: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(run_dir / "history" / table).to_pylist()
    return found


def lost(run_dir: Path) -> int:
    records = rows(run_dir, "records")
    read = {row["value"] for row in records if row["phase"] == "final"}
    return sum(row["kind"] == "send" and row["outcome"] == "ok" and row["value"] not in read for row in records)


def shortened(plan: Plan) -> Plan:
    return replace(plan, duration=12 * SECOND)


def test_every_protection_is_in_the_table_once() -> None:
    assert sorted(one.protection.value for one in DEFECTS) == sorted(one.value for one in Protection)


def test_a_cluster_is_ready_within_two_seconds_of_its_time() -> None:
    cluster = SimulatedCluster(1, Shape(topics=(Topic(partitions=3), Topic(name="other", replication=1))))
    try:
        cluster.ready(within=2 * SECOND)
        assert cluster.healed()
    finally:
        cluster.world.close()


SCRIPT = """
import sys
from pathlib import Path
from tests.harness.simulated.test_simulated import repeated
print(repeated(int(sys.argv[1]), Path(sys.argv[2])))
"""


def repeated(seed: int, out: Path) -> str:
    """A digest of what a run left behind."""
    plan = shortened(replace(log(BY_NAME["replicate-before-acknowledge"].plan.mix), workload="transactions"))
    done = simulate(plan, seed=seed, out=out / "run")
    left = [rows(done.run_dir, table) for table in ("ops", "records", "bounds", "faults")]
    return f"{done.steps} {hashlib.sha256(repr(left).encode()).hexdigest()}"


def test_the_same_seed_is_the_same_history_and_another_is_not(tmp_path: Path) -> None:
    """Also in processes in which sets of strings have other orders."""

    def digest(name: str, seed: int, hash_seed: str) -> str:
        command = [sys.executable, "-c", SCRIPT, str(seed), str(tmp_path / name)]
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=200)
        return done.stdout

    first = digest("a", 3, "1")
    assert digest("b", 3, "2") == first
    assert digest("c", 4, "1") != first


@pytest.mark.parametrize("seed", range(2))
def test_a_healthy_cluster_loses_nothing_and_clients_get_on(seed: int, tmp_path: Path) -> None:
    done = simulate(shortened(log(BY_NAME["replicate-before-acknowledge"].plan.mix)), seed=seed, out=tmp_path / "run")
    assert not done.failures
    open_run(done.run_dir)
    outcomes = Counter((op["kind"], op["outcome"]) for op in rows(done.run_dir, "ops"))
    assert outcomes["send", "ok"] > 300
    assert outcomes["poll", "ok"] > 100
    assert rows(done.run_dir, "faults")
    assert lost(done.run_dir) == 0
    final = [row for row in rows(done.run_dir, "bounds") if row["phase"] == "final"]
    assert [row["read_to"] == row["log_end"] for row in final] == [True, True]


@pytest.mark.parametrize("name", ["append-before-acknowledge", "broker-epoch-at-controller"])
def test_without_a_protection_records_are_lost(name: str, tmp_path: Path) -> None:
    defect: Defect = BY_NAME[name]
    missing = [
        lost(simulate(defect.planned(off=True), seed=seed, out=tmp_path / f"{seed}").run_dir) for seed in range(2)
    ]
    assert any(missing)


def test_the_script_of_kafka_14139_loses_nothing_with_its_protection(tmp_path: Path) -> None:
    plan = BY_NAME["broker-epoch-at-controller"].planned(off=False)
    assert plan.script is stale_alter_partition
    assert lost(simulate(plan, seed=0, out=tmp_path / "run").run_dir) == 0


@pytest.mark.parametrize("level", [1, 3, 9], ids=["3.0-IV1", "3.2-IV0", "3.5-IV0"])
def test_below_3_5_iv1_the_hole_of_kafka_14139_is_open_with_every_protection_on(level: int, tmp_path: Path) -> None:
    """What leaders send there has no broker epochs that the controller could check, as in Kafka."""
    plan = BY_NAME["broker-epoch-at-controller"].planned(off=False)
    plan = replace(plan, shape=replace(plan.shape, level=level))
    assert any(lost(simulate(plan, seed=seed, out=tmp_path / f"{seed}").run_dir) for seed in range(2))


def test_transactions_are_whole(tmp_path: Path) -> None:
    plan = shortened(
        replace(log(BY_NAME["replicate-before-acknowledge"].plan.mix, SAFE_TOPIC), workload="transactions")
    )
    run = simulate(plan, seed=1, out=tmp_path / "run").run_dir
    ops = rows(run, "ops")
    committed = {op["transaction"] for op in ops if op["kind"] == "commit" and op["outcome"] == "ok"}
    aborted = {op["transaction"] for op in ops if op["kind"] == "abort" and op["outcome"] == "ok"}
    assert len(committed) > 20
    assert aborted
    sent = [row for row in rows(run, "records") if row["kind"] == "send" and row["outcome"] == "ok"]
    read = {row["value"] for row in rows(run, "records") if row["phase"] == "final"}
    assert all(row["value"] in read for row in sent if row["transaction"] in committed)
    assert not any(row["value"] in read for row in sent if row["transaction"] in aborted)


def test_the_catch_table_says_what_came(tmp_path: Path) -> None:
    only = ("--only", "append-before-acknowledge", "--seeds", "1", "--runs", tmp_path / "runs")
    ran = krash("protections", "catch", *only, cwd=tmp_path)
    assert ran.code == 0, ran.stderr
    assert "append-before-acknowledge: lost-write in 1 of 1 without it, 0 of 1 with it" in " ".join(ran.stdout.split())
    again = krash("protections", "catch", *only, cwd=tmp_path)
    assert "2 kept, 0 to do" in again.stdout
    assert not (tmp_path / "docs").exists()
    assert krash("protections", "catch", "--only", "nothing-such", cwd=tmp_path).code == 64
    row = Row(protection="append-before-acknowledge", source="", without="", anomaly="lost-write", faults="")
    for runs, found_then in ((2, 0), (1, 1)):  # a quick look does not take the place of more
        known = replace(row, off=Share(runs=runs), on=Share(runs=runs))
        write_table(tmp_path / "docs", Table(rows=[known], healthy=Share(runs=50)))
        assert krash("protections", "catch", *only, cwd=tmp_path).code == 0
        table = kept_table(tmp_path / "docs")
        found = table.of(row.protection)
        assert found is not None
        assert (found.off.runs, found.off.found, table.healthy.runs) == (runs, found_then, 50)
