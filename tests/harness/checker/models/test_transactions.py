"""list-append and rw-register as models: what they take, what they refuse, and histories as files have them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.checker.models.model import Judgement, Model, Question
from harness.checker.models.transactions import LIST_APPEND, RW_REGISTER
from harness.checker.serializability.consistency import UnknownConsistency
from harness.history.formats.pairing import Paired, pair
from harness.history.formats.reading import read_events
from reports.verdict import Validity
from tests.harness.checker.serializability.shorthand import in_turn, one_process, together
from tests.harness.checker.serializability.worlds import operation
from workloads.op import Outcome


def _judged(model: Model, history: Paired, **question: Any) -> Judgement:
    return model.judge(history, Question(**question))


def test_they_know_their_own() -> None:
    lists, registers = together("ax1", "rx1"), together("wx1", "rx1")
    assert LIST_APPEND.fits(lists)
    assert RW_REGISTER.fits(registers)
    assert not LIST_APPEND.fits(registers)
    assert not RW_REGISTER.fits(lists)
    assert not LIST_APPEND.fits(together("rx1"))
    assert not LIST_APPEND.fits(Paired(operations=[lists.operations[0]._replace(f="read")]))
    assert not LIST_APPEND.fits(Paired())


@pytest.mark.parametrize("history", [Paired(), together("!ax1"), together("?ax1")])
def test_a_history_in_which_nothing_succeeded_is_not_valid(history: Paired) -> None:
    judgement = _judged(LIST_APPEND, history)
    assert (judgement.verdict, judgement.reason) == (Validity.UNKNOWN, "no transaction succeeded")


def test_an_unknown_consistency_model_is_refused_whatever_the_history() -> None:
    with pytest.raises(UnknownConsistency, match="known are read-uncommitted"):
        _judged(LIST_APPEND, Paired(), consistency=("linearisable",))


def test_values_that_are_not_unique_prove_nothing_valid_but_violations_stay() -> None:
    twice = _judged(LIST_APPEND, together("ax1", "ax1", "rx1"))
    assert twice.verdict == Validity.UNKNOWN
    assert "1 was appended to x more than once" in twice.reason
    assert _judged(LIST_APPEND, together("ax1", "ax1", "rx1", "ay1 rz", "az1 ry")).verdict == Validity.INVALID
    registers = _judged(RW_REGISTER, together("wx1", "wx1", "rx1"))
    assert registers.verdict == Validity.UNKNOWN
    assert "1 was written to x more than once" in registers.reason


def test_a_value_of_a_failed_transaction_may_be_tried_again() -> None:
    for again in (("!ax1", "ax1", "rx1"), ("ax1", "!ax1", "rx1")):
        assert _judged(LIST_APPEND, together(*again)).found == ()
        assert _judged(RW_REGISTER, together(*(one.replace("a", "w") for one in again))).found == ()


def test_an_initial_value_of_registers() -> None:
    history = in_turn("rx7", "wx1", "rx1")
    assert [found.type for found in _judged(RW_REGISTER, history).found] == ["phantom-value"]
    assert _judged(RW_REGISTER, history, initial=7).found == ()
    late = in_turn("wx1", "rx7")
    assert _judged(RW_REGISTER, late, initial=7).verdict == Validity.INVALID


@pytest.mark.parametrize(
    ("micros", "words"),
    [
        ((("cas", "x", 1),), "[cas x 1] is neither [r key value] nor [append key value]"),
        ((("append", "x"),), "[append x] is neither"),
        (("append",), "append is neither"),
        (((),), "[] is neither"),
        (None, "a transaction is a list of micro-operations"),
        ((("r", "x", 1),), "read 1 from x: that is no list"),
        ((("append", "x", {}),), "unhashable"),
    ],
)
def test_what_is_no_transaction_is_a_bad_history(micros: Any, words: str) -> None:
    good = together("ax1").operations[0]
    bad = operation(5, (), at=(0, 1))._replace(value=micros, result=micros)
    judgement = _judged(LIST_APPEND, Paired(operations=[good, bad]))
    assert judgement.verdict == Validity.INVALID
    (found,) = judgement.found
    assert (found.type, found.ops) == ("bad-history", (5,))
    assert words in found.sentence


def test_what_was_asked_for_in_vain_has_to_be_a_transaction_too() -> None:
    lost = operation(5, (), at=(0, None), outcome=Outcome.INFO)._replace(value=7, result=None)
    (found,) = _judged(LIST_APPEND, Paired(operations=[*together("ax1").operations, lost])).found
    assert (found.type, found.ops) == ("bad-history", (5,))


def test_an_answer_that_cannot_be_compared_is_a_bad_history() -> None:
    reads = operation(3, (("r", "x", ({}, {})),), at=(0, 1))
    judgement = _judged(LIST_APPEND, Paired(operations=[*together("ax1").operations, reads]))
    assert [(found.type, found.ops) for found in judgement.found] == [("bad-history", (3,))]


def test_a_success_without_an_answer_says_what_it_wrote_and_not_what_it_read() -> None:
    history = in_turn("ax1 ry", "rx1 ry")
    first = history.operations[0]._replace(result=None)
    assert _judged(LIST_APPEND, Paired(operations=[first, history.operations[1]])).found == ()
    assert first.outcome is Outcome.OK


def test_sessions_without_real_time() -> None:
    history = one_process("wx1", "rx_")
    assert _judged(RW_REGISTER, history, consistency=("serializable",)).verdict == Validity.VALID
    assert _judged(RW_REGISTER, history, consistency=("strong-session-serializable",)).verdict == Validity.INVALID


_PAPER = """
{:index 1, :type :invoke, :process 0, :value [[:append x 1] [:append y 1]]}
{:index 2, :type :ok,     :process 0, :value [[:append x 1] [:append y 1]]}
{:index 3, :type :invoke, :process 1, :value [[:append x 2] [:r y]]}
{:index 4, :type :ok,     :process 1, :value [[:append x 2] [:r y []]]}
{:index 5, :type :invoke, :process 2, :value [[:r x]]}
{:index 6, :type :ok,     :process 2, :value [[:r x [1 2]]]}
"""


@pytest.mark.parametrize("completions_only", [False, True])
def test_a_file(tmp_path: Path, completions_only: bool) -> None:
    lines = [line for line in _PAPER.splitlines() if not (completions_only and ":invoke" in line)]
    path = tmp_path / "history.edn"
    path.write_text("\n".join(lines))
    history = pair(read_events(path))
    assert LIST_APPEND.fits(history)
    judgement = _judged(LIST_APPEND, history)
    assert [found.type for found in judgement.found] == ["G-single-item"]
    assert judgement.engine == "dependency-graph"


def test_problems_of_the_file_are_a_bad_history(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(_PAPER.replace(":index 6", ":index 2"))
    judgement = _judged(LIST_APPEND, pair(read_events(path)))
    assert [found.type for found in judgement.found] == ["bad-history"]


_PREPARED = """
from harness.checker.models import transactions
from harness.checker.serializability import kernels
transactions.prepare()
def stats():
    mine = [one for one in vars(kernels).values() if hasattr(one, "stats")]
    return {one.__name__: (sum(one.stats.cache_hits.values()), sum(one.stats.cache_misses.values())) for one in mine}
before = stats()
from tests.harness.checker.serializability.agreement import random_history, model_of
from harness.checker.models.model import Question
from harness.checker.serializability import cycles
cycles._EDGES = 3  # a search that gives up, as large histories have them
for seed in range(40):
    for write in ("append", "w"):
        model_of(write).judge(random_history(seed, write), Question())
assert stats() == before, (before, stats())
print(sum(misses for _, misses in before.values()))
"""


def test_after_preparing_nothing_is_compiled_and_another_process_loads_it(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    told = [
        subprocess.run([sys.executable, "-c", _PREPARED], check=True, env=environment, capture_output=True, text=True)
        for _ in range(2)
    ]
    first, second = (int(one.stdout) for one in told)
    assert first == 5
    assert second == 0
