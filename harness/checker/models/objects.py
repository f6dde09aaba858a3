"""Models of one kind of object (a register, a set, a lock ...), many objects to a history: linearizable or not.

    {:f :write :key 7 :value 3}  ->  object 7, row WRITE argument 0 (the number of 3), invoked and completed at its positions

Each model says how one op becomes a row (`Build`). What is the same for all: ops are told apart by their key, since
objects are independent; one that failed did not happen; one of unknown outcome may have; `decide_all` answers for all
objects; and the few rows that it blames become ops of the history again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from harness.checker.linearizability.decide import Decision, decide_all
from harness.checker.linearizability.frontier import Budget
from harness.checker.linearizability.operations import (
    NIL,
    OPEN,
    Evidence,
    Operations,
    Verdict,
    lists_of,
)
from harness.checker.models.bad_history import Misfit, bad_history, unknown_functions
from harness.checker.models.model import Found, Judgement, Question
from harness.checker.models.values import Values, comparable, shown, shown_all
from harness.history.formats.pairing import Operation, Paired
from reports.verdict import Validity
from workloads.op import Outcome

NONLINEARIZABLE = "nonlinearizable"
SECONDS = 300.0  # of search, for all objects of a history together
_LEAST_SECONDS = 5.0  # for one object, however many there are
_STEPS = 10**9
_BYTES = 2**30
_ROW = re.compile(r"#(\d+)")


@dataclass
class Rows:
    """The operations of one object, as its model adds them."""

    key: Any
    values: Values
    engine: str = ""  # of `decide.EXACT`, when it is not the model's own
    initial: int = NIL
    operations: list[Operation] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)  # anomalies that its model saw without an engine
    _columns: tuple[list[int], ...] = field(default_factory=lambda: ([], [], [], []))
    _lists: list[list[int]] = field(default_factory=list)

    def add(
        self, operation: Operation, kind: int, *, argument: int = NIL, expected: int = NIL, result: int = NIL
    ) -> None:
        for column, value in zip(self._columns, (kind, argument, expected, result), strict=True):
            column.append(value)
        self.operations.append(operation)

    def add_list(self, symbols: Iterable[int]) -> int:
        """Its number; equal lists need not have the same one."""
        self._lists.append([*symbols])
        return len(self._lists) - 1

    def as_operations(self) -> Operations:
        kind, argument, expected, result = (np.array(column, np.int64) for column in self._columns)
        count = len(self.operations)
        completed = (OPEN if o.completed is None else o.completed for o in self.operations)
        return Operations(
            kind=kind,
            argument=argument,
            expected=expected,
            result=result,
            invoked=np.fromiter((o.invoked for o in self.operations), np.int64, count),
            completed=np.fromiter(completed, np.int64, count),
            certain=np.fromiter((o.completed is not None for o in self.operations), np.bool_, count),
            lists=lists_of(self._lists),
        )

    def shown(self, state: int | list[int]) -> str:
        """A state that a search had reached."""
        if isinstance(state, list):
            return "[" + " ".join(shown(self.values.value(symbol)) for symbol in state[:20]) + "]"
        return shown(self.values.value(state)) if self.values.knows(state) else "one that nobody read"


Build = Callable[[Rows, Sequence[Operation], Question], None]  # raises Misfit


@dataclass(frozen=True, kw_only=True)
class ObjectModel:
    """A model whose objects are judged one by one. `engine` is the name of its exact engines in `decide.EXACT`."""

    name: str
    functions: frozenset[str]
    engine: str
    build: Build
    looks_like: Callable[[Paired], bool]

    def fits(self, history: Paired) -> bool:
        return {operation.f for operation in history.operations} <= self.functions and self.looks_like(history)

    def judge(self, history: Paired, question: Question) -> Judgement:
        strange = unknown_functions(self.name, self.functions, history.operations)
        if strange is not None:
            return strange
        objects: list[Rows] = []
        for key, operations in by_key(history.operations):
            rows = Rows(key, Values(), engine=self.engine)
            try:
                self.build(rows, operations, question)
            except Misfit as error:
                return bad_history(str(error), error.operation)
            objects.append(rows)
        return _judged(objects, question)


def by_key(operations: Sequence[Operation]) -> Iterable[tuple[Any, list[Operation]]]:
    """The ops of each object, objects in the order in which they are first met."""
    found: dict[Any, tuple[Any, list[Operation]]] = {}
    for operation in operations:
        key = operation.key if type(operation.key) in (int, str, type(None)) else comparable(operation.key)
        found.setdefault(key, (operation.key, []))[1].append(operation)
    return found.values()


def happened(operations: Iterable[Operation]) -> Iterable[Operation]:
    """Those that did, or may have."""
    return (operation for operation in operations if operation.outcome is not Outcome.FAIL)


def known(operation: Operation) -> bool:
    return operation.outcome is Outcome.OK


def of_key(key: Any) -> str:
    """How a sentence about one of many objects begins."""
    return "" if key is None else f"key {shown(key)}: "


def numbered(sentence: str, rows: Sequence[Operation]) -> str:
    """An engine's sentence with the numbers that the history has for its ops."""
    return _ROW.sub(lambda found: str(rows[int(found[1])].index), sentence)


