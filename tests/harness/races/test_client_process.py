"""The client process of a race on librdkafka's mock cluster: commands in, answers out, every op in the journal."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.history.reading import open_run
from harness.history.store import finish
from nemesis.races.actors import Actors
from nemesis.races.books import NotReached, StepBook
from nemesis.races.client import Client, ClientDied, CommandFailed
from nemesis.races.step import Step
from tests.harness.history.conftest import RUN, Run
from tests.workloads.mock_cluster import PRODUCE, MockCluster

NOT_ENOUGH_REPLICAS, INVALID_TXN_STATE = 19, 48
END_TXN = 26


@pytest.fixture
def mock() -> Iterator[MockCluster]:
    cluster = MockCluster()
    cluster.create("t", 2)
    try:
        yield cluster
    finally:
        cluster.close()


class Scene:
    """A run directory, a client process, and the steps that its actors wrote."""

    def __init__(self, path: Path, mock: MockCluster) -> None:
        self.run = Run(path / "run")
        self.steps: dict[int, Step] = {}
        self.client = Client(
            "w1",
            (sys.executable, "-m", "harness.race_client"),
            {
                "run": RUN,
                "clock": "host",
                "writer": 0,
                "client": "w1",
                "bootstrap": mock.bootstrap,
                "journal": str(self.run.journal),
            },
            path / "client.log",
        )
        clock = asyncio.get_running_loop()
        book = StepBook(
            run=RUN,
            clock="host",
            record=lambda row: self.steps.update({row.step: row}),
            now_ns=lambda: int(clock.time() * 1e9),
        )
        self.actors = Actors(book, {"w1": self.client}, None)

    def table(self, name: str) -> list[dict[str, Any]]:
        return list(open_run(self.run.path).table(name).to_pylist())


def play(path: Path, mock: MockCluster, script: Callable[[Scene], Awaitable[None]]) -> Scene:
    async def whole() -> Scene:
        scene = Scene(path, mock)
        await scene.client.start()
        await scene.actors.warm_up()
        await script(scene)
        await scene.client.close()
        return scene

    scene = asyncio.run(whole())
    finish(scene.run.path)
    return scene


def test_what_is_sent_and_read_is_recorded(tmp_path: Path, mock: MockCluster) -> None:
    async def script(scene: Scene) -> None:
        usual = await scene.actors.usual()
        sent = await usual.send("t", 1, 20)
        assert (sent.acknowledged, sorted(sent.offsets)) == (20, list(range(20)))
        assert (await usual.send("t", 1, 5, need="nothing")).sent == 5
        assert (await usual.flush()).acknowledged == 5
        read = await scene.actors.read("t", 1)
        assert read.offsets == tuple(range(25))
        assert len(set(read.values)) == 25

    scene = play(tmp_path, mock, script)
    sends = [row for row in scene.table("records") if row["kind"] == "send"]
    assert [row["outcome"] for row in sends] == ["ok"] * 25
    assert {row["client"] for row in sends} == {"w1.p"}
    assert sorted(row["sequence"] for row in sends) == list(range(25))
    polled = [row for row in scene.table("records") if row["kind"] == "poll"]
    assert [row["offset"] for row in polled] == list(range(25))
    assert {row["value"] for row in polled} == {row["value"] for row in sends}
    assert [step.verb for step in scene.steps.values()] == ["produce", "produce", "flush", "read"]
    assert scene.steps[0].seen == "20 of 20 acknowledged, offsets 0..19"


def test_where_a_log_is_told_to_end_is_recorded(tmp_path: Path, mock: MockCluster) -> None:
    async def script(scene: Scene) -> None:
        await (await scene.actors.usual()).send("t", 1, 20)
        assert await scene.actors.ask_end("t", 1) == 20
        assert await scene.actors.ask_end("t", 7, within=2) is None

    scene = play(tmp_path, mock, script)
    known, unknown = scene.table("bounds")
    assert (known["phase"], known["partition"], known["log_start"], known["log_end"]) == ("main", 1, 0, 20)
    assert (known["error"], known["read_to"]) == (None, None)
    assert (unknown["partition"], unknown["log_end"], unknown["error"]) == (7, None, "_UNKNOWN_PARTITION")
    asked = [row for row in scene.table("ops") if row["kind"] == "bounds"]
    assert [row["outcome"] for row in asked] == ["ok", "fail"]
    assert [step.seen for step in scene.steps.values()][1:] == ["at offset 20", "not told: _UNKNOWN_PARTITION"]


def test_records_that_are_not_acknowledged_end_the_race_unless_anything_goes(tmp_path: Path, mock: MockCluster) -> None:
    async def script(scene: Scene) -> None:
        quick = await scene.actors.producer(
            "quick", settings={"idempotence": False, "retries": 0, "retry_backoff_ms": 2000}
        )
        mock.answer(PRODUCE, *[NOT_ENOUGH_REPLICAS] * 50)
        refused = await quick.send("t", 0, 3, need="any")
        assert (refused.acknowledged, refused.errors) == (0, {"NOT_ENOUGH_REPLICAS": 3})
        with pytest.raises(NotReached, match=r"acknowledged within 5 s; instead: 0 of 2 acknowledged; 2 NOT_ENOUGH"):
            await quick.send("t", 0, 2, within=5)

    scene = play(tmp_path, mock, script)
    assert Counter(row["outcome"] for row in scene.table("ops")) == {"fail": 5}
    assert [step.status for step in scene.steps.values()] == ["done", "done", "not-reached"]


def test_a_transaction_is_begun_filled_and_ended_in_the_history(tmp_path: Path, mock: MockCluster) -> None:
    async def script(scene: Scene) -> None:
        writer = await scene.actors.producer("tx", transactional_id="tx-1")
        for commit in (True, False):
            await writer.begin()
            await writer.send("t", 0, 2)
            assert await (writer.commit() if commit else writer.abort()) is None

    scene = play(tmp_path, mock, script)
    rows = sorted(scene.table("ops"), key=lambda row: row["op"])
    assert [row["kind"] for row in rows] == ["begin", "send", "send", "commit", "begin", "send", "send", "abort"]
    first, second = rows[:4], rows[4:]
    assert {row["transaction"] for row in first} == {first[0]["op"]}
    assert {row["transaction"] for row in second} == {second[0]["op"]}
    assert {row["outcome"] for row in rows} == {"ok"}


def test_an_end_that_failed_is_told_and_unknown(tmp_path: Path, mock: MockCluster) -> None:
    async def script(scene: Scene) -> None:
        writer = await scene.actors.producer("tx", transactional_id="tx-1")
        await writer.begin()
        await writer.send("t", 0, 2)
        mock.answer(END_TXN, INVALID_TXN_STATE)
        assert await writer.commit() == "INVALID_TXN_STATE"

    scene = play(tmp_path, mock, script)
    (commit,) = [row for row in scene.table("ops") if row["kind"] == "commit"]
    assert (commit["outcome"], commit["error"]) == ("info", "INVALID_TXN_STATE")
    assert list(scene.steps.values())[-1].seen == "the client was told: INVALID_TXN_STATE"


def test_a_command_that_fails_is_told_by_its_name(tmp_path: Path, mock: MockCluster) -> None:
    async def script(scene: Scene) -> None:
        with pytest.raises(CommandFailed, match="no command 'dance'; there are producer, send"):
            await scene.client.tell("dance")
        with pytest.raises(CommandFailed, match="no producer 'q'; there are p"):
            await scene.client.tell("flush", producer="q", within=1)
        with pytest.raises(CommandFailed) as raised:
            await scene.client.tell("begin", producer="p")
        assert raised.value.error == "_STATE" or raised.value.error == "_NOT_CONFIGURED"

    play(tmp_path, mock, script)


def test_a_client_that_dies_is_told_to_whoever_waits(tmp_path: Path, mock: MockCluster) -> None:
    async def whole() -> None:
        scene = Scene(tmp_path, mock)
        await scene.client.start()
        await scene.actors.warm_up()
        assert scene.client._process is not None
        waiting = asyncio.create_task(scene.client.tell("read", topic="nothing", partition=9, isolation="", within=60))
        await asyncio.sleep(0)
        scene.client._process.kill()
        with pytest.raises(ClientDied, match="client w1 ended with code -9"):
            await waiting
        with pytest.raises(ClientDied):
            await scene.client.tell("flush", producer="p", within=1)
        with pytest.raises(ClientDied):
            await scene.client.close()

    asyncio.run(whole())
