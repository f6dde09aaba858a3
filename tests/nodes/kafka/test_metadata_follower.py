"""The metadata log as rows that stand for themselves, read while it grows, is cut, wiped and goes on in other files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from nodes.backends.homes import Home
from nodes.kafka import metadata_follower
from nodes.kafka.metadata_follower import LOG, follow
from nodes.kafka.metadata_log import BadLog
from nodes.kafka.metadata_rows import collected
from nodes.metadata import MetadataView, describe
from nodes.metadata_row import MetadataRow
from nodes.metadata_watch import MetadataWatch
from tests.nodes.kafka.metadata_bytes import (
    batch,
    change,
    fence,
    leader_change,
    old_fence,
    partition,
    register,
    remove,
    topic,
)

SOON = 20.0
FIRST = "00000000000000000000.log"
BEGINNING = leader_change(0, 101, epoch=1) + batch(1, topic(), partition([1, 2], [1, 2], leader=1))
SHRUNK = batch(3, change(isr=[2], leader=2), epoch=1)


def rows_of(tmp_path: Path, content: bytes) -> list[MetadataRow]:
    (tmp_path / FIRST).write_bytes(content)
    return list(collected(tmp_path, run="r", clock="host", node="c1"))


def view_of(rows: Sequence[MetadataRow]) -> MetadataView:
    view = MetadataView()
    for row in rows:
        view.apply(row)
    return view


def test_a_change_is_told_whole_and_its_epochs_are_counted_as_kafka_counts_them(tmp_path: Path) -> None:
    again = batch(4, change(isr=[1, 2]), change(leader=-1), change(leader=1))
    rows = rows_of(tmp_path, BEGINNING + SHRUNK + again)
    assert [(row.offset, row.kind) for row in rows[:3]] == [(0, "leader-change"), (1, "topic"), (2, "partition")]
    assert (rows[0].leader, rows[0].epoch, rows[0].at_ns) == (101, 1, None)
    told = [(row.topic, row.leader, row.leader_epoch, row.partition_epoch, row.isr) for row in rows[2:]]
    assert told == [
        ("t", 1, 0, 0, (1, 2)),
        ("t", 2, 1, 1, (2,)),
        ("t", 2, 1, 2, (1, 2)),
        ("t", -1, 2, 3, (1, 2)),
        ("t", 1, 3, 4, (1, 2)),
    ]
    assert all(row.replicas == (1, 2) for row in rows[2:])
    assert json.loads(rows[3].fields)["isr"] == [2]


@pytest.mark.parametrize("fence", [fence, old_fence])
def test_registrations_have_their_epoch_and_their_fencing(tmp_path: Path, fence: Callable[..., bytes]) -> None:
    log = batch(0, register(2, 7), fence(2, 7, fenced=False), fence(2, 7, fenced=True), register(2, 19))
    rows = rows_of(tmp_path, log)
    assert [(row.broker, row.broker_epoch, row.fenced) for row in rows] == [
        (2, 7, True),
        (2, 7, False),
        (2, 7, True),
        (2, 19, True),
    ]
    first, last = view_of(rows[:2]).brokers[2], view_of(rows).brokers[2]
    assert (first.fenced, last.fenced, last.epoch, last.registered) == (False, True, 19, 3)
    assert first.incarnation != last.incarnation


def test_the_latest_state_keeps_what_a_change_leaves_unsaid_and_forgets_removed_topics(tmp_path: Path) -> None:
    log = BEGINNING + batch(3, change(isr=[2], elr=[1])) + SHRUNK.replace(SHRUNK[:8], (4).to_bytes(8, "big"))
    view = view_of(rows_of(tmp_path, log))
    state = view.partitions["t", 0]
    assert (state.isr, state.elr, state.leader, state.leader_epoch, state.offset) == ((2,), (1,), 2, 1, 4)
    assert "t-0 led by 2, isr 2 of 1 2, epochs 1/2, elr 1" in describe(view)
    assert view_of(rows_of(tmp_path, log + batch(5, remove()))).partitions == {}


def test_a_log_that_begins_later_begins_with_its_snapshot(tmp_path: Path) -> None:
    snapshot = batch(0, topic(), partition([1, 2], [2], leader=2, leader_epoch=5, epoch=9))
    (tmp_path / "00000000000000000040-0000000003.checkpoint").write_bytes(snapshot)
    (tmp_path / "00000000000000000060-0000000003.checkpoint").write_bytes(snapshot)
    log = batch(38, change(isr=[9]), change(isr=[9])) + batch(40, change(isr=[1, 2]))
    (tmp_path / "00000000000000000030.log").write_bytes(log)
    rows = list(collected(tmp_path, run="r", clock="host", node="c1"))
    assert [(row.offset, row.index, row.kind) for row in rows] == [
        (39, 0, "topic"),
        (39, 1, "partition"),
        (40, 0, "partition-change"),
    ]
    assert (rows[2].topic, rows[2].leader, rows[2].leader_epoch, rows[2].partition_epoch) == ("t", 2, 5, 10)


class Growing:
    """A node's home with a log, followed; `more()` waits for the next rows."""

    def __init__(self, home: Path) -> None:
        self.node = Home("c1", home)
        self.log = self.node.directory / LOG
        self.log.mkdir(parents=True)
        self._rows = cast(Any, follow(cast(Any, self.node), run="r", clock="host"))

    async def more(self) -> list[MetadataRow]:
        async with asyncio.timeout(SOON):
            return list(await anext(self._rows))

    def write(self, content: bytes, name: str = FIRST) -> None:
        with (self.log / name).open("ab") as file:
            file.write(content)

    async def aclose(self) -> None:
        await self._rows.aclose()


