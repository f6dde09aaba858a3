"""Scripted faults of the metadata quorum (KIP-595): who leads which epoch, and who thinks so."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

from harness.simulated.stage import Stage
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.raft.core import Raft
from nodes.reference.raft.messages import BeginQuorumEpochRequest, FetchResponse, VoteRequest
from nodes.reference.raft.roles import Leader

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
    for _ in range(3):
        await on.until(lambda: on.active_controller() is not None)
        await on.soon(SECOND, 2 * SECOND)
        await _stand_together(on, on.active_controller() or "", restart)
        await on.soon(SECOND, 2 * SECOND)
        for name in on.controllers:
            on.start(name)  # one that has found the quorum to contradict itself has ended


async def _stand_together(on: Stage, voter: str, restart: Restart) -> None:
    """The active controller's answers are late, so both others stand; it votes, and goes on as it is, or dies and comes back.

    The candidates hear nothing of each other, and nobody hears who has won: so the third one's vote is all there is between them.
    """
    candidates = [name for name in on.controllers if name != voter]
    epoch = raft(on, voter).epoch + 1
    late = [on.hold(voter, lambda message: isinstance(message, FetchResponse), target=each) for each in candidates]
    for one, other in permutations(candidates):
        late.append(on.hold(one, lambda message: isinstance(message, VoteRequest), target=other))
        late.append(on.hold(one, lambda message: isinstance(message, BeginQuorumEpochRequest)))
    if await on.whether(lambda: any(leads(on, one, epoch) for one in candidates), within=2 * SECOND):
        restart(on, voter)
        on.start(voter)
        await on.soon(600 * MILLISECOND, SECOND)
    for held in late:
        held.drop()


def raft(on: Stage, name: str) -> Raft:
    return on.cluster.controllers[name].replica.raft


def leads(on: Stage, name: str, epoch: int) -> bool:
    return isinstance(raft(on, name).role, Leader) and raft(on, name).epoch == epoch
