"""The frontier search against brute force, its budgets, its evidence."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from harness.checker.linearizability.configurations import BITS
from harness.checker.linearizability.decide import decide
from harness.checker.linearizability.frontier import Budget, Search, search
from harness.checker.linearizability.operations import READ, Operations
from harness.checker.linearizability.shrink import shrink
from tests.harness.checker.linearizability.agreement import assert_agreement, assert_contradictory
from tests.harness.checker.linearizability.brute_force import Op, linearizable
from tests.harness.checker.linearizability.bulk import bulk_register
from tests.strategies import OBJECTS, closed_loop, encode, initial_code, random_history


def _stale() -> Operations:
    return encode(
        [
            Op("write", 1, invoked=0, completed=9),
            Op("read", result=1, invoked=2, completed=4),
            Op("read", result=None, invoked=5, completed=7),
        ]
    )


def test_it_names_the_event_that_cannot_be_explained_and_what_was_possible_before() -> None:
    found = search(_stale())
    assert found.verdict == "illegal"
    assert found.evidence is not None
    assert found.evidence.operations[0] == 2
    assert "operation #2 (read)" in found.evidence.sentence
    assert [(one.state, one.linearized) for one in found.evidence.configurations] == [(1, (0,))]


def test_a_budget_of_steps_ends_it_and_more_goes_on_where_it_ended() -> None:
    operations = bulk_register(300, 6, unique=False, cas=0.5)
    whole = Search(operations).run()
    assert whole.verdict == "legal"
    paused = Search(operations)
    for steps in range(100, whole.spent.steps, 100):
        answer = paused.run(Budget(steps=steps))
        assert answer.verdict == "unknown"
        assert "steps" in answer.reason
        assert steps <= answer.spent.steps < steps + 100
    resumed = paused.run()
    assert resumed.verdict == "legal"
    assert resumed.spent.steps == whole.spent.steps


def _wide(additions: int) -> Operations:
    """All at once, all different: 2^additions sums, and none of them is what is read in the end."""
    ops = [Op("add", 2**number, invoked=0, completed=10) for number in range(additions)]
    return encode([*ops, Op("read", result=-5, invoked=11, completed=12)])


@pytest.mark.parametrize(("budget", "told"), [(Budget(bytes=10**6), "MiB"), (Budget(seconds=0.0, steps=10**7), " s ")])
def test_a_budget_of_memory_or_time_ends_it(budget: Budget, told: str) -> None:
    answer = search(_wide(18), 0, budget)
    assert answer.verdict == "unknown"
    assert told in answer.reason
    assert answer.spent.bytes <= 10**6 or "MiB" not in told


def test_a_grown_table_changes_nothing() -> None:
    answer = search(_wide(9), 0)
    assert answer.verdict == "illegal"
    assert answer.spent.bytes > 3 * 256 * 3 * 8


@pytest.mark.parametrize("unknown", [False, True])
def test_many_writes_at_once_need_no_search_through_their_orders(unknown: bool) -> None:
    """A write that another one covers may have come just before it. As many as need more than one word of bits."""
    ops = [
        Op("write", number, invoked=0, completed=None if unknown else 10, certain=not unknown) for number in range(70)
    ]
    ops += [Op("read", result=number, invoked=11 + number, completed=12 + number) for number in (7,) * 40]
    assert search(encode(ops)).verdict == "legal"
    broken = search(encode([*ops, Op("read", result=None, invoked=99, completed=100)]))
    assert broken.verdict == "illegal"
    assert broken.spent.steps < 10_000


def test_a_compare_and_set_that_changes_nothing_lets_the_search_go_on() -> None:
    """It may have taken effect at the 1, so that the 1 was not for nothing, though nobody read it."""
    ops = [
        Op("write", 1, invoked=0, completed=30),
        Op("write", 2, invoked=0, completed=29),
        Op("cas", 1, 1, invoked=0, completed=36),
        Op("cas", 3, 2, invoked=0, completed=42),
        Op("read", result=3, invoked=30, completed=60),
        Op("cas", 2, 3, invoked=31, completed=69),
        Op("read", result=2, invoked=70, completed=80),
    ]
    assert search(encode(ops)).verdict == "legal"


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_closed_loops_of_clients_agree_with_the_definition(seed: int) -> None:
    """Denser than the random histories: all clients always have something open."""
    verdicts = set()
    for offset in range(100):
        ops = closed_loop(random.Random(100 * seed + offset))
        legal = linearizable(ops, None)
        assert search(encode(ops)).verdict == ("legal" if legal else "illegal"), ops
        verdicts.add(legal)
    assert verdicts == {True, False}


def test_more_operations_may_be_open_than_a_word_has_bits() -> None:
    """Reads that were right at the beginning and return at the end keep the places of the first word."""
    reads = [Op("read", result=None, invoked=-1, completed=10**6) for _ in range(BITS + 1)]
    verdicts = set()
    for seed in range(200):
        ops = closed_loop(random.Random(seed))
        alone, crowded = (search(encode(some)).verdict for some in (ops, reads + ops))
        assert crowded == alone, ops
        verdicts.add(alone)
    assert verdicts == {"legal", "illegal"}


def test_memory_does_not_grow_with_the_configurations_of_a_long_history() -> None:
    short, long = (search(bulk_register(count, 4, unique=False, cas=0.3)) for count in (1000, 10_000))
    assert short.verdict == long.verdict == "legal"
    per_operation = (long.spent.bytes - short.spent.bytes) / 9000
    assert per_operation < 100  # the history itself: eight columns and two events


def test_no_operations_are_legal() -> None:
    assert search(encode([])).verdict == "legal"


def test_many_lost_writes_of_values_that_nobody_read_cost_nothing() -> None:
    ops = [Op("write", 5, invoked=0, completed=1), Op("read", result=5, invoked=500, completed=501)]
    ops += [Op("write", 10 + number, invoked=number, completed=None, certain=False) for number in range(200)]
    answer = search(encode(ops))
    assert answer.verdict == "legal"
    assert answer.spent.steps < 10


@pytest.mark.parametrize("name", OBJECTS)
def test_it_agrees_with_the_definition(name: str) -> None:
    assert_agreement(name, search, range(1000))


@pytest.mark.parametrize("name", OBJECTS)
def test_shrunk_evidence_is_still_a_contradiction(name: str) -> None:
    shrunk = 0
    for seed in range(100):
        ops = random_history(random.Random(seed), name, most=10)
        operations, initial = encode(ops), initial_code(name)
        found = search(operations, initial)
        if found.verdict == "illegal":
            smaller = shrink(operations, found, search, initial)
            assert_contradictory(ops, OBJECTS[name].initial, smaller)
            assert smaller.evidence is not None
            assert found.evidence is not None
            assert set(smaller.evidence.operations) <= set(found.evidence.operations)
            shrunk += len(smaller.evidence.operations) < len(found.evidence.operations)
    assert shrunk > 10


@pytest.mark.parametrize("count", [50, 2000])
def test_of_a_long_history_whose_values_come_again_and_again_two_operations_are_left(count: int) -> None:
    """Weakened, the old writes would explain everything; what had completed long before is forgotten instead."""
    legal = bulk_register(count, 3, unique=False, cas=0.5)
    last = int(np.argmax(np.where((legal.kind == READ) & (legal.completed < 80 * count), legal.invoked, -1)))
    result = legal.result.copy()
    few = []
    for value in range(5):
        result[last] = value
        broken = replace(legal, result=result)
        answer = decide("cas-register", broken).answer
        if answer.verdict == "illegal":
            assert answer.evidence is not None
            assert answer.evidence.operations[0] == last or count > 50
            few.append(len(answer.evidence.operations))
            rows = sorted(answer.evidence.operations)
            for initial in range(5):
                assert search(broken.take(rows), initial).verdict == "illegal"
    assert len(few) >= 2
    assert max(few) <= 4
