"""Simulated clusters for tests; closed at the end of each, whatever came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nodes.reference.protections import ALL_ON, Protections
from tests.nodes.reference.broker.cluster import SimulatedCluster

Make = Callable[..., SimulatedCluster]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[SimulatedCluster] = []

    def cluster(
        seed: int = 1, *, protections: Protections = ALL_ON, record: bool = False, flush: bool = False
    ) -> SimulatedCluster:
        made.append(SimulatedCluster(seed, protections=protections, record=record, flush=flush))
        return made[-1]

    yield cluster
    for each in made:
        each.world.close()
