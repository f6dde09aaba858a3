"""Scripted faults of simulated runs, for what chance would take hours to hit: what one replica has of a log, and the next leader lacks.

Scripts of the ISR are in isr_scripts.py, of the quorum in quorum_scripts.py, of broker ids in registration_scripts.py; what a script may do
is in stage.py.
"""

from __future__ import annotations

from kio.schema.produce.v9.response import ProduceResponse

from harness.simulated.stage import Stage, again_and_again
from nodes.reference.environment import MILLISECOND, SECOND


@again_and_again
async def truncated_and_elected(on: Stage) -> None:
    """KIP-101: a follower that has not heard of the newest high watermark hears of a new leader, cannot ask it anything, and leads next."""
    first, second, last = await _leads_behind(on)
    await on.until(lambda: on.following(last))  # by its high watermark it has truncated its log now, or has not
    on.kill(second)
    on.mend()
    await on.until(lambda: on.leader() == last)
    await on.soon(200 * MILLISECOND, 600 * MILLISECOND)
    on.start(first)
    on.start(second)


@again_and_again
async def dies_before_it_answers(on: Stage) -> None:
    """KIP-98: again and again the leader dies before its answers have left; the others have those records, and they are sent again."""
    await on.until(on.whole)
    await on.soon(300 * MILLISECOND, SECOND)
    leader = on.leader() or ""
    answers = on.hold(leader, lambda message: isinstance(message, ProduceResponse))
    await on.until(lambda: bool(answers.caught))
    on.kill(leader)
    answers.drop()
    await on.until(lambda: on.leader() not in (leader, None))
    await on.soon(SECOND, 2 * SECOND)
    on.start(leader)


@again_and_again
async def leads_with_an_old_high_watermark(on: Stage) -> None:
    """KIP-207: a follower that has not heard of the newest high watermark leads, and the other one cannot reach it."""
    first, _, _ = await _leads_behind(on)
    await on.soon(SECOND, 2 * SECOND)
    on.mend()
    on.start(first)


@again_and_again
async def leader_is_cut_from_controllers(on: Stage) -> None:
    """Again and again: no controller reaches the leader, and clients do."""
    await on.until(on.whole)
    await on.soon(300 * MILLISECOND, SECOND)
    on.cut_off(on.leader() or "", on.controllers)
    await on.soon(4 * SECOND, 6 * SECOND)
    on.mend()


async def _leads_behind(on: Stage) -> tuple[str, str, str]:
    """The leader dies while neither follower has heard of its newest high watermark, and one leads; the two cannot reach each other.

    Returns the dead one, the one that leads, the other one.
    """
    await on.until(on.whole)
    await on.soon(300 * MILLISECOND, SECOND)
    first = on.leader() or ""
    one, other = (name for name in on.replicas() if name != first)
    await on.until(lambda: _lags(on, first, one) and _lags(on, first, other), look=MILLISECOND)
    on.cut(one, other)
    on.kill(first)
    await on.until(lambda: on.leader() not in (first, None))
    second = on.leader() or ""
    return first, second, other if second == one else one


def _lags(on: Stage, leader: str, follower: str) -> bool:
    """Has the leader told clients of records that the follower has and does not know to be committed?"""
    return on.high_watermark(follower) < on.high_watermark(leader) <= on.end(follower)


async def half_a_batch(on: Stage) -> None:
    """KIP-98, Message Format: a follower loses power again and again, until half of a batch counts as a batch there; then it leads."""
    await on.until(on.whole)
    leader = on.leader() or ""
    follower = next(name for name in on.replicas() if name != leader)
    while not await _loses_power(on, leader, follower, records=on.random.randint(20, 60)):
        pass
    on.kill(leader)
    await on.until(lambda: on.leader() == follower)
    await on.soon(200 * MILLISECOND, SECOND)
    on.start(leader)


async def _loses_power(on: Stage, leader: str, follower: str, *, records: int) -> bool:
    """After so many more records. True: it is in sync again, and has other bytes than its leader."""
    begin, life = on.end(follower), on.incarnation(follower)
    await on.until(lambda: on.end(follower) >= begin + records)
    on.power_loss(follower)
    on.start(follower)
    if await on.whether(lambda: on.incarnation(follower) > life and on.whole(), within=2 * SECOND):
        return _differ(on, leader, follower)
    on.kill(follower)  # what it has left fits nothing that the leader has
    on.wipe(follower)
    on.start(follower)
    await on.until(on.whole)
    return False


def _differ(on: Stage, one: str, other: str) -> bool:
    """In what both have."""
    logs = [on.log(name) for name in (one, other)]
    end = min(on.end(one), on.end(other))
    contents = [log.read(0, upper_bound=end, max_bytes=1 << 30) for log in logs if log is not None]
    return len(set(contents)) > 1
