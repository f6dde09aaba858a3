"""The frontier search against brute force, its budgets, its evidence."""

from __future__ import annotations

import random

import pytest

from harness.checker.linearizability.frontier import search
from tests.harness.checker.linearizability.brute_force import Op, linearizable
from tests.strategies import OBJECTS, encode, initial_code, random_history


@pytest.mark.parametrize("name", OBJECTS)
def test_it_agrees_with_the_definition(name: str) -> None:
    legal = 0
    for seed in range(800):
        ops = random_history(random.Random(seed), name)
        wanted = linearizable(ops, OBJECTS[name].initial)
        found = search(encode(ops), initial_code(name))
        assert found.verdict == ("legal" if wanted else "illegal"), (seed, ops)
        legal += wanted
    assert 80 < legal < 700, "the histories are too much alike"
