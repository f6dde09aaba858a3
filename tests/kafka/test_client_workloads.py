"""The workloads `groups` and `transactions` on real Kafka, old and new: their examples, shortened."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.harness.judged_runs import JudgedRuns

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

VERSIONS = {"3.9.2": "range", "4.3.1": "cooperative-sticky"}
PROTOCOLS = {"range": "eager", "cooperative-sticky": "cooperative"}
Row = dict[str, Any]


def ran(runs: JudgedRuns, example: str, version: str, out: Path, *settings: str) -> dict[str, Any]:
    """The answer of a run of an example, which has to end valid."""
    run = runs.run(example, *settings, system=f"kafka:{version}", seed=5, out=out)
    assert run["exit"] == 0, run
    return run


def rows(run: dict[str, Any], table: str) -> list[Row]:
    found: list[Row] = pq.read_table(Path(run["run_dir"]) / "history" / table).to_pylist()
    return found


def healed(run: dict[str, Any]) -> list[tuple[str, str]]:
    return [(fault["name"], fault["targets"][0]) for fault in rows(run, "faults") if fault["status"] == "healed"]


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_lose_and_skip_nothing_when_members_are_killed_and_paused(
    runs: JudgedRuns, version: str, tmp_path: Path
) -> None:
    script = "[{at: 3s, fault: kill, target: w1, for: 1s}, {at: 7s, fault: pause, target: w2, for: 5s}]"
    settings = ("time_limit=15s", f"nemesis.script={script}", f"workload.assignor={VERSIONS[version]}")
    run = ran(runs, "groups", version, tmp_path, *settings)
    assert run["counts"]["acknowledged"] > 2000
    assert healed(run) == [("kill", "w1"), ("pause", "w2")]
    positions = rows(run, "positions")
    assert {row["protocol"] for row in positions if row["kind"] == "assign"} == {PROTOCOLS[VERSIONS[version]]}
    clients = {op["client"] for op in rows(run, "ops")}
    assert {"w1.m0-1", "w1r1.m0-1", "w1.p0", "w1r1.p0"} <= clients, "before the kill and after it"
    assert_at_most_one_owner(positions)
    assert_commits_grow(positions)
    final = [row for row in positions if (row["kind"], row["phase"]) == ("fetch-offsets", "final")]
    assert {row["group"] for row in final} == {"krash-0", "krash-1"}
    assert sum(row["offset"] or 0 for row in final) > 100


def assert_at_most_one_owner(positions: list[Row]) -> None:
    owners = defaultdict(set)
    for row in positions:
        if row["kind"] == "assign":
            owners[row["group"], row["generation"], row["topic"], row["partition"]].add(row["client"])
    assert owners
    assert not any(len(clients) > 1 for clients in owners.values())


def assert_commits_grow(positions: list[Row]) -> None:
    """Of commits that followed one another."""
    commits = [row for row in positions if row["kind"] == "commit-offsets" and row["outcome"] == "ok"]
    assert len(commits) > 5, "few only on a machine that has much else to do"
    come: dict[tuple[str, int], tuple[int, int]] = {}  # offset, when it was known
    for row in sorted(commits, key=lambda row: row["completed_ns"]):
        offset, known_ns = come.get((row["group"], row["partition"]), (0, 0))
        assert row["invoked_ns"] < known_ns or row["offset"] >= offset
        come[row["group"], row["partition"]] = max((row["offset"], row["completed_ns"]), (offset, known_ns))


@pytest.mark.parametrize("version", VERSIONS)
def test_transactions_are_whole_and_zombies_are_fenced(runs: JudgedRuns, version: str, tmp_path: Path) -> None:
    script = "[{at: 3s, fault: kill, target: w1, for: 1s}, {at: 6s, fault: pause, target: b1, for: 2s}]"
    # The group waits for the killed member's session of 6 s: what is left of the time is for offsets in transactions.
    run = ran(runs, "transactions", version, tmp_path, "time_limit=24s", f"nemesis.script={script}", "rate=3000")
    assert run["counts"]["acknowledged"] > 1000
    assert healed(run) == [("kill", "w1"), ("pause", "b1")]
    ops = rows(run, "ops")
    ends = defaultdict(list)
    for op in ops:
        if op["kind"] in ("commit", "abort"):
            ends[op["kind"], op["outcome"]].append(op)
    assert len(ends["commit", "ok"]) > 20
    assert ends["abort", "ok"]
    fenced = ends["commit", "fail"]
    assert fenced
    assert {op["error"] for op in fenced} == {"_FENCED"}
    inits = [op for op in ops if op["kind"] == "init" and op["outcome"] == "ok"]
    for zombie in fenced:
        name = zombie["client"].partition(".")[0]
        heirs = [op for op in inits if op["client"].partition(".")[0] == name and op["client"] != zombie["client"]]
        assert any(op["completed_ns"] <= zombie["invoked_ns"] for op in heirs)
    assert {"t0-0.w1.1", "t0-0.w1r1.1"} <= {op["client"] for op in inits}, "before the kill and after it"
    within = [row for row in rows(run, "positions") if row["transaction"] is not None and row["outcome"] == "ok"]
    assert within
    judged = {check["name"]: check["judged"] for check in run["checks"]}
    assert judged["torn-transaction"] > 20
