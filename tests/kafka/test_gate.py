"""The wire gate in front of real Kafka: nothing changes until a rule says so, and then exactly that."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nemesis.wire.message import Direction
from nemesis.wire.rule import Hold, Match, Rewrite, Rule, Watch
from nodes.topology import Topic, separate
from tests.harness.judged_runs import JudgedRuns
from tests.harness.krash import krash, start_krash
from tests.kafka.conftest import Lab

pytestmark = pytest.mark.timeout(600)
SOON = 60.0
LOG = Topic(name="log", partitions=1, replication=2, assignment={0: (1, 2)}, config={"min.insync.replicas": "1"})


async def test_an_alter_partition_is_held_and_released(lab: Lab) -> None:
    cluster = await lab.deploy(
        separate(system="kafka", version="3.4.1", controllers=1, brokers=2, topics=(LOG,)), wire=True
    )
    assert cluster.gate is not None
    await cluster.kill("b2")
    await cluster.wait(lambda view: view.partitions["log", 0].isr == (1,), deadline=SOON, what="ISR of b1 alone")
    match = Match(source="b1", destination="c1", api="AlterPartition", where="newIsr contains 2")
    stale = await cluster.gate.arm(Rule(id="stale", match=match, act=Hold()))
    heartbeats = await cluster.gate.arm(Rule(id="heartbeats", match=Match(source="b1", api=63), act=Watch()))
    await cluster.start("b2")
    async with asyncio.timeout(SOON):
        (held, *_) = await stale.seen()
        before = heartbeats.counts.matched
        await heartbeats.seen(before + 2)  # on a connection of their own
    assert (held.source, held.destination, held.out_ns, held.action) == ("b1", "c1", None, "held")
    assert json.loads(held.fields or "")["newIsr"] == [1, 2]
    assert stale.counts.held == 1
    assert (await cluster.view()).partitions["log", 0].isr == (1,)
    await stale.release()
    async with asyncio.timeout(SOON):
        answer = await stale.answered()
    assert (answer.error, answer.answers, answer.source) == ("NONE", held.message, "c1")
    await cluster.recovered(SOON)
    assert (stale.counts.held, stale.counts.released) == (0, 1)
    await stale.disarm()
    rows = {row["message"]: row for row in await lab.messages()}
    assert list(rows) == sorted(rows)
    written = rows[held.message]
    assert (written["action"], written["rule"], written["api_name"]) == ("held", "stale", "AlterPartition")
    assert written["out_ns"] > written["in_ns"]
    assert rows[answer.message]["answers"] == held.message
    assert rows[answer.message]["in_ns"] > written["out_ns"]
    assert {row["api_name"] for row in rows.values()} >= {
        "ApiVersions",
        "Fetch",
        "BrokerHeartbeat",
        "BrokerRegistration",
    }


async def test_a_response_is_rewritten(lab: Lab) -> None:
    """A broker that is told NOT_CONTROLLER asks again; the first heartbeat's answer says so although it is not true."""
    cluster = await lab.deploy(separate(system="kafka", version="4.3.1", controllers=1, brokers=1), wire=True)
    assert cluster.gate is not None
    match = Match(source="b1", direction=Direction.RESPONSE, api="BrokerHeartbeat", nth=1)
    lie = await cluster.gate.arm(Rule(id="lie", match=match, act=Rewrite(error="NOT_CONTROLLER")))
    async with asyncio.timeout(SOON):
        await lie.seen()
    assert lie.counts.rewritten == 1
    await cluster.recovered(SOON)


def test_a_healthy_run_through_the_gate_is_valid_and_has_every_frame(runs: JudgedRuns, tmp_path: Path) -> None:
    ran = runs.run("healthy", "wire=on", out=tmp_path, time_limit="6s")
    assert (ran["exit"], ran["verdict"], ran["counts"]["lost"]) == (0, "valid", 0)
    rows = pq.read_table(Path(ran["run_dir"]) / "history" / "messages").to_pylist()
    links = {(row["source"], row["destination"]) for row in rows}
    assert links >= {(one, other) for one in ("b1", "b2", "b3") for other in ("b1", "b2", "b3") if one != other}
    assert not any(name.startswith("w") for link in links for name in link)
    assert {row["action"] for row in rows} == {"passed"}
    assert not any(row["api_name"] == "opaque" for row in rows)
    told = krash("wire", ran["run_dir"], "--api", "BrokerRegistration")
    assert told.code == 0
    assert "b1 -> c1  BrokerRegistration" in told.stdout


def test_a_gate_that_dies_is_a_harness_error_and_ends_the_workload(tmp_path: Path) -> None:
    quiet = ("--nemesis", "none", "--time-limit", "10m", "--set", "wire=on")
    process = start_krash("run", "--system", "kafka", *quiet, "--out", tmp_path)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.lstrip().startswith("deploy"):
                break
        (run,) = tmp_path.iterdir()
        os.kill(gate_of(run.name), signal.SIGKILL)
        output = process.communicate(timeout=300)[0]
    finally:
        process.kill()
    assert process.returncode == 3, output
    assert "the wire gate ended with code -9" in output
    assert json.loads((run / "verdict.json").read_text())["status"] == "harness-error"


def gate_of(run: str) -> int:
    """Pid of a run's gate, as this process sees it."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
            if b"harness.gate" in words and any(run.encode() in word for word in words):
                return int(entry.name)
    raise AssertionError(f"no gate of {run}")
