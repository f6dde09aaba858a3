"""Simulated clusters for tests; closed at the end of each, whatever came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.nodes.reference.broker.cluster import SimulatedCluster

Make = Callable[..., SimulatedCluster]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[SimulatedCluster] = []

    def cluster(seed: int = 1, **settings: Any) -> SimulatedCluster:
        made.append(SimulatedCluster(seed, **settings))
        return made[-1]

    yield cluster
    for each in made:
        each.world.close()
