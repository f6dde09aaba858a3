"""Which engine decides, and many objects at once."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checker.linearizability.decide import EXACT, decide, decide_all
from harness.checker.linearizability.frontier import Budget, search
from harness.checker.linearizability.operations import NIL, UNSEEN, BadOperations, Operations
from tests.harness.checker.linearizability.brute_force import Op
from tests.strategies import encode


def write(value: int, invoked: int, completed: int) -> Op:
    return Op("write", value, invoked=invoked, completed=completed)


def read(value: int | None, invoked: int, completed: int) -> Op:
    return Op("read", result=value, invoked=invoked, completed=completed)


UNIQUE = encode([write(1, 0, 1), read(1, 2, 3)])
REPEATED = encode([write(1, 0, 1), write(1, 2, 3), read(1, 4, 5)])
STALE = encode([write(1, 0, 1), read(None, 2, 3)])
STALE_REPEATED = encode([write(1, 0, 1), write(1, 2, 3), read(None, 4, 5)])


def hard(writes: int = 20) -> Operations:
    ops = [write(number % (writes - 1), 0, 10) for number in range(writes)]
    ops += [read(number, 11, 12 + number) for number in range(writes - 1)]
    return encode(ops)


def test_an_exact_engine_decides_where_its_precondition_holds_and_else_the_search_says_why() -> None:
    assert decide("register", UNIQUE).answer.engine == "zones"
    decision = decide("register", REPEATED)
    assert (decision.answer.verdict, decision.answer.engine) == ("legal", "frontier")
    assert decision.refused is not None
    assert "every value is written once" in decision.refused


def test_a_failed_compare_and_set_without_what_it_found_needs_the_search() -> None:
    decision = decide("cas-register", encode([write(1, 0, 1), Op("failed-cas", 2, 1, invoked=2, completed=3)]))
    assert (decision.answer.verdict, decision.answer.engine) == ("illegal", "frontier")


def test_a_plain_violation_is_found_beside_a_key_that_is_too_hard() -> None:
    decisions = decide_all("kv", [hard(), STALE_REPEATED, UNIQUE], budget=Budget(steps=20_000))
    assert decisions.verdict == "illegal"
    assert decisions.of[1].answer.verdict == "illegal"
    assert 0 not in decisions.of


def test_all_objects_are_decided_if_all_are_asked_for() -> None:
    decisions = decide_all("kv", [STALE, UNIQUE, STALE_REPEATED], find_all=True)
    assert {index: one.answer.verdict for index, one in decisions.of.items()} == {
        0: "illegal",
        1: "legal",
        2: "illegal",
    }


def test_all_that_are_searched_are_decided_if_all_are_asked_for() -> None:
    decisions = decide_all("kv", [STALE_REPEATED, STALE_REPEATED], find_all=True)
    assert [decisions.of[index].answer.verdict for index in (0, 1)] == ["illegal", "illegal"]


def in_turn(*steps: tuple[Any, ...]) -> list[Op]:
    """(kind, argument, expected, result)"""
    return [Op(*step, invoked=2 * place, completed=2 * place + 1) for place, step in enumerate(steps)]


WROTE = ("write", 1)


@pytest.mark.parametrize(
    ("initial", "before", "lawful", "not_so"),
    [
        (NIL, [WROTE], ("read", None, None, 1), ("read", None, None, 2)),
        (NIL, [WROTE], ("cas", 2, 1), ("cas", 2, 3)),
        (NIL, [WROTE, ("cas", 2, 1)], ("read", None, None, 2), ("read", None, None, 1)),
        (NIL, [WROTE], ("failed-cas", 2, 3), ("failed-cas", 2, 1)),
        (NIL, [("acquire", 1), ("release", 1)], ("acquire", 2), ("release", 1)),
        (NIL, [("acquire", 1)], ("release", 1), ("acquire", 1)),
        (0, [("add", 2), ("add", 3)], ("read", None, None, 5), ("read", None, None, 6)),
        (0, [("fetch-and-add", 2, None, 0)], ("fetch-and-add", 3, None, 2), ("fetch-and-add", 3, None, 0)),
        (NIL, [("insert", 1), ("remove", 2)], ("contains", 1, None, True), ("contains", 2, None, True)),
        (NIL, [("insert", 2), ("insert", 1), ("insert", 1)], *(("read", None, None, frozenset(s)) for s in ({1, 2}, {1}))),
        (NIL, [("insert", 1), ("insert", 2), ("remove", 1)], *(("read", None, None, frozenset(s)) for s in ({2}, {1, 2}))),
        (NIL, [], ("empty",), ("dequeue", None, None, 0)),
        (NIL, [("enqueue", 0), ("enqueue", 1)], ("dequeue", None, None, 0), ("dequeue", None, None, 1)),
        (NIL, [("enqueue", 0), ("enqueue", 1), ("dequeue", None, None, "unseen")], ("dequeue", None, None, 1), ("empty",)),
        (NIL, [("append", "a"), ("append", "b")], ("read", None, None, "ab"), ("read", None, None, "ba")),
    ],
)  # fmt: skip
def test_what_each_kind_of_operation_does(
    initial: int, before: list[tuple[Any, ...]], lawful: tuple[Any, ...], not_so: tuple[Any, ...]
) -> None:
    assert search(encode(in_turn(*before, lawful)), initial).verdict == "legal"
    assert search(encode(in_turn(*before, not_so)), initial).verdict == "illegal"


def test_a_set_that_was_only_found_empty_is_legal() -> None:
    nothing = Op("read", result=frozenset(), invoked=0, completed=1)
    unchanged = Op("remove", 1, invoked=2, completed=3)
    for ops in ([nothing], [nothing, unchanged]):
        assert search(encode(ops)).verdict == "legal"


def test_more_contents_than_there_was_room_for() -> None:
    """All subsets of what is added at the same time."""
    adds = [Op("insert", number, invoked=0, completed=10) for number in range(7)]
    for found, verdict in ((range(7), "legal"), (range(6), "illegal")):
        read = Op("read", result=frozenset(found), invoked=11, completed=12)
        assert search(encode([*adds, read])).verdict == verdict


@pytest.mark.parametrize(("lost", "verdict"), [(1, "illegal"), (2, "legal")])
def test_lost_operations_that_are_alike_take_effect_once_each(lost: int, verdict: str) -> None:
    writes = [Op("write", 1, invoked=0, completed=None, certain=False)] * lost
    assert search(encode([*writes, read(1, 2, 3), write(2, 4, 5), read(2, 6, 7), read(1, 8, 9)])).verdict == verdict


def test_a_set_may_begin_with_a_list() -> None:
    found = encode([Op("read", result=frozenset({1, 2}), invoked=0, completed=1)])
    assert search(found, 0).verdict == "legal"
    assert search(found).verdict == "illegal"


def test_the_last_state_of_a_text_is_told_in_order() -> None:
    appends = [Op("append", text, invoked=2 * place, completed=2 * place + 1) for place, text in enumerate("ab")]
    found = search(encode([*appends, Op("read", result="b", invoked=4, completed=5)]))
    assert found.evidence is not None
    assert [one.state for one in found.evidence.configurations] == [UNSEEN]
    both = [Op("read", result="ab", invoked=4, completed=5), Op("read", result="b", invoked=6, completed=7)]
    found = search(encode([*appends, *both]))
    assert found.evidence is not None
    assert [one.state for one in found.evidence.configurations] == [[ord("a"), ord("b")]]


def test_one_object_without_an_answer_leaves_all_without_one() -> None:
    decisions = decide_all("kv", [hard(), UNIQUE], budget=Budget(steps=1000))
    assert decisions.verdict == "unknown"
    assert "1000 steps" in decisions.of[0].answer.reason


@pytest.mark.parametrize("model", EXACT)
def test_nothing_is_legal(model: str) -> None:
    assert decide(model, encode([])).answer.verdict == "legal"


@pytest.mark.parametrize(
    ("op", "told"),
    [
        (Op("read", invoked=5, completed=4), "completed before it was invoked"),
        (Op("read", invoked=5, completed=6, certain=False), "must be OPEN"),
    ],
)
def test_what_is_no_history_is_named_by_its_row(op: Op, told: str) -> None:
    with pytest.raises(BadOperations, match=f"operation 1: .*{told}"):
        encode([read(None, 0, 1), op])
