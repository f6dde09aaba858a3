"""Scripted faults of simulated runs, for what chance would take hours to hit: who dies when, and which message is late.

A script is a coroutine beside the cluster, on the world's clock. It must not look at the history, and it ends before the run does:

    async def script(on: Stage) -> None:
        late = on.hold("b1", lambda message: getattr(message, "__api_key__", None) == Api.ALTER_PARTITION)
        on.kill("b2")
        await on.until(lambda: "b2" not in on.isr())
        late.release()

Partition 0 of the first topic is what scripts speak of.
"""

from __future__ import annotations

from typing import Any

from harness.simulated.stage import Missed, Stage
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.server.handlers import Api


async def stale_alter_partition(on: Stage) -> None:
    """KAFKA-14139: the request that adds a follower to the ISR is late, and the follower has lost its disk meanwhile."""
    leader, follower = await _two(on)
    late = on.hold(leader, lambda message: _adds(message, int(follower[1:])))
    on.start(follower)
    await on.until(lambda: bool(late.caught))
    on.cut(leader, follower)
    await _replaced(on, follower)
    late.release()
    await on.whether(lambda: follower in on.isr(), within=SECOND // 2)
    on.kill(leader)
    await on.wait(4 * SECOND)
    on.mend()
    on.start(leader)


async def leaders_die_in_turn(on: Stage) -> None:
    """Again and again: the leader dies, and the next one as soon as it leads."""
    while True:
        await on.until(lambda: len(on.isr()) == len(on.cluster.broker_names))
        await on.wait(SECOND // 2)
        dead: list[str] = []
        for _ in range(2):
            await on.until(lambda gone=dead: on.leader() not in (*gone, None))  # type: ignore[misc]
            dead.append(on.leader() or "")
            await on.wait(5 * MILLISECOND)  # its epoch reaches the last follower
            on.kill(dead[-1])
        await on.until(lambda gone=dead: on.leader() not in (*gone, None))  # type: ignore[misc]
        await on.wait(SECOND // 2)
        for name in dead:
            on.start(name)


async def _two(on: Stage) -> tuple[str, str]:
    """The leader, and a follower that is down and out of the ISR."""
    await on.wait(SECOND)
    leader = on.leader()
    if leader is None:
        raise Missed
    follower = next(name for name in on.cluster.broker_names if name != leader)
    on.kill(follower)
    await on.until(lambda: on.isr() == {leader})
    await on.wait(SECOND)
    return leader, follower


async def _replaced(on: Stage, follower: str) -> None:
    """It dies, is fenced, and comes back with an empty disk."""
    before = on.incarnation(follower)
    on.kill(follower)
    await on.until(lambda: on.fenced(follower))
    on.wipe(follower)
    on.start(follower)
    await on.until(lambda: on.incarnation(follower) > before and not on.fenced(follower))


def _adds(message: Any, broker: int) -> bool:
    return getattr(message, "__api_key__", None) == Api.ALTER_PARTITION and any(
        broker in (int(getattr(member, "broker_id", member)) for member in _members(partition))
        for topic in message.topics
        for partition in topic.partitions
    )


def _members(partition: Any) -> Any:
    """From version 3 on with epochs (KIP-903)."""
    return getattr(partition, "new_isr_with_epochs", None) or getattr(partition, "new_isr", ())
