"""Leader epochs and fencing: at most one leader per epoch, and nothing is accepted from a leader that a later one fenced.

    {:process 1 :f :elect :value 3} -> ok            process 1 leads epoch 3;  [3 "b2"]: b2 does
    {:process 1 :f :write :value [3 "x"]} -> ok      a write under epoch 3 was accepted
    {:process 1 :f :write :value [3 "y"]} -> fail, :error [:fenced 4]       ... was refused, because epoch 4 is there

An election of unknown outcome took place iff something was accepted under its epoch and nobody else was elected in it.
A write that was refused without naming an epoch tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from harness.checker.linearizability.epochs import ACCEPTED, ELECTED, ENGINE, FENCED, epochs
from harness.checker.linearizability.operations import OPEN
from harness.checker.models.bad_history import Misfit, bad_history, unknown_functions
from harness.checker.models.model import Found, Judgement, Question
from harness.checker.models.objects import by_key, known, numbered, of_key
from harness.checker.models.values import Values, shown
from harness.history.formats.pairing import Operation, Paired
from reports.verdict import Validity
from workloads.op import Outcome

_MOST = 1 << 61
_NAMED = re.compile(rf"\b{str(_MOST)[:9]}\d{{10}}\b")  # numbers that stand for names begin at _MOST


class _Row(NamedTuple):
    kind: int
    epoch: int
    leader: Any
    operation: Operation


class EpochModel:
    name = "epoch"
    functions = frozenset({"elect", "write"})

    def fits(self, history: Paired) -> bool:
        found = {operation.f for operation in history.operations}
        return "elect" in found and found <= self.functions

    def judge(self, history: Paired, question: Question) -> Judgement:
        strange = unknown_functions(self.name, self.functions, history.operations)
        if strange is not None:
            return strange
        found = []
        for key, operations in by_key(history.operations):
            try:
                anomaly = _anomaly(key, operations)
            except Misfit as error:
                return bad_history(str(error), error.operation)
            found += [] if anomaly is None else [anomaly]
        if not found:
            return Judgement(verdict=Validity.VALID, engine=ENGINE)
        told = Found(type=found[0].type, count=len(found), sentence=found[0].sentence, ops=found[0].ops)
        return Judgement(verdict=Validity.INVALID, engine=ENGINE, found=(told,))


EPOCH = EpochModel()


def _anomaly(key: Any, operations: Sequence[Operation]) -> Found | None:
    rows = _rows(operations)
    leaders = Values()
    answer = epochs(
        np.array([row.kind for row in rows], np.int64),
        np.array([row.epoch for row in rows], np.int64),
        np.array([_number(row.leader, leaders) for row in rows], np.int64),
        np.array([row.operation.invoked for row in rows], np.int64),
        np.array([OPEN if row.operation.completed is None else row.operation.completed for row in rows], np.int64),
    )
    if answer.evidence is None:
        return None
    blamed = [row.operation for row in rows]
    sentence = of_key(key) + _with_names(numbered(answer.evidence.sentence, blamed), leaders)
    ops = tuple(blamed[row].index for row in answer.evidence.operations)
    return Found(type="stale-leader" if "stale" in sentence else "epoch-violation", count=1, sentence=sentence, ops=ops)


def _with_names(sentence: str, leaders: Values) -> str:
    return _NAMED.sub(lambda found: shown(leaders.value(int(found[0]) - _MOST)), sentence)


def _number(leader: Any, leaders: Values) -> int:
    """Numbers stay what they are, since sentences tell them."""
    return leader if type(leader) is int and 0 <= leader < _MOST else _MOST + leaders.number(leader)


def _rows(operations: Sequence[Operation]) -> list[_Row]:
    rows: list[_Row] = []
    perhaps: list[_Row] = []
    for operation in operations:
        if operation.f == "elect" and operation.outcome is not Outcome.FAIL:
            epoch, leader = _election(operation)
            (rows if known(operation) else perhaps).append(_Row(ELECTED, epoch, leader, operation))
        elif operation.f == "write" and known(operation):
            rows.append(_Row(ACCEPTED, _epoch(operation, operation.value), None, operation))
        elif operation.f == "write" and operation.outcome is Outcome.FAIL and _fenced_by(operation) is not None:
            rows.append(_Row(FENCED, _epoch(operation, _fenced_by(operation)), None, operation))
    elected = {row.epoch for row in rows if row.kind == ELECTED}
    needed = {row.epoch for row in rows} - elected
    for row in perhaps:
        if row.epoch in needed:
            needed.discard(row.epoch)
            rows.append(row)
    return rows


def _election(operation: Operation) -> tuple[int, Any]:
    value = operation.value
    if isinstance(value, tuple) and len(value) == 2:
        return _epoch(operation, value), value[1]
    return _epoch(operation, value), operation.process


def _epoch(operation: Operation, value: Any) -> int:
    epoch = value[0] if isinstance(value, tuple) and value else value
    if type(epoch) is not int or not 0 <= epoch < _MOST:
        raise Misfit(operation, "an epoch is a whole number from 0 to 2^61")
    return epoch


def _fenced_by(operation: Operation) -> Any:
    error = operation.error
    return error[1] if isinstance(error, tuple) and len(error) == 2 and error[0] == "fenced" else None
