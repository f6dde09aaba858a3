"""Scripted races of groups and transactions: a message that is late, and what has happened meanwhile.

Where a script has a client of its own, what that does is in the history as the workload's is; it runs beside the workload, on the machine
"nemesis", and each of its stories is told several times, each time by a transactional id that nobody else has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kio.schema.produce.v9.request import ProduceRequest
from kio.schema.write_txn_markers.v1.request import WriteTxnMarkersRequest

from harness.simulated.client import Client
from harness.simulated.cluster import COORDINATED_PARTITIONS
from harness.simulated.group_requests import Place
from harness.simulated.stage import Missed, Stage, again_and_again
from harness.simulated.transactor import TransactionSettings, User
from nodes.reference.coordinator.partitioning import GROUPS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.simulation.network import Held

_TIMES: Final = 4
_PATIENT: Final = TransactionSettings(patience=10 * SECOND)


async def late_produce(on: Stage) -> None:
    """A Produce is late: its transaction has been aborted meanwhile, and its producer begins the next one."""
    for number in range(_TIMES):
        producer, place = _user(on, f"late-{number}", 1), _place(on)
        await producer.take_over()
        producer.begin()
        await producer.send(place, 1)
        late = _hold_one_produce(on)
        sending = asyncio.get_running_loop().create_task(producer.send(place, 1))
        await on.until(lambda held=late: bool(held.caught))  # type: ignore[misc]
        producer.does_not_wait()
        await producer.end(commit=False)
        await on.soon(100 * MILLISECOND, 500 * MILLISECOND)  # the markers arrive
        late.release()
        await sending
        if not producer.doubts:
            producer.begin()
            await producer.send(place, 1)
            await producer.end(commit=True)
        await on.soon(SECOND, 2 * SECOND)


async def late_produce_of_a_zombie(on: Stage) -> None:
    """A Produce is late: its producer has been replaced meanwhile, and its successor has a transaction open in that partition."""
    for number in range(_TIMES):
        zombie, heir, place = _user(on, f"zombie-{number}", 1), _user(on, f"zombie-{number}", 2), _place(on)
        await zombie.take_over()
        zombie.begin()
        await zombie.send(place, 1)
        late = _hold_one_produce(on)
        sending = asyncio.get_running_loop().create_task(zombie.send(place, 1))
        await on.until(lambda held=late: bool(held.caught))  # type: ignore[misc]
        await heir.take_over()
        heir.begin()
        await heir.send(place, 1)
        late.release()
        await sending
        await heir.end(commit=True)
        await on.soon(SECOND, 2 * SECOND)


async def late_marker(on: Stage) -> None:
    """A coordinator dies, and its marker is late: its successor has ended that transaction, and the producer has begun another one."""
    for number in range(_TIMES):
        name = f"marked-{number}"
        producer = _user(on, name, 1)
        await producer.take_over()
        coordinator = _coordinator(on, name)
        place = _place(on, lambda leader, gone=coordinator: leader != gone)  # type: ignore[misc]
        producer.begin()
        await producer.send(place, 1)
        late = on.hold(coordinator, lambda message: isinstance(message, WriteTxnMarkersRequest))
        await producer.end(commit=True)
        await on.until(lambda held=late: bool(held.caught))  # type: ignore[misc]
        on.kill(coordinator)
        producer.begin()
        await producer.send(place, 1)
        late.release()
        await on.soon(100 * MILLISECOND, 500 * MILLISECOND)
        await producer.end(commit=False)
        on.start(coordinator)
        await on.until(on.cluster.healed)
        await on.soon(200 * MILLISECOND, SECOND)


@again_and_again
async def late_markers_of_offsets(on: Stage) -> None:
    """Again and again: markers to a group's offsets are late, while its members come and go."""
    late = on.cluster.world.network.hold(lambda source, target, message: _ends_offsets(message))
    await on.until(lambda: bool(late.caught))
    await on.soon(SECOND, 2 * SECOND)
    late.release()
    await on.soon(200 * MILLISECOND, SECOND)


def _user(on: Stage, name: str, number: int) -> User:
    who = f"n1.{name}.{number}"
    return User(Client(on.environment, who, on.cluster.bootstrap), on.rows, who, name, _PATIENT)


def _place(on: Stage, suits: Callable[[str], bool] = lambda leader: True) -> Place:
    """A partition whose leader suits; Missed if there is none."""
    (topic,) = on.cluster.shape.topics
    leaders = {number: on.leader_of(topic.name, number) for number in range(topic.partitions)}
    numbers = [number for number, leader in leaders.items() if leader is not None and suits(leader)]
    if not numbers:
        raise Missed
    return topic.name, on.random.choice(numbers)


def _coordinator(on: Stage, transactional_id: str) -> str:
    """The broker; Missed while there is none."""
    partition = partition_of(transactional_id, COORDINATED_PARTITIONS)
    leader = on.leader_of(TRANSACTIONS_TOPIC, partition)
    if leader is None:
        raise Missed
    return leader


def _hold_one_produce(on: Stage) -> Held:
    """The next that the script's clients send; no other."""
    network = on.cluster.world.network
    held: Held = network.hold(
        lambda source, target, message: source == "nemesis" and isinstance(message, ProduceRequest) and not held.caught
    )
    return held


def _ends_offsets(message: object) -> bool:
    return isinstance(message, WriteTxnMarkersRequest) and any(
        topic.name == GROUPS_TOPIC for marker in message.markers for topic in marker.topics
    )
