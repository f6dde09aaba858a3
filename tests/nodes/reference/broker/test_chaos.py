"""Whole clusters in the simulated world under kills, power losses, pauses and cuts: what was acknowledged is there when all is healed.

`KRASH_SEEDS=1000` for more of them than everyday tests need.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest

from nodes.reference.environment import MILLISECOND
from tests.nodes.reference.broker.cluster import BROKERS, CONTROLLERS, SimulatedCluster
from tests.nodes.reference.broker.conftest import Make

SEEDS = int(os.environ.get("KRASH_SEEDS", "3"))
STEPS = 12


class Chaos:
    """One fault after the other, as a seed says."""

    def __init__(self, cluster: SimulatedCluster, seed: int, *, power: bool) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._random = Random(seed)
        self._end = self._world.power_loss if power else self._world.kill
        self._faults: list[Callable[[], None]] = [
            self._end_broker,
            self._end_broker,
            self._end_controller,
            self._pause,
            self._cut,
            self._world.network.heal,
            self.restart,
            self.restart,
        ]

    def step(self) -> None:
        self._world.run_for(self._random.randint(1, 4_000) * MILLISECOND)
        self._random.choice(self._faults)()

    def restart(self) -> None:
        for id in BROKERS:
            self._cluster.start(id)
        for id in CONTROLLERS:
            self._cluster.start_controller(id)

    def heal(self) -> None:
        self._world.network.heal()
        for machine in self._cluster.machines.values():
            self._world.resume(machine)
        self.restart()

    def _end_broker(self) -> None:
        self._end(self._cluster.machines[self._random.choice(BROKERS)])

    def _end_controller(self) -> None:
        self._end(self._cluster.quorum[self._random.choice(list(CONTROLLERS))])

    def _pause(self) -> None:
        machine = self._cluster.machines[self._random.choice(BROKERS)]
        self._world.pause(machine)
        self._world.after(self._random.randint(100, 9_000) * MILLISECOND, lambda: self._world.resume(machine))

    def _cut(self) -> None:
        names = [machine.name for machine in (*self._cluster.machines.values(), *self._cluster.quorum.values())]
        source, target = self._random.sample(names, 2)
        self._world.network.cut(source, target)
        if self._random.random() < 0.7:
            self._world.network.cut(target, source)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power-loss"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_acknowledged_survives(make: Make, seed: int, power: bool) -> None:
    cluster = make(seed, flush=power)
    survive(cluster, Chaos(cluster, seed, power=power))


def survive(cluster: SimulatedCluster, chaos: Chaos) -> None:
    cluster.ready()
    done = False
    cluster.world.start(cluster.client, lambda environment: cluster.write_until(environment, lambda: done))
    for _ in range(STEPS):
        chaos.step()
    chaos.heal()
    cluster.until(lambda: cluster.whole, 120)
    acknowledged = len(cluster.acknowledged)
    cluster.until(lambda: len(cluster.acknowledged) > acknowledged + 3, 60)
    done = True
    cluster.until(lambda: cluster.client.process is None, 60)
    cluster.until(lambda: cluster.acknowledged.items() <= cluster.committed().items())
    assert cluster.world.failures == []
