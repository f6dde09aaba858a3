"""One legal history per object, broken in every way that an engine can name: it says what, and blames these operations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checker.linearizability.decide import decide
from harness.checker.linearizability.operations import NIL, Answer
from harness.checker.linearizability.queues import fifo_queue
from tests.harness.checker.linearizability.brute_force import Op, linearizable
from tests.strategies import OBJECTS, encode, histories, initial_code

MODELS = {
    "register": "register",
    "unique-register": "kv",
    "unique-cas-register": "cas-register",
    "cas-register": "cas-register",
    "held-mutex": "mutex",
    "mutex": "mutex",
    "unit-counter": "counter",
    "sequencer": "counter",
    "counter": "counter",
    "grow-only-set": "set",
    "set": "set",
    "unique-queue": "queue",
    "queue": "queue",
    "text": "text",
    "code": "text",
}


def op(kind: str, argument: Any = None, *, sees: Any = None, at: tuple[int, int], expects: Any = None) -> Op:
    return Op(kind, argument, expects, sees, *at)


LEGAL = {
    "unique-cas-register": [
        op("write", 1, at=(0, 5)),
        op("read", sees=1, at=(3, 7)),
        op("cas", 2, expects=1, at=(8, 9)),
        op("read", sees=2, at=(10, 11)),
        op("write", 3, at=(12, 20)),
        op("read", sees=3, at=(15, 22)),
        op("read", sees=2, at=(13, 14)),
    ],
    "unique-queue": [
        op("enqueue", 1, at=(0, 1)),
        op("enqueue", 2, at=(2, 3)),
        op("dequeue", sees=1, at=(4, 5)),
        op("dequeue", sees=2, at=(6, 7)),
        op("empty", at=(7, 8)),
    ],
    "grow-only-set": [
        op("insert", 1, at=(0, 1)),
        op("read", sees=frozenset({1}), at=(2, 3)),
        op("insert", 2, at=(4, 9)),
        op("read", sees=frozenset({1, 2}), at=(5, 6)),
        op("read", sees=frozenset({1, 2}), at=(10, 11)),
    ],
    "sequencer": [
        op("fetch-and-add", 1, sees=0, at=(0, 1)),
        op("fetch-and-add", 1, sees=1, at=(2, 3)),
        op("read", sees=2, at=(4, 5)),
    ],
    "unit-counter": [
        op("add", 1, at=(0, 1)),
        op("add", 1, at=(2, 9)),
        op("read", sees=1, at=(3, 4)),
        op("read", sees=2, at=(5, 6)),
    ],
    "held-mutex": [
        op("acquire", 1, at=(0, 1)),
        op("release", 1, at=(2, 5)),
        op("acquire", 2, at=(4, 6)),
        op("release", 2, at=(7, 8)),
    ],
}

DEFECTS: list[tuple[str, int, dict[str, Any], str]] = [
    ("unique-cas-register", 1, {"result": 9}, "a value that nobody wrote"),
    ("unique-cas-register", 2, {"expected": 9}, "found a value that nobody wrote"),
    ("unique-cas-register", 4, {"kind": "cas", "expected": 1}, "both replaced one and the same value"),
    ("unique-cas-register", 2, {"expected": 2}, "each need another one of them to have come first"),
    ("unique-cas-register", 5, {"invoked": 8, "completed": 9}, "its value came later"),
    ("unique-cas-register", 3, {"result": 1}, "its value came later"),
    ("unique-cas-register", 3, {"result": None}, "exclude each other"),
    ("unique-cas-register", 6, {"invoked": 23, "completed": 24}, "exclude each other"),
    ("unique-queue", 2, {"result": 7}, "a value that nobody enqueued"),
    ("unique-queue", 3, {"result": 1}, "returned the same value"),
    ("unique-queue", 2, {"invoked": -2, "completed": -1}, "had completed before enqueue"),
    ("unique-queue", 2, {"invoked": 8, "completed": 9}, "took the second one"),
    ("unique-queue", 4, {"invoked": 2, "completed": 5}, "never empty meanwhile"),
    ("unique-queue", 4, {"invoked": 5, "completed": 5}, "never empty meanwhile"),
    ("grow-only-set", 3, {"result": frozenset({1, 5})}, "that nobody inserted"),
    ("grow-only-set", 1, {"result": frozenset({2})}, "had completed before|each lack an element"),
    ("grow-only-set", 4, {"result": frozenset({1})}, "reads show it came later"),
    ("sequencer", 1, {"result": 0}, "got the same value"),
    ("sequencer", 2, {"result": 1}, "got what came before"),
    ("sequencer", 2, {"result": 3}, "shows 3 increments, 2 were invoked"),
    ("unit-counter", 3, {"result": 3}, "none can have been number 3"),
    ("unit-counter", 2, {"result": 0}, "more increments had completed than reads show"),
    ("unit-counter", 3, {"result": 0}, "returned less than read"),
    ("held-mutex", 1, {"invoked": 7, "completed": 9}, "both held it"),
]


@pytest.mark.parametrize("name", LEGAL)
def test_without_a_defect_there_is_none(name: str) -> None:
    decision = decide(MODELS[name], encode(LEGAL[name]), initial_code(name))
    assert decision.answer.verdict == "legal"
    assert decision.answer.engine != "frontier"


@pytest.mark.parametrize(("name", "row", "change", "told"), DEFECTS)
def test_a_defect_is_named(name: str, row: int, change: dict[str, Any], told: str) -> None:
    ops = list(LEGAL[name])
    ops[row] = ops[row]._replace(**change)
    answer = decide(MODELS[name], encode(ops), initial_code(name)).answer
    assert answer.verdict == "illegal"
    assert answer.engine != "frontier"
    assert answer.evidence is not None
    assert any(part in answer.evidence.sentence for part in told.split("|")), answer.evidence.sentence
    assert not linearizable([ops[blamed] for blamed in answer.evidence.operations], OBJECTS[name].initial)


def blamed(model: str, ops: list[Op], initial: int = NIL) -> tuple[tuple[int, ...], str]:
    evidence = decide(model, encode(ops), initial).answer.evidence
    assert evidence is not None
    return evidence.operations, evidence.sentence


def test_counters_that_begin_with_something_are_told_in_their_own_numbers() -> None:
    reads = [op("read", sees=7, at=(0, 1)), op("read", sees=6, at=(0, 1))]
    assert blamed("counter", reads, 7)[0] == (1,)
    late = Op("fetch-and-add", 1, None, "unseen", 6, None, certain=False)
    rows, sentence = blamed("counter", [late, op("read", sees=7, at=(0, 1)), op("read", sees=8, at=(2, 5))], 7)
    assert rows[0] == 2
    assert sentence.startswith("value 7 was passed when operation #2 completed")


def test_a_value_that_left_in_the_moment_when_a_dequeue_found_nothing_does_not_contradict_it() -> None:
    ops = [
        op("enqueue", 1, at=(0, 1)),
        op("dequeue", sees=1, at=(6, 7)),
        op("enqueue", 2, at=(3, 4)),
        op("dequeue", sees=2, at=(9, 10)),
        op("empty", at=(2, 6)),
    ]
    answer = fifo_queue(encode(ops))
    assert isinstance(answer, Answer)
    assert answer.evidence is not None
    assert sorted(answer.evidence.operations) == [0, 1, 2, 3, 4]
    assert decide("queue", encode([ops[0], ops[1], ops[4]])).answer.verdict == "legal"


def test_all_ends_of_two_chains_that_exclude_each_other_are_blamed() -> None:
    """Only the compare-and-set says that 1 was written before 9 was read for the last time."""
    ops = [
        op("cas", 2, expects=1, at=(0, 4)),
        op("write", 1, at=(3, 20)),
        op("write", 9, at=(0, 1)),
        op("read", sees=9, at=(11, 12)),
    ]
    assert sorted(blamed("cas-register", ops)[0]) == [0, 1, 2, 3]


def test_values_may_be_far_from_each_other() -> None:
    far = 10**15
    ops = [op("write", 1, at=(0, 1)), op("write", far, at=(2, 3)), op("read", sees=far, at=(4, 5))]
    assert decide("kv", encode(ops)).answer.verdict == "legal"
    assert blamed("kv", [*ops[:2], op("read", sees=1, at=(4, 5))])[1].startswith(
        "what write #0 began and what write #1"
    )


@given(st.sampled_from(sorted(OBJECTS)).flatmap(lambda name: st.tuples(st.just(name), histories(name))))
@settings(max_examples=300, deadline=None)
def test_whatever_engine_decides_agrees_with_the_definition(case: tuple[str, list[Op]]) -> None:
    name, ops = case
    answer = decide(MODELS[name], encode(ops), initial_code(name)).answer
    assert answer.verdict == ("legal" if linearizable(ops, OBJECTS[name].initial) else "illegal")
