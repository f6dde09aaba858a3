"""Graph kernels against naive code, and without the compiler."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from harness.checker.serializability.graph import RW, Edges
from harness.checker.serializability.kernels import (
    BATCH,
    components,
    first_return,
    later_versions,
    search_space,
    shortest_path,
    successors,
)

_PLAIN = """
import warnings
warnings.simplefilter("error")
import numba
from harness.checker.serializability import kernels
from tests.harness.checker.serializability.agreement import assert_agreement
assert not isinstance(kernels.components, numba.core.dispatcher.Dispatcher)
for seed in range(60):
    for write in ("append", "w"):
        assert_agreement(seed, write)
"""


def _graph(rng: random.Random, nodes: int, edges: int, acyclic: bool = False) -> list[tuple[int, int]]:
    pairs = [(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(edges)]
    return [(min(a, b), max(a, b)) if acyclic else (a, b) for a, b in pairs if a != b]


def _arrays(nodes: int, edges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    source, target = (np.array([edge[end] for edge in edges], np.int32) for end in (0, 1))
    offsets, order = successors(source, nodes)
    return offsets, target[order]


def _distances(nodes: int, edges: list[tuple[int, int]], start: int, free: set[int]) -> dict[int, int]:
    """By repeated relaxation; a step into `free` counts nothing. The start itself: by a way back to it."""
    distance = {b: 0 if b in free else 1 for a, b in edges if a == start}
    for _ in range(nodes):
        for a, b in edges:
            if a in distance and a != start:
                distance[b] = min(distance.get(b, 10**9), distance[a] + (b not in free))
    return distance


@pytest.mark.parametrize("seed", range(60))
def test_components_are_what_reaches_each_other(seed: int) -> None:
    rng = random.Random(seed)
    nodes = rng.randint(1, 12)
    edges = _graph(rng, nodes, rng.randint(0, 25))
    reach = {start: {start, *_distances(nodes, edges, start, set())} for start in range(nodes)}
    found = components(*_arrays(nodes, edges))
    for a in range(nodes):
        for b in range(nodes):
            assert (found[a] == found[b]) == (a in reach[b] and b in reach[a])
            if b in reach[a]:
                assert found[a] >= found[b]


@pytest.mark.parametrize("seed", range(60))
def test_a_shortest_path_counts_no_barriers(seed: int) -> None:
    rng = random.Random(seed)
    nodes = 10
    edges = _graph(rng, nodes, rng.randint(5, 25))
    free = {node for node in range(5, nodes) if rng.random() < 0.5}
    barrier = np.array([node in free for node in range(nodes)])
    offsets, targets = _arrays(nodes, edges)
    component, space = components(offsets, targets), search_space(nodes)
    for start in range(5):
        wanted = _distances(nodes, edges, start, free)
        for goal in range(5):
            arguments = (offsets, targets, component, barrier, start, goal)
            length, _ = shortest_path(*arguments, 10**6, 10**6, space)
            assert length == wanted.get(goal, 0)
            if length:
                assert shortest_path(*arguments, length - 1, 10**6, space)[0] == 0


@pytest.mark.parametrize("seed", range(40))
def test_returns_of_many_pairs_in_few_sweeps(seed: int) -> None:
    rng = random.Random(seed)
    nodes = 30
    edges = _graph(rng, nodes, rng.randint(5, 40), acyclic=True)
    offsets, targets = _arrays(nodes, edges)
    reach = {start: set(_distances(nodes, edges, start, set())) for start in range(nodes)}
    pairs = [(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(3 * BATCH)]
    unreached = sorted((a, b) for a, b in pairs if b not in reach[a] and a != b)
    order = np.arange(nodes, dtype=np.int32)
    for extra in (None, *((a, b) for a in reach for b in reach[a])):
        asked = unreached + ([extra] if extra else [])
        begins, ends = (np.array([pair[end] for pair in asked], np.int32) for end in (0, 1))
        assert first_return(offsets, targets, order, order, begins, ends) == (len(asked) - 1 if extra else -1)


@pytest.mark.parametrize("seed", range(20))
def test_a_fan_is_all_pairs_and_nobody_before_itself(seed: int) -> None:
    rng = random.Random(seed)
    sources, targets = (rng.sample(range(9), rng.randint(1, 6)) for _ in range(2))
    edges = Edges(9)
    edges.fan([(source, RW) for source in sources], targets, 0)
    graph = edges.graph()
    pairs = [(int(a), int(b)) for a, b in zip(graph.source, graph.target, strict=True)]
    first = [(a, b) for a, b in pairs if a < 9]
    assert all(a in sources for a, _ in first)
    behind = {b: {b} & set(range(9)) for _, b in first}
    onwards = [(a, b) for a, b in pairs if a >= 9]
    for barrier in (one for one in behind if one >= 9):
        behind[barrier] = {b for b in _distances(graph.nodes, onwards, barrier, set()) if b < 9}
    reached = [(a, end) for a, b in first for end in behind[b]]
    assert sorted(reached) == sorted((a, b) for a in sources for b in targets if a != b)


def test_places_but_two() -> None:
    columns = [np.array(column, np.int64) for column in ([0, 2, 5, 0], [9, 9, 9, 3], [4, -1, 8, 2], [6, 1, -1, -1])]
    one, single, many, chain = later_versions(*columns, 2)
    told = list(zip(one.tolist(), single.tolist(), strict=True))
    assert told == [(0, 0), (0, 1), (0, 5), (2, 5), (2, 6), (3, 0), (3, 1)]
    assert list(zip(many.tolist(), chain.tolist(), strict=True)) == [(0, 7), (1, 2)]


def test_without_the_compiler_the_kernels_are_plain_python() -> None:
    subprocess.run([sys.executable, "-c", _PLAIN], check=True, env=os.environ | {"NUMBA_DISABLE_JIT": "1"})
