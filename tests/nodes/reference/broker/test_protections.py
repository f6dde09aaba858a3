"""What whole clusters lose without a protection, and do not lose with it."""

from __future__ import annotations

import pytest

from nodes.reference.environment import SECOND
from nodes.reference.protections import ALL_ON, Protection, Protections
from tests.nodes.reference.broker.cluster import BROKERS, SimulatedCluster
from tests.nodes.reference.broker.conftest import Make


def without(protection: Protection) -> Protections:
    return Protections(off=[protection])


def lost(cluster: SimulatedCluster) -> bool:
    cluster.until(lambda: cluster.whole, 60)
    cluster.world.run_for(5 * SECOND)
    return not cluster.acknowledged.items() <= cluster.committed().items()


@pytest.mark.parametrize(
    ("protections", "loses"), [(ALL_ON, False), (without(Protection.REPLICATE_BEFORE_ACKNOWLEDGE), True)]
)
def test_a_leader_that_is_cut_off_acknowledges_nothing(make: Make, protections: Protections, loses: bool) -> None:
    """acks=all; then the leader dies, and another one is elected."""
    cluster = make(protections=protections)
    cluster.ready()
    leader = cluster.leader
    assert leader is not None
    for other in set(BROKERS) - {leader}:
        cluster.world.network.cut(f"b{leader}", f"b{other}")
    cluster.write(1, to=leader)
    assert bool(cluster.acknowledged) is loses
    cluster.world.kill(cluster.machines[leader])
    cluster.until(lambda: cluster.leader not in (None, leader))
    cluster.world.network.heal()  # not before: what the dead one has sent may still be on its way
    cluster.start(leader)
    assert lost(cluster) is loses


@pytest.mark.parametrize(("protections", "loses"), [(ALL_ON, False), (without(Protection.FSYNC_ON_PRODUCE), True)])
def test_what_the_flush_policy_promises_survives_when_all_machines_lose_power(
    make: Make, protections: Protections, loses: bool
) -> None:
    """log.flush.interval.messages=1. Without the sync some of it may survive all the same: not with every seed."""
    losses = []
    for seed in range(4):
        cluster = make(seed, protections=protections, flush=True)
        cluster.ready()
        cluster.write(10)
        for id in BROKERS:
            cluster.world.power_loss(cluster.machines[id])
        cluster.world.run_for(SECOND)
        for id in BROKERS:
            cluster.start(id)
        losses.append(lost(cluster))
        assert any(losses) is loses
