"""Scripted faults of simulated runs, for what chance would take hours to hit: what one replica has of a log, and the next leader lacks.

Scripts of the ISR are in isr_scripts.py, of the quorum in quorum_scripts.py, of broker ids in registration_scripts.py; what a script may do
is in stage.py.
"""

from __future__ import annotations

from harness.simulated.stage import Stage
from nodes.reference.environment import MILLISECOND, SECOND


async def truncated_and_elected(on: Stage) -> None:
    """KIP-101: a follower that has not heard of the newest high watermark hears of a new leader, cannot ask it anything, and leads next."""
    while True:
        await _truncated_and_elected(on)


async def _truncated_and_elected(on: Stage) -> None:
    await on.until(on.whole)
    await on.soon(300 * MILLISECOND, SECOND)
    first = on.leader() or ""
    one, other = (name for name in on.replicas() if name != first)
    await on.until(lambda: _lags(on, first, one) and _lags(on, first, other), look=MILLISECOND)
    on.cut(one, other)
    on.kill(first)
    await on.until(lambda: on.leader() not in (first, None))
    second = on.leader() or ""
    last = other if second == one else one
    await on.until(lambda: on.following(last))  # by its high watermark it has truncated its log now, or has not
    on.kill(second)
    on.mend()
    await on.until(lambda: on.leader() == last)
    await on.soon(200 * MILLISECOND, 600 * MILLISECOND)
    on.start(first)
    on.start(second)


async def leads_with_an_old_high_watermark(on: Stage) -> None:
    """KIP-207: a follower that has not heard of the newest high watermark leads, and the other one cannot reach it."""
    while True:
        await _leads_with_an_old_high_watermark(on)


async def _leads_with_an_old_high_watermark(on: Stage) -> None:
    await on.until(on.whole)
    await on.soon(300 * MILLISECOND, SECOND)
    first = on.leader() or ""
    one, other = (name for name in on.replicas() if name != first)
    await on.until(lambda: _lags(on, first, one) and _lags(on, first, other), look=MILLISECOND)
    on.cut(one, other)
    on.kill(first)
    await on.until(lambda: on.leader() not in (first, None))
    await on.soon(SECOND, 2 * SECOND)
    on.mend()
    on.start(first)


async def leader_is_cut_from_controllers(on: Stage) -> None:
    """Again and again: no controller reaches the leader, and clients do."""
    while True:
        await _leader_is_cut_from_controllers(on)


async def _leader_is_cut_from_controllers(on: Stage) -> None:
    await on.until(on.whole)
    await on.soon(300 * MILLISECOND, SECOND)
    on.cut_off(on.leader() or "", on.controllers)
    await on.soon(4 * SECOND, 6 * SECOND)
    on.mend()


def _lags(on: Stage, leader: str, follower: str) -> bool:
    """Has the leader told clients of records that the follower has and does not know to be committed?"""
    return on.high_watermark(follower) < on.high_watermark(leader) <= on.end(follower)
