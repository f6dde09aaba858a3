"""Scripted faults of the metadata quorum (KIP-595): who leads which epoch, and who thinks so."""

from __future__ import annotations

from collections.abc import Callable

from harness.simulated.isr_scripts import alters, pair
from harness.simulated.stage import Stage, again_and_again
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.raft.core import Raft
from nodes.reference.raft.messages import BeginQuorumEpochRequest, FetchRequest, FetchResponse, VoteRequest
from nodes.reference.raft.roles import Follower, Leader

Restart = Callable[[Stage, str], None]


async def active_controller_is_cut_off(on: Stage) -> None:
    """The other controllers hear nothing of the active one any more, and brokers do."""
    await on.soon(SECOND, 3 * SECOND)
    on.cut_off(on.active_controller() or "", on.controllers)
    await on.soon(8 * SECOND, 10 * SECOND)
    on.mend()


async def two_candidates(on: Stage) -> None:
    """Two controllers stand for election in one epoch, and the third hears of none that leads."""
    await _two_candidates(on, lambda on, voter: None)


async def two_candidates_and_a_kill(on: Stage) -> None:
    """Two controllers stand for election in one epoch, and the third is killed between one's request and the other's."""
    await _two_candidates(on, lambda on, voter: on.kill(voter))


async def two_candidates_and_a_power_loss(on: Stage) -> None:
    """Two controllers stand for election in one epoch, and the third loses power between one's request and the other's."""
    await _two_candidates(on, lambda on, voter: on.power_loss(voter))


async def _two_candidates(on: Stage, restart: Restart) -> None:
    """Again and again: the voter may stand itself before it is asked."""
    while True:
        await on.until(lambda: on.active_controller() is not None)
        await on.soon(200 * MILLISECOND, 600 * MILLISECOND)
        await _stand_together(on, on.active_controller() or "", restart)
        await on.soon(500 * MILLISECOND, SECOND)
        for name in on.controllers:
            if not on.runs(name):  # the quorum contradicts itself, or half a file of votes is no file of votes
                on.wipe(name)
            on.start(name)


async def _stand_together(on: Stage, voter: str, restart: Restart) -> None:
    """The active controller's answers are late, so both others stand, one after the other; it votes, and goes on, or dies and comes back.

    The candidates hear nothing of each other, and nobody hears who has won: so the third one's vote is all there is between them.
    """
    first, second = on.random.sample([name for name in on.controllers if name != voter], 2)
    epoch = raft(on, voter).epoch + 1
    await on.until(lambda: _patience(on, first) > 490 * MILLISECOND, look=MILLISECOND)  # it has just been answered
    late = [on.hold(voter, _is_fetched, target=each) for each in (first, second)]
    for one, other in ((first, second), (second, first)):
        late.append(on.hold(one, lambda message: isinstance(message, VoteRequest), target=other))
        late.append(on.hold(one, lambda message: isinstance(message, BeginQuorumEpochRequest)))
    await on.wait(100 * MILLISECOND)
    await on.until(lambda: bool(late[1].caught), look=MILLISECOND)
    late[1].release()  # so that the second stands a little later
    late[1] = on.hold(voter, _is_fetched, target=second)
    if await on.whether(lambda: leads(on, first, epoch), within=SECOND):
        late.append(
            on.hold(voter, lambda message: isinstance(message, FetchRequest), target=first)
        )  # whose answer names the winner
        restart(on, voter)
        on.start(voter)
        await on.soon(600 * MILLISECOND, SECOND)
    for held in late:
        held.drop()


def _patience(on: Stage, name: str) -> int:
    """For how long a follower waits for its leader still, in ns; 0: it is none."""
    role = raft(on, name).role
    return role.fetch_deadline - on.environment.clock.now() if isinstance(role, Follower) else 0


def _is_fetched(message: object) -> bool:
    return isinstance(message, FetchResponse)


