"""Topics and features of a cluster, through whichever broker answers.

An answer lost on the way is asked for again, so a topic that "already exists" after a first try was created by that try.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from kio.schema.errors import ErrorCode

from nodes.protocol import requests
from nodes.protocol.connection import Connection, Unreachable
from nodes.topology import BROKER_PORT, Topic

if TYPE_CHECKING:
    from nodes.cluster import Cluster

T = TypeVar("T")
ATTEMPT_S: Final = 10.0
_PASSING: Final = frozenset(
    {
        ErrorCode.request_timed_out,
        ErrorCode.not_controller,
        ErrorCode.invalid_replication_factor,  # brokers that the controller does not count as unfenced yet
        ErrorCode.broker_not_available,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,  # no producer ids yet
    }
)


async def create_topic(cluster: Cluster, topic: Topic, *, deadline: float, whole: bool = True) -> None:
    until = time.monotonic() + deadline
    tries = 0

    async def create(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        try:
            await requests.create_topic(connection, topic, timeout=ATTEMPT_S)
        except requests.Declined as declined:
            if declined.code is not ErrorCode.topic_already_exists or tries == 1:
                raise

    await somewhere(cluster, create, until)
    wanted = {(topic.name, partition) for partition in range(len(topic.assignment or ()) or topic.partitions)}

    def seen() -> bool:
        views = cluster.observer.own_views()
        least = len(cluster.topology.brokers) if whole else 1
        return len(views) >= least and all(
            key in view and (view[key].whole if whole else view[key].leader >= 0)
            for view in views.values()
            for key in wanted
        )

    left = max(1.0, until - time.monotonic())
    state = "led and in sync in every broker's view" if whole else "led, in the view of every broker that answers"
    await cluster.wait(lambda _: seen(), deadline=left, what=f"topic {topic.name} with all its partitions {state}")


async def delete_topic(cluster: Cluster, name: str, *, deadline: float) -> None:
    until = time.monotonic() + deadline
    tries = 0

    async def delete(connection: Connection) -> None:
        nonlocal tries
        tries += 1
        try:
            await requests.delete_topic(connection, name, timeout=ATTEMPT_S)
        except requests.Declined as declined:
            if declined.code is not ErrorCode.unknown_topic_or_partition or tries == 1:
                raise

    await somewhere(cluster, delete, until)
    left = max(1.0, until - time.monotonic())
    await cluster.wait(
        lambda _: not any(key[0] == name for view in cluster.observer.own_views().values() for key in view),
        deadline=left,
        what=f"topic {name} gone from every broker's view",
    )


async def update_feature(cluster: Cluster, feature: str, level: int, *, deadline: float) -> None:
    until = time.monotonic() + deadline

    async def update(connection: Connection) -> None:
        if connection.features.get(feature, 0) < level:
            await requests.update_feature(connection, feature, level, timeout=ATTEMPT_S)

    await somewhere(cluster, update, until)
    for plan in cluster.topology.brokers:

        async def known(connection: Connection) -> None:
            if (seen := connection.features.get(feature, 0)) < level:
                raise Unreachable(f"{connection.peer} still sees {feature} at {seen}, not {level}")

        await somewhere(cluster, known, until, only=plan.name)


async def warm_up(cluster: Cluster, *, deadline: float) -> None:
    """Have every broker fetch its first block of producer ids, which the first idempotent producer would otherwise wait for."""
    until = time.monotonic() + deadline

    async def hand_out(connection: Connection) -> None:
        await requests.producer_id(connection, timeout=ATTEMPT_S)

    await asyncio.gather(*(somewhere(cluster, hand_out, until, only=plan.name) for plan in cluster.topology.brokers))


async def somewhere(
    cluster: Cluster, ask: Callable[[Connection], Awaitable[T]], until: float, *, only: str | None = None
) -> T:
    """Ask one broker after the other until one answers without a passing error; the last failure when time is up."""
    names = [only] if only else [plan.name for plan in cluster.topology.brokers]
    while True:
        for name in names:
            try:
                async with await Connection.open(cluster.nodes[name].address, BROKER_PORT, timeout=2) as connection:
                    return await ask(connection)
            except Unreachable:
                if time.monotonic() > until:
                    raise
            except requests.Declined as declined:
                if declined.code not in _PASSING or time.monotonic() > until:
                    raise
        await cluster.observer.looked(0.25)
