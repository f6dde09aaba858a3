"""Power goes at any moment, of one broker, all brokers, all controllers or all: what was acknowledged under the flush policy is there.

Points are drawn from a seed, between two steps of the machine and inside of them, at an operation of its disk. `KRASH_POINTS=200` for more
than everyday tests need (tox -e slow-power-loss).
"""

from __future__ import annotations

import os
from functools import partial
from random import Random

import pytest

from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.log.checkpoint import RECOVERY_POINTS, read_offsets
from nodes.reference.protections import ALL_ON, Protection, Protections
from nodes.reference.simulation.world import Machine
from tests.nodes.reference.broker.cluster import BROKERS, TOPIC, SimulatedCluster
from tests.nodes.reference.broker.conftest import Make

POINTS = int(os.environ.get("KRASH_POINTS", "20"))
POINTS_OF_A_CLUSTER = 5
WITHOUT = Protections(off=[Protection.FSYNC_ON_PRODUCE])


def victims(cluster: SimulatedCluster, random: Random) -> list[Machine]:
    brokers, controllers = list(cluster.machines.values()), list(cluster.quorum.values())
    one = cluster.machines[random.choice(BROKERS)]
    return random.choice(([one], brokers, brokers, controllers, [*brokers, *controllers]))


def lose_power(cluster: SimulatedCluster, random: Random) -> None:
    """All of them within some milliseconds, no two at the same step; sometimes only the processes die (kill -9)."""
    end = random.choice((cluster.world.power_loss, cluster.world.power_loss, cluster.world.kill))
    for machine in victims(cluster, random):
        if random.random() < 0.5:
            machine.disk.after(random.randint(1, 8), partial(end, machine))
            cluster.world.run_for(random.randint(0, 20) * MILLISECOND)
        cluster.world.run_for(random.randint(0, 3 * MILLISECOND))
        end(machine)
        machine.disk.repair()


def restart(cluster: SimulatedCluster) -> None:
    for id in cluster.quorum:
        cluster.start_controller(id)
    for id in BROKERS:
        cluster.start(id)


def lost(cluster: SimulatedCluster, random: Random, points: int) -> dict[int, bytes]:
    """What was acknowledged and is not there, after so many losses of power under a writer that does not rest."""
    cluster.ready()
    done = False
    cluster.world.start(cluster.client, lambda environment: cluster.write_until(environment, lambda: done))
    for _ in range(points):
        before = len(cluster.acknowledged)
        cluster.until(lambda: len(cluster.acknowledged) > before + 2, 60)  # noqa: B023 - it is called here only
        cluster.world.run_for(random.randint(0, 60 * MILLISECOND))
        lose_power(cluster, random)
        cluster.world.run_for(random.choice((0, SECOND)))
        restart(cluster)
        cluster.until(lambda: cluster.whole, 60)
    done = True
    cluster.until(lambda: cluster.client.process is None, 60)
    missing = dict(cluster.acknowledged)
    for _ in range(60):
        cluster.world.run_for(SECOND)
        there = cluster.committed() if cluster.whole else {}
        missing = {offset: value for offset, value in cluster.acknowledged.items() if there.get(offset) != value}
        if not missing:
            break
    return missing


@pytest.mark.parametrize("seed", range(POINTS // POINTS_OF_A_CLUSTER))
def test_what_was_acknowledged_survives(make: Make, seed: int) -> None:
    cluster = make(seed, flush=True)
    assert lost(cluster, Random(seed), POINTS_OF_A_CLUSTER) == {}
    assert cluster.world.failures == []


@pytest.mark.parametrize(("flush", "protections"), [(True, ALL_ON), (False, ALL_ON), (True, WITHOUT)])
def test_the_checkpoint_says_what_each_log_has_flushed(make: Make, *, flush: bool, protections: Protections) -> None:
    """Whoever takes a broker's power away from outside goes by it (nemesis/power_loss.py)."""
    cluster = make(1, flush=flush, protections=protections)
    cluster.ready()
    cluster.world.start(cluster.client, lambda environment: cluster.write_until(environment, lambda: False))
    for enough in range(5, 30, 5):
        cluster.until(lambda: len(cluster.acknowledged) > enough)  # noqa: B023 - it is called here only
        for id in BROKERS:
            hosted = cluster.brokers[id].replicas.find(TOPIC, 0)
            assert hosted is not None
            disk = cluster.machines[id].disk.mounted(cluster.brokers[id].replicas._clock)
            said = read_offsets(disk, RECOVERY_POINTS)[TOPIC, 0]
            synced = flush and protections is ALL_ON
            assert said == (hosted.partition.local.log.log_end_offset if synced else 0)


def test_without_the_sync_it_does_not(make: Make) -> None:
    """The same points: the test above would notice."""
    found = 0
    for seed in range(4):
        cluster = make(seed, flush=True, protections=WITHOUT)
        found += len(lost(cluster, Random(seed), POINTS_OF_A_CLUSTER))
        if found:
            return
    pytest.fail("twenty losses of power without a single fsync, and nothing was lost")
