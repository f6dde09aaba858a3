"""The frontier search against brute force, its budgets, its evidence."""

from __future__ import annotations

import pytest

from harness.checker.linearizability.frontier import search
from tests.harness.checker.linearizability.agreement import assert_agreement
from tests.strategies import OBJECTS


@pytest.mark.parametrize("name", OBJECTS)
def test_it_agrees_with_the_definition(name: str) -> None:
    assert_agreement(name, search, range(1000))
