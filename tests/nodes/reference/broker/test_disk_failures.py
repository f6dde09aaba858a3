"""Disks that are full or fail under a running cluster: the node says so and ends, nothing is acknowledged by it, the others go on."""

from __future__ import annotations

import errno

import pytest

from nodes.reference.environment import SECOND
from tests.nodes.reference.broker.cluster import CONTROLLERS, SimulatedCluster
from tests.nodes.reference.broker.conftest import Make

FAILURES = [("append", errno.ENOSPC), ("append", errno.EIO), ("sync", errno.EIO)]


def survives(cluster: SimulatedCluster) -> None:
    cluster.until(lambda: cluster.whole, 60)
    cluster.until(lambda: cluster.acknowledged.items() <= cluster.committed().items())


@pytest.mark.parametrize(("operation", "number"), FAILURES, ids=lambda value: str(value))
def test_a_leader_whose_disk_fails_ends_and_another_leads(make: Make, operation: str, number: int) -> None:
    """Once is enough: a sync that failed is not tried again, because the next one would succeed and mean nothing."""
    cluster = make(flush=True)
    cluster.ready()
    cluster.write(2)
    first = cluster.leader
    assert first is not None
    machine = cluster.machines[first]
    machine.disk.fail(operation, number, times=1)
    cluster.write(3)
    assert not machine.runs
    assert [(name, type(error)) for name, error in cluster.world.failures] == [(machine.name, OSError)]
    assert errno.errorcode[number] in str(cluster.world.failures[0][1])
    assert cluster.leader != first
    assert len(cluster.acknowledged) == 5
    machine.disk.repair()
    machine.disk.lose_power()
    cluster.start(first)
    survives(cluster)


@pytest.mark.parametrize(("operation", "number"), FAILURES, ids=lambda value: str(value))
def test_an_active_controller_whose_disk_fails_ends_and_another_takes_over(
    make: Make, operation: str, number: int
) -> None:
    cluster = make(flush=True)
    cluster.ready()
    active, leader = cluster.active, cluster.leader
    assert active is not None
    assert leader is not None
    machine = cluster.quorum[active.node_id]
    machine.disk.fail(operation, number, times=1)
    cluster.world.kill(cluster.machines[leader])  # which the controller must write down
    cluster.write(3)
    assert not machine.runs
    assert [(name, type(error)) for name, error in cluster.world.failures] == [(machine.name, OSError)]
    machine.disk.repair()
    machine.disk.lose_power()
    cluster.start_controller(active.node_id)
    cluster.start(leader)
    survives(cluster)
    assert {node for node in CONTROLLERS if cluster.quorum[node].runs} == set(CONTROLLERS)


def test_a_broker_that_starts_on_a_full_disk_ends(make: Make) -> None:
    cluster = make(flush=True)
    cluster.ready()
    cluster.world.kill(cluster.machines[1])
    cluster.machines[1].disk.fail("append", errno.ENOSPC)
    cluster.start(1)
    cluster.until(lambda: not cluster.machines[1].runs)
    cluster.machines[1].disk.repair()
    cluster.start(1)
    cluster.world.run_for(SECOND)
    survives(cluster)
