"""Scripted faults around the ISR (KIP-497, KIP-841, KIP-903, KAFKA-15583): who is in it, who thinks so, and who is elected.

Most have two replicas, so that whoever is in the ISR beside the leader is elected when it dies; records that the leader has acknowledged
without it are lost then.
"""

from __future__ import annotations

from typing import Any

from harness.simulated.stage import Missed, Stage, again_and_again, api
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.server.handlers import Api


async def stale_alter_partition(on: Stage) -> None:
    """KAFKA-14139: the request that adds a follower to the ISR is late, and the follower has lost its disk meanwhile."""
    leader, follower = await _two(on)
    late = on.hold(leader, lambda message: _adds(message, follower))
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


async def added_unheard(on: Stage) -> None:
    """KIP-497: the controller adds a follower to the ISR, which the leader does not hear; then the two are cut off from each other."""
    leader, follower = await _two(on)
    late = on.hold(leader, lambda message: _adds(message, follower))
    on.start(follower)
    await on.until(lambda: bool(late.caught))
    on.deafen(leader, on.controllers)
    late.release()
    await on.until(lambda: follower in on.isr())
    on.cut(leader, follower)
    await _dies_and_returns(on, leader, follower)


async def dropped_unheard(on: Stage) -> None:
    """KIP-497: the leader hears nothing of a follower, its request to drop it from the ISR is late, and the leader dies first."""
    leader, follower = await pair(on)
    late = on.hold(leader, alters)
    on.cut(leader, follower)
    await on.until(lambda: bool(late.caught))
    await _dies_and_returns(on, leader, follower)
    late.drop()


async def answered_and_forgotten(on: Stage) -> None:
    """KIP-631: a controller that has just lost its quorum is asked to drop a follower from the ISR, and the leader dies soon after."""
    leader, follower = await pair(on)
    late = on.hold(leader, alters)
    on.cut(leader, follower)
    await on.until(lambda: bool(late.caught))
    on.cut_off(on.active_controller() or "", on.controllers)
    late.release()
    await on.soon(200 * MILLISECOND, 400 * MILLISECOND)  # before it knows that it is not the active one any more
    on.kill(leader)
    await on.until(lambda: on.leader() == follower)
    on.mend()
    await on.soon(200 * MILLISECOND, SECOND)
    on.start(leader)


async def read_and_refused(on: Stage) -> None:
    """KAFKA-15583: the ISR shrinks below min.insync.replicas when only the leader has some records, and another is elected uncleanly."""
    leader, follower = await pair(on)
    on.cut(leader, follower)
    await on.until(lambda: on.isr() == {leader})
    await on.soon(2 * SECOND, 3 * SECOND)  # until producers have given up, or they would send the same again
    on.kill(leader)
    await on.until(lambda: on.leader() == follower)
    await on.soon(200 * MILLISECOND, SECOND)
    on.mend()
    on.start(leader)


async def fenced_meanwhile(on: Stage) -> None:
    """KAFKA-13916: the request that adds a follower to the ISR is late, and the follower has died and been fenced meanwhile."""
    leader, follower = await _two(on)
    late = on.hold(leader, lambda message: _adds(message, follower))
    on.start(follower)
    await on.until(lambda: bool(late.caught))
    on.kill(follower)
    await on.until(lambda: on.fenced(follower))
    await on.soon(0, SECOND)
    late.release()
    await on.soon(SECOND, 2 * SECOND)
    on.start(follower)


@again_and_again
async def fenced_follower_fetches(on: Stage) -> None:
    """KIP-841: again and again no controller reaches a follower, which is fenced for it, and goes on following its leader."""
    await on.until(on.whole)
    await on.soon(300 * MILLISECOND, SECOND)
    on.cut_off(next(name for name in on.replicas() if name != on.leader()), on.controllers)
    await on.soon(3 * SECOND, 4 * SECOND)
    on.mend()


async def late_fetch(on: Stage) -> None:
    """KIP-903: a fetch of a follower's former life is late, it has lost its disk meanwhile, and has not read so far again.

    The third replica is slow, so nothing is committed but what the leader thinks that both followers have: the fetch says that this one
    has records which its new life lacks. Then the slow one gets them, and the leader dies.
    """
    await on.until(on.whole)
    await on.soon(SECOND, 2 * SECOND)
    leader = on.leader() or ""
    follower, slow = (name for name in on.replicas() if name != leader)  # who is elected first
    slowed = on.hold(slow, lambda message: api(message) == Api.FETCH, target=leader)
    await on.until(lambda: on.end(follower) == on.end(leader) > on.high_watermark(leader) + 1)
    await on.wait(300 * MILLISECOND)  # every producer waits for an answer now
    end, committed = on.end(leader), on.high_watermark(leader)
    late = on.hold(follower, lambda message: _fetches(message, end), target=leader)
    await on.until(lambda: bool(late.caught))
    gate = on.hold(follower, lambda message: _fetches(message, committed), target=leader)  # of its new life, too
    await _replaced(on, follower)
    await on.until(lambda: bool(gate.caught))
    await on.soon(200 * MILLISECOND, 400 * MILLISECOND)  # until the leader knows that it may join
    on.hold(follower, lambda message: _fetches(message, committed + 1), target=leader)
    gate.release()
    await on.until(lambda: follower in on.isr())
    late.release()
    slowed.release()
    await on.soon(300 * MILLISECOND, 800 * MILLISECOND)
    on.kill(leader)
    await on.until(lambda: on.leader() == follower)
    await on.soon(200 * MILLISECOND, SECOND)
    on.start(leader)


async def pair(on: Stage) -> tuple[str, str]:
    """The leader and the follower."""
    await on.soon(SECOND, 2 * SECOND)
    leader = on.leader()
    if leader is None:
        raise Missed
    return leader, next(name for name in on.replicas() if name != leader)


async def _two(on: Stage) -> tuple[str, str]:
    """The leader, and a follower that is down and out of the ISR."""
    leader, follower = await pair(on)
    on.kill(follower)
    await on.until(lambda: on.isr() == {leader})
    await on.soon(SECOND // 2, SECOND)
    return leader, follower


async def _dies_and_returns(on: Stage, leader: str, follower: str) -> None:
    """After it may have acknowledged something alone; the follower leads meanwhile."""
    await on.soon(400 * MILLISECOND, 900 * MILLISECOND)
    on.kill(leader)
    await on.until(lambda: on.leader() == follower)
    on.mend()
    await on.soon(200 * MILLISECOND, SECOND)
    on.start(leader)


async def _replaced(on: Stage, follower: str) -> None:
    """It dies, is fenced, and comes back with an empty disk."""
    before = on.incarnation(follower)
    on.kill(follower)
    await on.until(lambda: on.fenced(follower))
    on.wipe(follower)
    on.start(follower)
    await on.until(lambda: on.incarnation(follower) > before and not on.fenced(follower))


def alters(message: object) -> bool:
    return api(message) == Api.ALTER_PARTITION


def _adds(message: Any, broker: str) -> bool:
    return alters(message) and any(
        int(broker[1:]) in (int(getattr(member, "broker_id", member)) for member in _members(partition))
        for topic in message.topics
        for partition in topic.partitions
    )


def _members(partition: Any) -> Any:
    """From version 3 on with epochs (KIP-903)."""
    return getattr(partition, "new_isr_with_epochs", None) or getattr(partition, "new_isr", ())


def _fetches(message: Any, offset: int) -> bool:
    """At an offset, or beyond."""
    return api(message) == Api.FETCH and any(
        partition.fetch_offset >= offset for topic in message.topics for partition in topic.partitions
    )
