"""Scripted faults around broker ids (KIP-631, Broker ID Conflicts): two processes that were given the same one."""

from __future__ import annotations

from harness.simulated.stage import Missed, Stage
from nodes.reference.environment import SECOND

_LONG = (12 * SECOND, 13 * SECOND)  # longer than clients may have to wait where the id has one owner


async def two_with_one_id(on: Stage) -> None:
    """The leader's broker id is given to a second process, and the first dies."""
    await on.soon(SECOND, 2 * SECOND)
    leader = on.leader()
    if leader is None:
        raise Missed
    on.start_twin(leader)
    await on.soon(2 * SECOND, 3 * SECOND)
    on.kill(leader)
    await on.soon(*_LONG)
    on.kill_twin(leader)
    on.start(leader)


async def the_other_one_dies(on: Stage) -> None:
    """The leader's broker id is given to a second process, which comes to lead and dies, while the first one goes on."""
    await on.soon(SECOND, 2 * SECOND)
    first = on.leader()
    if first is None:
        raise Missed
    before = on.incarnation(first)
    on.start_twin(first)
    await on.until(lambda: on.incarnation(first) > before and on.whole())
    await on.soon(SECOND // 2, SECOND)
    second = on.leader() or ""
    if second != first:
        on.kill(second)
        await on.until(lambda: on.leader() == first)
        on.start(second)
        await on.until(on.whole)
    on.kill_twin(first)
    await on.soon(*_LONG)
    on.kill(first)
    on.start(first)
