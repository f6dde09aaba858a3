"""Client processes as the driver sees them: counters added up, deaths noticed, ends awaited. The node is a fake with a real line stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from harness.clients import ClientDied, ClientGroup
from nodes.node import Command, Gone, Node


class FakeNode:
    """A client node whose process says what the test tells it to and ends when told."""

    python = ("python",)

    def __init__(self) -> None:
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.ended: asyncio.Future[Gone] = asyncio.get_running_loop().create_future()
        self.files: dict[str, bytes] = {}
        self.killed = False
        self.code_on_stop = 0
        self.starts = True

    def absolute(self, path: str) -> str:
        return f"/home/{path}"

    async def write(self, path: str, content: bytes) -> None:
        self.files[path] = content

    async def start(self, command: Command) -> None:
        if self.killed:
            self.ended = asyncio.get_running_loop().create_future()
        self.command = command
        if self.starts:
            self.said.put_nowait('{"started": {"client": "w", "phase": "main", "at_ns": 1}}')

    async def lines(self, path: str) -> AsyncIterator[str]:
        while True:
            yield await self.said.get()

    async def exited(self) -> Gone:
        return await asyncio.shield(self.ended)

    async def stop(self, *, timeout: float) -> int:
        return self.code_on_stop

    async def kill(self) -> None:
        self.killed = True
        if not self.ended.done():
            self.ended.set_result(Gone(-9))


def group_of(nodes: dict[str, FakeNode], heard: list[dict[str, int]]) -> ClientGroup:
    configs: dict[str, dict[str, Any]] = {name: {"phase": "main", "client": name} for name in nodes}
    return ClientGroup(
        nodes=cast("dict[str, Node]", nodes), configs=configs, on_progress=lambda counters: heard.append(dict(counters))
    )


async def heard_until(heard: list[dict[str, int]], count: int) -> None:
    async with asyncio.timeout(10):
        while len(heard) < count:  # noqa: ASYNC110 - what is awaited is the loop's own progress
            await asyncio.sleep(0)


def test_counters_of_all_clients_are_added_up() -> None:
    async def scenario() -> None:
        nodes, heard = {"w1": FakeNode(), "w2": FakeNode()}, list[dict[str, int]]()
        group = group_of(nodes, heard)
        await group.start()
        assert json.loads(nodes["w1"].files["etc/client-main.json"]) == {"phase": "main", "client": "w1"}
        assert nodes["w1"].command.argv == ("python", "-m", "harness.client", "/home/etc/client-main.json")
        nodes["w1"].said.put_nowait('{"progress": {"acknowledged": 5, "read": 1}, "at_ns": 1}')
        nodes["w2"].said.put_nowait("some library's chatter")
        nodes["w2"].said.put_nowait('{"progress": {"acknowledged": 7}, "at_ns": 1}')
        await heard_until(heard, 2)
        assert heard[-1] == {"acknowledged": 12, "read": 1}
        nodes["w1"].said.put_nowait('{"progress": {"acknowledged": 6, "read": 2}, "at_ns": 2}')
        await heard_until(heard, 3)
        assert heard[-1] == {"acknowledged": 13, "read": 2}
        await group.stop()

    asyncio.run(scenario())


def test_a_client_that_dies_is_told_with_its_last_words() -> None:
    async def scenario() -> None:
        nodes = {"w1": FakeNode(), "w2": FakeNode()}
        group = group_of(nodes, [])
        await group.start()
        nodes["w2"].said.put_nowait('{"error": {"type": "KafkaException", "message": "no"}}')
        waiting = asyncio.create_task(group.first_exit())
        async with asyncio.timeout(10):
            while not nodes["w2"].said.empty():  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
        nodes["w2"].ended.set_result(Gone(3))
        with pytest.raises(ClientDied, match=r"client w2 ended with code 3: KafkaException: no"):
            await waiting
        await group.stop()

    asyncio.run(scenario())


def test_a_client_that_is_killed_on_purpose_is_followed_by_another() -> None:
    async def scenario() -> None:
        nodes, heard = {"w1": FakeNode(), "w2": FakeNode()}, list[dict[str, int]]()
        group = group_of(nodes, heard)
        group.again = lambda name: {"phase": "main", "client": name, "life": 1}
        await group.start()
        death = asyncio.create_task(group.first_exit())
        nodes["w1"].said.put_nowait('{"progress": {"acknowledged": 5}, "at_ns": 1}')
        await heard_until(heard, 1)
        await group.kill("w1")
        await group.start_again("w1")
        assert json.loads(nodes["w1"].files["etc/client-main.json"])["life"] == 1
        nodes["w1"].said.put_nowait('{"progress": {"acknowledged": 2}, "at_ns": 2}')
        await heard_until(heard, 2)
        assert heard[-1] == {"acknowledged": 7}
        assert not death.done()
        nodes["w1"].ended.set_result(Gone(3))  # of the new one nobody asked
        with pytest.raises(ClientDied, match="client w1 ended with code 3"):
            await death
        await group.stop()

    asyncio.run(scenario())


def test_a_client_that_nobody_killed_is_not_started_again() -> None:
    async def scenario() -> None:
        group = group_of({"w1": FakeNode()}, [])
        group.again = lambda name: {"phase": "main"}
        await group.start()
        with pytest.raises(ClientDied, match="was not killed"):
            await group.start_again("w1")
        await group.stop()

    asyncio.run(scenario())


def test_stop_tells_of_a_client_that_ended_badly() -> None:
    async def scenario() -> None:
        nodes = {"w1": FakeNode()}
        nodes["w1"].code_on_stop = 3
        group = group_of(nodes, [])
        await group.start()
        with pytest.raises(ClientDied, match="code 3"):
            await group.stop()

    asyncio.run(scenario())


def test_a_client_that_was_stopped_before_it_listened_is_no_error() -> None:
    async def scenario() -> None:
        nodes = {"w1": FakeNode()}
        nodes["w1"].code_on_stop = -15
        group = group_of(nodes, [])
        await group.start()
        await group.stop()

    asyncio.run(scenario())


def test_a_final_reader_that_does_not_end_is_killed() -> None:
    async def scenario() -> None:
        nodes = {"w1": FakeNode()}
        group = group_of(nodes, [])
        await group.start()
        with pytest.raises(ClientDied, match="did not end within"):
            await group.finish(deadline=0.05)
        assert nodes["w1"].killed

    asyncio.run(scenario())


def test_a_final_reader_that_is_done_before_another_has_begun_is_no_death() -> None:
    async def scenario() -> None:
        nodes = {"w1": FakeNode(), "w2": FakeNode()}
        nodes["w1"].starts = False
        nodes["w2"].ended.set_result(Gone(0))
        starting = asyncio.create_task(group_of(nodes, []).start())
        async with asyncio.timeout(10):
            while not nodes["w2"].said.empty() or "w1" not in str(nodes["w1"].files):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
        assert not starting.done()
        nodes["w1"].said.put_nowait('{"started": {"client": "w1", "phase": "final", "at_ns": 1}}')
        await asyncio.wait_for(starting, 10)

    asyncio.run(scenario())


def test_a_client_that_dies_before_its_workload_begins_is_told_by_start() -> None:
    async def scenario() -> None:
        nodes = {"w1": FakeNode(), "w2": FakeNode()}
        nodes["w2"].starts = False
        nodes["w2"].ended.set_result(Gone(3))
        with pytest.raises(ClientDied, match="client w2 ended with code 3"):
            await group_of(nodes, []).start()

    asyncio.run(scenario())