def _judged(objects: list[Rows], question: Question) -> Judgement:
    decided: list[tuple[Rows, Operations, Decision]] = []
    verdicts: set[Verdict] = set()
    for engine, initial in dict.fromkeys((rows.engine, rows.initial) for rows in objects):
        alike = [rows for rows in objects if (rows.engine, rows.initial) == (engine, initial)]
        columns = [rows.as_operations() for rows in alike]
        seconds = max(_LEAST_SECONDS, SECONDS / len(objects))
        budget = Budget(steps=_STEPS, bytes=_BYTES, seconds=seconds)
        found = decide_all(engine, columns, initial, budget, find_all=question.find_all)
        verdicts.add(found.verdict)
        decided += [(alike[index], columns[index], decision) for index, decision in sorted(found.of.items())]
        if found.verdict == "illegal" and not question.find_all:
            break
    illegal = [one for one in decided if one[2].answer.verdict == "illegal"]
    seen = tuple(found for rows in objects for found in rows.found)
    engines = "+".join(sorted({decision.answer.engine for _, _, decision in illegal or decided})) or "none"
    if illegal or seen:
        nonlinearizable = (_found(illegal),) if illegal else ()
        return Judgement(verdict=Validity.INVALID, engine=engines, found=(*nonlinearizable, *_merged(seen)))
    if "unknown" in verdicts:
        return Judgement(verdict=Validity.UNKNOWN, engine=engines, reason=_unknown(decided))
    return Judgement(verdict=Validity.VALID, engine=engines)


def _found(illegal: Sequence[tuple[Rows, Operations, Decision]]) -> Found:
    best = min((_explained(rows, decision) for rows, _, decision in illegal), key=lambda explained: len(explained[1]))
    return Found(type=NONLINEARIZABLE, count=len(illegal), sentence=best[0], ops=best[1])


def _merged(seen: Sequence[Found]) -> Iterable[Found]:
    """One per type: the first, with the counts of all."""
    first = {found.type: found for found in reversed(seen)}
    for kind, found in first.items():
        yield replace(found, count=sum(other.count for other in seen if other.type == kind))


def _explained(rows: Rows, decision: Decision) -> tuple[str, tuple[int, ...]]:
    """In a sentence and a few ops."""
    answer = decision.answer
    assert answer.evidence is not None
    evidence = answer.evidence
    sentence = of_key(rows.key) + numbered(evidence.sentence, rows.operations) + _last_states(rows, evidence)
    return sentence, tuple(rows.operations[row].index for row in evidence.operations)


def _last_states(rows: Rows, evidence: Evidence) -> str:
    if not evidence.configurations:
        return ""
    states = shown_all(rows.shown(one.state) for one in evidence.configurations)
    return f"; just before, the state can only have been {states}"


def _unknown(decided: Sequence[tuple[Rows, Operations, Decision]]) -> str:
    """What was spent, on the object that cost most."""
    open_ = [one for one in decided if one[2].answer.verdict == "unknown"]
    rows, operations, decision = max(open_, key=lambda one: one[2].answer.spent)
    spent = decision.answer.spent
    what = f"{len(operations)} ops" + ("" if rows.key is None else f" of key {shown(rows.key)}")
    others = f"; {len(open_) - 1} more such keys" if len(open_) > 1 else ""
    return (
        f"{decision.answer.reason}: {spent.steps} steps, {spent.bytes / 2**20:.0f} MiB and {spent.seconds:.1f} s on {what}"
        f" ({decision.refused}){others}"
    )
