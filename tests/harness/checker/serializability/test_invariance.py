"""What does not matter does not change what is found."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.checker.models.model import Question
from harness.checker.serializability import registers
from harness.history.formats.pairing import Operation, Paired
from tests.harness.checker.serializability.agreement import model_of, types
from tests.harness.checker.serializability.worlds import operation, play
from tests.strategies import transactional_histories
from workloads.op import Outcome


def _found(write: str, history: Paired) -> dict[str, int]:
    return {one.type: one.count for one in model_of(write).judge(history, Question()).found}


def _renamed(one: Operation, origin: int) -> Operation:
    """Other keys, values, processes and times, in the same order."""

    def name(value: object) -> object:
        if type(value) is tuple:
            return tuple(name(element) for element in value)
        return None if value is None else f"v{value}"

    def micros(all_: object) -> object:
        return all_ and tuple((f, ("key", key), name(value)) for f, key, value in all_)  # type: ignore[attr-defined]

    return one._replace(
        process=f"client {one.process}",
        value=micros(one.value),
        result=micros(one.result),
        invoked=7 * one.invoked + origin,
        completed=None if one.completed is None else 7 * one.completed + origin,
    )


@pytest.mark.parametrize("write", ["append", "w"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_names_and_the_unit_of_time(write: str, data: st.DataObject) -> None:
    history = data.draw(transactional_histories(write, "chaos"))
    origin = data.draw(st.sampled_from([10**12, -(10**12)]))
    renamed = Paired(operations=[_renamed(one, origin) for one in history.operations])
    assert _found(write, renamed) == _found(write, history)


@pytest.mark.parametrize("write", ["append", "w"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_nobody_saw_of_what_may_not_have_happened(write: str, data: st.DataObject) -> None:
    history = data.draw(transactional_histories(write, "chaos"))
    count, last = len(history.operations), max(one.invoked for one in history.operations)
    lost = operation(
        count, ((write, "k0", 999), ("r", "k1", None)), process="new", at=(last + 1, None), outcome=Outcome.INFO
    )
    failed = operation(count + 1, ((write, "k0", 998),), process="newer", at=(last + 2, None), outcome=Outcome.FAIL)
    assert _found(write, Paired(operations=[*history.operations, lost, failed])) == _found(write, history)


@pytest.mark.parametrize("write", ["append", "w"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_two_histories_side_by_side_are_as_bad_as_both(write: str, data: st.DataObject) -> None:
    """Of different keys and processes, and at the same time: nothing connects them."""
    one = data.draw(transactional_histories(write, "chaos"))
    two = Paired(operations=[_renamed(o, 0)._replace(invoked=o.invoked, completed=o.completed) for o in one.operations])
    both = sorted([*one.operations, *two.operations], key=lambda o: o.invoked)
    together = Paired(operations=[o._replace(index=index) for index, o in enumerate(both)])
    question = Question(consistency=("serializable",))
    assert types(model_of(write).judge(together, question)) >= {
        name for name in types(model_of(write).judge(one, question)) if not name.endswith(("-process", "-realtime"))
    }


def test_readers_of_a_register_through_barriers_or_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    histories = [play(random.Random(seed), "w", "chaos", keys=2, transactions=10) for seed in range(40)]
    before = [_found("w", history) for history in histories]
    monkeypatch.setattr(registers, "_FEW", 0)
    assert [_found("w", history) for history in histories] == before


def test_the_worlds_differ() -> None:
    """Otherwise the tests of soundness would test nothing."""
    seen: dict[str, set[str]] = {}
    for isolation in ("serializable", "snapshot-isolation", "read-committed", "read-uncommitted", "chaos"):
        seen[isolation] = set()
        for seed in range(150):
            history = play(random.Random(seed), "append", isolation, keys=2, transactions=12)
            seen[isolation] |= types(model_of("append").judge(history, Question()))
    assert seen["serializable"] == set()
    assert "G2-item" in seen["snapshot-isolation"]
    assert not {"G-single-item", "lost-update"} & seen["snapshot-isolation"]
    assert {"G-single-item", "lost-update"} <= seen["read-committed"]
    assert not {"G1a", "G1c"} & seen["read-committed"]
    assert {"G1a", "G1c"} <= seen["read-uncommitted"]
    assert "G0" not in seen["read-uncommitted"]
    assert {"G0", "G1a", "G1b", "dirty-update"} <= seen["chaos"]