def offsets(rows: Sequence[MetadataRow]) -> list[int]:
    return [row.offset for row in rows]


def test_a_growing_log_is_told_as_it_grows_and_a_torn_batch_once_it_is_whole(tmp_path: Path) -> None:
    async def body() -> None:
        async with aclosing(Growing(tmp_path)) as growing:
            growing.write(BEGINNING + SHRUNK[:30])
            assert await growing.more() == []
            assert offsets(await growing.more()) == [0, 1, 2]
            waiting = asyncio.create_task(growing.more())
            await asyncio.sleep(5 * metadata_follower.LOOK_S)
            assert not waiting.done()
            growing.write(SHRUNK[30:])
            (row,) = await waiting
            assert (row.offset, row.topic, row.isr) == (3, "t", (2,))
            assert row.at_ns is not None
            growing.write(batch(4, change(isr=[1, 2])), "00000000000000000004.log")
            assert offsets(await growing.more()) == [4]

    asyncio.run(body())


@pytest.mark.parametrize("how", ["cut", "cut and grown again", "another file"])
def test_a_log_that_was_cut_or_replaced_is_told_from_its_beginning(tmp_path: Path, how: str) -> None:
    other = batch(3, change(isr=[1]), epoch=2)

    async def body() -> None:
        growing = Growing(tmp_path)
        growing.write(BEGINNING + SHRUNK + batch(4, change(isr=[1, 2]), change(isr=[2])))
        assert await growing.more() == []
        assert offsets(await growing.more()) == [0, 1, 2, 3, 4, 5]
        path = growing.log / FIRST
        if how == "another file":
            path.unlink()
        if how == "cut":
            path.write_bytes(BEGINNING)
        else:
            path.write_bytes(BEGINNING + other)
        if how == "cut and grown again":
            growing.write(batch(4, *[change(isr=[1])] * 9, epoch=2))
        assert await growing.more() == []
        rows = await growing.more()
        assert offsets(rows)[:3] == [0, 1, 2]
        if how != "cut":
            assert (rows[3].offset, rows[3].epoch, rows[3].isr) == (3, 2, (1,))
        await growing.aclose()

    asyncio.run(body())


def test_bytes_that_stay_undecodable_end_the_following(tmp_path: Path) -> None:
    async def body() -> None:
        growing = Growing(tmp_path)
        broken = bytearray(SHRUNK)
        broken[-1] ^= 1
        growing.write(BEGINNING + bytes(broken))
        told = []
        with pytest.raises(BadLog, match="Checksum mismatch"):  # noqa: PT012 - what was good is told at each attempt
            while True:
                told.append(offsets(await growing.more()))
        assert told == [[], [0, 1, 2]] * metadata_follower.PATIENCE

    asyncio.run(body())


def test_a_log_is_waited_for_and_a_wiped_one_as_well(tmp_path: Path) -> None:
    async def body() -> None:
        growing = Growing(tmp_path)
        waiting = asyncio.create_task(growing.more())
        await asyncio.sleep(0.15)
        assert not waiting.done()
        growing.write(BEGINNING)
        assert await waiting == []
        assert offsets(await growing.more()) == [0, 1, 2]
        again = asyncio.create_task(growing.more())
        await growing.node.wipe(LOG)
        await asyncio.sleep(0.15)
        assert not again.done()
        growing.write(BEGINNING)
        assert await again == []
        assert offsets(await growing.more()) == [0, 1, 2]
        await growing.aclose()

    asyncio.run(body())


# several controllers at once


class Told:
    """A follower that tells what a test gives it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[list[MetadataRow] | Exception] = asyncio.Queue()

    async def follow(self) -> AsyncIterator[Sequence[MetadataRow]]:
        while True:
            told = await self.queue.get()
            if isinstance(told, Exception):
                raise told
            yield told


def test_rows_are_told_once_per_node_and_the_highest_epoch_counts(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, BEGINNING + SHRUNK)
    newer = rows_of(tmp_path, BEGINNING + batch(3, change(isr=[1]), epoch=2))

    async def body() -> None:
        heard: list[MetadataRow] = []
        old, new = Told(), Told()
        watch = MetadataWatch({"c1": old.follow, "c2": new.follow}, heard.append)
        assert watch.latest == MetadataView()
        watch.start()
        for told in ([], rows[:3]):
            old.queue.put_nowait(told)
        async with asyncio.timeout(SOON):
            early = await watch.wait(lambda view: view.offset == 2)
            for told in (rows[3:], [], rows):
                old.queue.put_nowait(told)
            await watch.wait(lambda view: view.offset == 3)
            assert watch.latest.partitions["t", 0].isr == (2,)
            for told in ([], newer[:3], newer[3:], []):
                new.queue.put_nowait(told)
            view = await watch.wait(lambda view: view.epoch == 2)
            assert view.partitions["t", 0].isr == (1,)
            assert early.partitions["t", 0].isr == (1, 2)  # what was handed out stays as it was
            assert watch.of("c1").partitions["t", 0].isr == (2,)
        assert offsets(heard) == [0, 1, 2, 3, 3]  # both say c1 here, so the two of offset 3 differ in their epochs
        old.queue.put_nowait(BadLog("broken"))
        with pytest.raises(BadLog):
            async with asyncio.timeout(SOON):
                await watch.wait(lambda view: False)
        assert watch.problems == ["follow the metadata log of c1: broken"]
        await watch.close()

    asyncio.run(body())