async def snapshot_of_too_much(on: Stage) -> None:
    """KIP-630: a standby has just heard of the newest committed record when it is told to take a snapshot; then it is the active one.

    The record drops a follower from the ISR; its leader acknowledges records alone, and dies.
    """
    leader, follower = await pair(on)
    orders: list[tuple[str, str]] = []  # from the active controller to a standby

    def is_order(source: str, target: str, message: object) -> bool:
        found = getattr(message, "start_snapshot", False)
        if found:
            orders.append((source, target))
        return found

    told = on.hold_any(is_order)
    on.kill(follower)  # five records or so, after which a snapshot is due
    await on.until(lambda: on.isr() == {leader})
    on.start(follower)
    await on.until(on.whole)
    late = on.hold(leader, alters)
    on.cut(leader, follower)
    await on.until(lambda: bool(late.caught))
    orders.clear()
    await on.until(lambda: bool(orders) and orders[-1][0] == on.active_controller())  # and still waited for
    active, standby = orders[-1]
    (third,) = set(on.controllers) - {active, standby}
    fetch = on.hold(standby, lambda message: isinstance(message, FetchRequest), target=active)
    await on.until(lambda: bool(fetch.caught), look=MILLISECOND)
    late.release()
    await on.until(lambda: on.isr() == {leader}, look=MILLISECOND)
    fetch.release()
    await on.until(lambda: _is_applying(on, standby), within=SECOND, look=MILLISECOND // 50)
    told.release()
    await on.soon(300 * MILLISECOND, 600 * MILLISECOND)
    votes = on.hold(third, lambda message: isinstance(message, VoteRequest))
    on.kill(active)
    await on.until(lambda: on.active_controller() == standby)
    votes.drop()
    on.kill(leader)
    await on.whether(lambda: on.leader() == follower, within=4 * SECOND)  # it is not, unless the record is lost
    on.start(active)
    on.mend()
    await on.soon(200 * MILLISECOND, SECOND)
    on.start(leader)


@again_and_again
async def dropped_and_forgotten(on: Stage) -> None:
    """KIP-595, flush: a follower leaves the ISR, its leader acknowledges records alone, and all controllers lose power; the leader dies."""
    leader, follower = await pair(on)
    for name in on.controllers:
        on.write_back(name)  # so that nothing but the change of the ISR is at stake
    on.cut(leader, follower)
    # it would end if what it knows to be committed were gone, and leave the ISR
    news = on.hold_any(lambda _, target, message: target == follower and isinstance(message, FetchResponse))
    await on.until(lambda: on.isr() == {leader})
    await on.soon(300 * MILLISECOND, 600 * MILLISECOND)
    on.kill(leader)
    for name in on.controllers:
        on.power_loss(name, everything=True)
    news.drop()
    await on.soon(100 * MILLISECOND, 300 * MILLISECOND)
    for name in on.controllers:
        on.start(name)
    on.mend()
    await on.whether(lambda: on.leader() == follower, within=5 * SECOND)
    await on.soon(SECOND, 2 * SECOND)
    on.start(leader)
    await on.until(on.whole)


async def overwritten_later(on: Stage) -> None:
    """Raft, Figure 8: an entry gets to a majority under a later leader, whose own entry does not, and one that lacks it leads next.

    The entry drops a follower from the ISR. Whoever believes that it is committed acknowledges records alone, and dies.
    """
    leader, follower = await pair(on)
    late = on.hold(leader, alters)
    on.cut(leader, follower)
    await on.until(lambda: bool(late.caught))
    first = on.active_controller() or ""
    voter, rival = on.random.sample([name for name in on.controllers if name != first], 2)
    epoch = raft(on, first).epoch
    votes = on.hold(voter, lambda message: isinstance(message, VoteRequest))
    fetches = on.hold(voter, lambda message: isinstance(message, FetchRequest), target=rival)
    on.cut(first, rival)
    await on.until(lambda: _patience(on, rival) < 5 * MILLISECOND, look=MILLISECOND)  # it stands before the voter does
    on.cut(first, voter)
    late.release()  # the first one writes the entry, and nobody fetches it
    await on.until(lambda: _leads_after(on, rival, epoch), look=MILLISECOND)
    await on.wait(20 * MILLISECOND)
    on.kill(rival)  # it has an entry of its own there, and nobody has fetched it
    fetches.drop()
    on.hold(first, lambda message: _brings_after(message, epoch), target=voter)
    on.mend()
    on.cut(leader, follower)
    on.cut(first, follower)
    await on.until(lambda: _leads_after(on, first, epoch), within=20 * SECOND)
    if await on.whether(lambda: on.counts_with(leader) == {leader}, within=SECOND // 2):
        end = on.end(leader)
        await on.whether(lambda: on.end(leader) > end, within=8 * SECOND)  # producers that waited long come back late
    await on.soon(200 * MILLISECOND, 400 * MILLISECOND)
    on.kill(leader)
    on.kill(first)
    on.start(rival)
    await on.until(lambda: on.active_controller() == rival)
    votes.drop()
    await on.until(lambda: on.leader() == follower, within=20 * SECOND)
    on.mend()
    on.start(first)
    await on.soon(200 * MILLISECOND, SECOND)
    on.start(leader)


def _leads_after(on: Stage, name: str, epoch: int) -> bool:
    return isinstance(raft(on, name).role, Leader) and raft(on, name).epoch > epoch


def _brings_after(message: object, epoch: int) -> bool:
    """Entries of a later epoch."""
    return isinstance(message, FetchResponse) and any(batch.epoch > epoch for batch in message.batches)


def _is_applying(on: Stage, name: str) -> bool:
    """Does it know of a committed record that it has not applied, because its disk is still busy with it?"""
    replica = on.cluster.controllers[name].replica
    return replica.applied_offset < replica.raft.high_watermark


def raft(on: Stage, name: str) -> Raft:
    return on.cluster.controllers[name].replica.raft


def leads(on: Stage, name: str, epoch: int) -> bool:
    return isinstance(raft(on, name).role, Leader) and raft(on, name).epoch == epoch
