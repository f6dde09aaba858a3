"""Simulated groups and transactions: members do their work, zombies are noticed, and late messages do harm only without protection."""

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

from harness.checker.groups import Partition, Place, commit, instance, owners
from harness.checker.transactions import Fate, transactions
from harness.simulated.defect import Defect
from harness.simulated.group_defects import GROUP_DEFECTS, HEALTHY_GROUPS
from harness.simulated.group_requests import Standing, assigned, shared_out, sync
from harness.simulated.run import simulate
from nodes.reference.environment import SECOND

BY_NAME: dict[str, Defect] = {one.protection.value: one for one in GROUP_DEFECTS}
HEALTHY = {one.name: one for one in HEALTHY_GROUPS}


def rows(run_dir: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(run_dir / "history" / table).to_pylist()
    return found


def shown(name: str, out: Path, *, off: bool, seconds: int) -> Path:
    return simulate(replace(BY_NAME[name].planned(off=off), duration=seconds * SECOND), seed=0, out=out / "run").run_dir


def two_owners(run_dir: Path) -> list[str]:
    positions, found = rows(run_dir, "positions"), []
    for topic, partition in sorted({(row["topic"], row["partition"]) for row in positions}):
        place = Place(run_dir.name, "g0", topic, partition)
        mine = [row for row in positions if (row["topic"], row["partition"]) == (topic, partition)]
        commits = [said for row in mine if (said := commit(row, {})) is not None]
        found += [sentence for sentence, _ in owners(place, Partition(rows=mine, commits=commits, answers=[]))]
    return found


def aborted_reads(run_dir: Path) -> set[str]:
    fates = {one.transaction: one.fate for one in transactions(rows(run_dir, "ops"))}
    records = rows(run_dir, "records")
    read = {row["value"] for row in records if row["kind"] == "poll"}
    sent = [row for row in records if row["kind"] == "send" and row["transaction"] is not None]
    return {row["value"] for row in sent if fates[row["transaction"]] is Fate.ABORTED} & read


def test_partitions_are_shared_out_and_move_in_every_generation() -> None:
    places = [("log", number) for number in range(5)]
    first, second = (shared_out(["b", "a", "c"], places, generation) for generation in (6, 7))
    assert first == {"a": [("log", 0), ("log", 3)], "b": [("log", 1), ("log", 4)], "c": [("log", 2)]}
    assert sorted(place for share in second.values() for place in share) == places
    assert all(not {*first[member]} & {*second[member]} for member in first)
    written = {one.member_id: assigned(one.assignment) for one in sync(Standing(group="g"), first).assignments}
    assert written == first
    assert assigned(b"") == []


def test_a_group_processes_what_is_sent_and_its_history_says_how(tmp_path: Path) -> None:
    plan = replace(HEALTHY["healthy-groups"], duration=8 * SECOND)
    run = simulate(plan, seed=2, out=tmp_path / "run").run_dir
    outcomes = Counter((op["kind"], op["outcome"]) for op in rows(run, "ops"))
    assert outcomes["commit-offsets", "ok"] > 20
    assert outcomes["assign", "ok"] > len(rows(run, "bounds"))  # partitions have changed hands
    positions = rows(run, "positions")
    assert {row["generation"] for row in positions if row["kind"] == "assign"} >= {1, 2}
    committed = {(row["topic"], row["partition"]): row["offset"] for row in positions if row["phase"] == "final"}
    ends = {(row["topic"], row["partition"]): row["log_end"] for row in rows(run, "bounds") if row["phase"] == "final"}
    assert committed.keys() == ends.keys()
    assert all(0 < (offset or 0) <= ends[place] for place, offset in committed.items())
    assert two_owners(run) == []


@pytest.mark.parametrize("name", ["generation-fenced", "static-member-fenced"])
def test_zombies_own_what_others_have_only_where_they_are_not_fenced(name: str, tmp_path: Path) -> None:
    assert two_owners(shown(name, tmp_path / "off", off=True, seconds=10))
    on = shown(name, tmp_path / "on", off=False, seconds=10)
    assert two_owners(on) == []
    refused = {op["error"] for op in rows(on, "ops") if op["kind"] == "commit-offsets" and op["outcome"] == "fail"}
    assert refused & {"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"}
    if name == "static-member-fenced":
        static = [row for row in rows(on, "positions") if row["kind"] == "assign"]
        assert {instance(row["member"]) for row in static} <= {"w1.m0", "w1.m1", "w2.m0", "w2.m1"}


@pytest.mark.parametrize("name", ["transaction-verified", "producer-epoch-fenced", "coordinator-epoch-fenced"])
def test_a_late_message_shows_what_was_aborted_only_where_nobody_refuses_it(name: str, tmp_path: Path) -> None:
    assert aborted_reads(shown(name, tmp_path / "off", off=True, seconds=4))
    assert not aborted_reads(shown(name, tmp_path / "on", off=False, seconds=4))


SCRIPT = """
import sys
from pathlib import Path
from tests.harness.simulated.test_groups import repeated
print(repeated(sys.argv[1], Path(sys.argv[2])))
"""


def repeated(name: str, out: Path) -> str:
    """A digest of what a run left behind."""
    done = simulate(replace(HEALTHY[name], duration=4 * SECOND), seed=3, out=out / "run")
    left = [rows(done.run_dir, table) for table in ("ops", "records", "positions", "faults")]
    return f"{done.steps} {hashlib.sha256(repr(left).encode()).hexdigest()}"


def test_the_same_seed_is_the_same_history_whatever_the_order_of_sets(tmp_path: Path) -> None:
    name = "healthy-transactional-groups"
    command = [sys.executable, "-c", SCRIPT, name, str(tmp_path / "other")]
    environment = os.environ | {"PYTHONHASHSEED": "1"}
    other = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=200)
    assert other.stdout.strip() == repeated(name, tmp_path / "mine")
