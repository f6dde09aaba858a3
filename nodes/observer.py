"""Asks every member of a cluster for its view, four times a second, so that somebody who waits never waits for a dead node.

Each broker and each controller has a task of its own with one connection: a paused or cut node costs its own task a
timeout and nobody else anything. `fresh()` is a view of answers that were all asked for after the call; a node that did
not answer the last time is given only a moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from kio.schema.describe_quorum.v0 import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import MetadataResponse

from nodes.protocol import requests
from nodes.protocol.connection import Connection, Unreachable, Unsupported
from nodes.topology import BROKER_PORT, CONTROLLER_PORT, ServerRole, Topology
from nodes.view import BrokerAnswer, ClusterView, PartitionView, QuorumAnswer, merge

PERIOD_S: Final = 0.25
ANSWER_S: Final = 1.0
SILENT_S: Final = 0.15  # what `fresh` still gives a node that was silent the last time


class Seat:
    """One member, seen through one listener: its last answer, and when it was asked for."""

    def __init__(self, name: str, id: int, role: ServerRole, address: str) -> None:
        self.name, self.id, self.role, self.address = name, id, role, address
        self.port = BROKER_PORT if role is ServerRole.BROKER else CONTROLLER_PORT
        self.answer: BrokerAnswer | QuorumAnswer | None = None  # None: silent, or a controller that is not active
        self.reached = False
        self.asked_ns = 0  # when the last finished look began
        self.wake = asyncio.Event()
        self.connection: Connection | None = None

    async def look(self) -> None:
        """Ask once; never raises. A broken connection is replaced within the same time, since a restart breaks it once."""
        asked_ns = time.monotonic_ns()
        try:
            async with asyncio.timeout(ANSWER_S):
                try:
                    self.answer = await self._ask(asked_ns)
                except Unreachable:
                    self.answer = await self._ask(asked_ns)
            self.reached = True
        except (Unreachable, Unsupported, TimeoutError):
            self.close()
            self.answer, self.reached = None, False
        self.asked_ns = asked_ns

    async def _ask(self, asked_ns: int) -> BrokerAnswer | QuorumAnswer | None:
        if self.connection is None or self.connection.closed:
            self.connection = await Connection.open(self.address, self.port, timeout=ANSWER_S)
        if self.role is ServerRole.BROKER:
            return broker_answer(self.id, asked_ns, await requests.metadata(self.connection, timeout=ANSWER_S))
        return quorum_answer(await requests.quorum(self.connection, timeout=ANSWER_S))

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class Observer:
    def __init__(self, topology: Topology, addresses: Mapping[str, str], on_look: Callable[[Seat], None]) -> None:
        self.seats = [
            Seat(plan.name, plan.id, role, addresses[plan.name])
            for plan in topology.nodes
            for role in sorted(plan.roles)
        ]
        self.names = {plan.id: plan.name for plan in topology.nodes}
        self._on_look = on_look  # after every look, with the seat that was asked
        self._offsets: dict[int, int] = {}
        self._looked = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._watch(seat), name=f"observe {seat.name}") for seat in self.seats]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for seat in self.seats:
            seat.close()

    async def _watch(self, seat: Seat) -> None:
        while True:
            seat.wake.clear()
            await seat.look()
            if isinstance(seat.answer, QuorumAnswer):
                self._offsets.update(seat.answer.offsets)
            self._on_look(seat)
            async with self._looked:
                self._looked.notify_all()
            try:
                async with asyncio.timeout(PERIOD_S):
                    await seat.wake.wait()
            except TimeoutError:
                pass

    def latest(self, *, since_ns: int = 0) -> ClusterView:
        """What is known now, from answers asked for at `since_ns` or later."""
        asked = [seat for seat in self.seats if seat.asked_ns >= since_ns]
        brokers = {seat.name: seat.answer for seat in asked if isinstance(seat.answer, BrokerAnswer)}
        quorums = [seat.answer for seat in asked if isinstance(seat.answer, QuorumAnswer)]
        return merge(time.monotonic_ns(), brokers, quorums, names=self.names, offsets=self._offsets)

    def own_views(self) -> dict[str, Mapping[tuple[str, int], PartitionView]]:
        """What each broker that answers says for itself."""
        return {seat.name: seat.answer.partitions for seat in self.seats if isinstance(seat.answer, BrokerAnswer)}

    async def fresh(self) -> ClusterView:
        """A view of answers that were asked for after this call, within about a second."""
        for task in self._tasks:
            if task.done():
                task.result()  # raises what ended it: a watch that died must not look like silence
        since_ns = time.monotonic_ns()
        for seat in self.seats:
            seat.wake.set()
        lively = [seat for seat in self.seats if seat.reached]
        await self._until(lambda: all(seat.asked_ns >= since_ns for seat in lively), 2 * ANSWER_S)
        await self._until(lambda: all(seat.asked_ns >= since_ns for seat in self.seats), SILENT_S)
        return self.latest(since_ns=since_ns)

    async def looked(self, timeout: float) -> None:
        """Wait until any member was asked again."""
        try:
            async with asyncio.timeout(timeout), self._looked:
                await self._looked.wait()
        except TimeoutError:
            pass

    async def _until(self, met: Callable[[], bool], timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout), self._looked:
                await self._looked.wait_for(met)
        except TimeoutError:
            pass


def broker_answer(id: int, asked_ns: int, answer: MetadataResponse) -> BrokerAnswer:
    partitions = {
        (str(topic.name), int(one.partition_index)): PartitionView(
            topic=str(topic.name),
            partition=int(one.partition_index),
            leader=int(one.leader_id),
            leader_epoch=int(one.leader_epoch),
            replicas=tuple(int(replica) for replica in one.replica_nodes),
            isr=tuple(sorted(int(replica) for replica in one.isr_nodes)),
        )
        for topic in answer.topics
        for one in topic.partitions
    }
    return BrokerAnswer(
        id=id,
        asked_ns=asked_ns,
        brokers=frozenset(int(broker.node_id) for broker in answer.brokers),
        topics={str(topic.name): topic.topic_id for topic in answer.topics},
        partitions=partitions,
    )


def quorum_answer(answer: DescribeQuorumResponse) -> QuorumAnswer | None:
    """None from a controller that is not the active one (it answers with an error)."""
    if answer.error_code is not ErrorCode.none:
        return None
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code is ErrorCode.none:
                replicas = (*partition.current_voters, *partition.observers)
                return QuorumAnswer(
                    leader=int(partition.leader_id),
                    epoch=int(partition.leader_epoch),
                    offsets={int(replica.replica_id): int(replica.log_end_offset) for replica in replicas},
                )
    return None
