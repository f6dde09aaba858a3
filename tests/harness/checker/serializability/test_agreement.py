"""What is told is true, and where lists leave nothing to guess, all is told."""

from __future__ import annotations

import pytest

from harness.checker.models.model import Question
from harness.checker.serializability import cycles
from tests.harness.checker.serializability.agreement import (
    HISTORIES,
    ORDERS,
    WORLDS,
    assert_agreement,
    assert_isolated,
    model_of,
    random_history,
    types,
    violated,
)
from tests.harness.checker.serializability.brute_force import serializable
from tests.harness.checker.serializability.worlds import Forgotten


@pytest.mark.parametrize("write", ["append", "w"])
@pytest.mark.parametrize("isolation", WORLDS)
def test_an_isolated_world_is_never_accused(write: str, isolation: str) -> None:
    for seed in range(HISTORIES // 4 or 300):
        if isolation == "read-uncommitted":
            assert_isolated(seed, write, isolation, Forgotten.NOTHING)
            continue
        for forgotten in Forgotten:
            assert_isolated(seed, write, isolation, forgotten)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("write", ["append", "w"])
def test_it_agrees_with_brute_force(write: str, part: int) -> None:
    count = HISTORIES // 4 or 600
    legal = sum(assert_agreement(seed, write) for seed in range(part * count, (part + 1) * count))
    assert 0.05 * count < legal < 0.95 * count, "the histories are too much alike"


def test_it_agrees_when_searches_for_short_cycles_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the shortest so far is told, and whether a cycle has a single RW is found out in another way."""
    monkeypatch.setattr(cycles, "_EDGES", 1)
    for seed in range(HISTORIES // 4 or 600):
        assert_agreement(seed, "append")


def test_of_registers_little_is_missed() -> None:
    """Nobody finds all in polynomial time; but of small random histories that are not serializable, most."""
    missed = contradictory = 0
    for seed in range(HISTORIES // 4 or 300):
        history = random_history(seed, "w")
        contradicted = violated(types(model_of("w").judge(history, Question())))
        for name, before in ORDERS.items():
            if not serializable(history, before, lists=False):
                contradictory += 1
                missed += name not in contradicted
    assert contradictory > 100
    assert missed <= 0.02 * contradictory
