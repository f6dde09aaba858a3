"""Which engine decides a model, and many objects of one model at once.

An exact polynomial engine goes first; it refuses a history whose precondition does not hold, and then the frontier
search decides within its budget. The answer names the engine, and why the exact one was not it:

    decide("register", operations)      ->  Decision(answer=legal by zones, refused=None)
    decide("register", the same value twice)  ->  Decision(answer=legal by frontier, refused="every value is ...")

Objects are independent (Herlihy and Wing: linearizability is local), so a history of many keys is illegal iff one key
is. Cheapest keys first, and in rounds of growing budgets, so that one hard key cannot keep a plain violation in
another one from being found.

What is illegal comes with little evidence: the 2 to 4 operations that a sweep names; of a search the completion that
nothing explains, what was possible just before, and the fewest operations that `shrink` finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from harness.checker.linearizability.counters import sequencer, unit_counter
from harness.checker.linearizability.frontier import Budget, Search
from harness.checker.linearizability.mutexes import mutex
from harness.checker.linearizability.operations import NIL, Answer, Operations, Refused, Verdict
from harness.checker.linearizability.queues import fifo_queue
from harness.checker.linearizability.sets import grow_only_set
from harness.checker.linearizability.shrink import FEW, shrink
from harness.checker.linearizability.zones import zones

Exact = Callable[[Operations, int], Answer | Refused]

EXACT: Mapping[str, tuple[Exact, ...]] = {
    "register": (zones,),
    "cas-register": (zones,),
    "kv": (zones,),
    "text": (),
    "mutex": (mutex,),
    "set": (grow_only_set,),
    "counter": (unit_counter, sequencer),
    "queue": (fifo_queue,),
}
_ROUNDS = (10**4, 10**6)  # steps per key before the whole budget
_EXPLAINING = 2.0  # seconds for looking for less evidence


class Decision(NamedTuple):
    answer: Answer
    refused: str | None = None  # the precondition that kept the exact engine from deciding


class Decisions(NamedTuple):
    """Of many objects; after the first illegal one the others stay undecided unless all were asked for."""

    verdict: Verdict
    of: dict[int, Decision]


def decide(model: str, operations: Operations, initial: int = NIL, budget: Budget | None = None) -> Decision:
    """One object. `initial`: as `frontier.Search` has it; a counter that begins at 0 begins at 0, not at `NIL`."""
    decision = _decide(model, operations, initial, budget)
    return _explained(model, operations, initial, decision, _EXPLAINING)


def decide_all(
    model: str,
    objects: Sequence[Operations],
    initial: int = NIL,
    budget: Budget | None = None,
    *,
    find_all: bool = False,
) -> Decisions:
    """Many objects of one model. The budget's steps and seconds are each object's; its memory is for one at a time."""
    decided = _decide_all(model, objects, initial, budget or Budget(), find_all)
    deadline = time.monotonic() + _EXPLAINING
    for index, decision in decided.items():  # cheapest first, as they were decided
        left = deadline - time.monotonic()
        if left > 0:
            decided[index] = _explained(model, objects[index], initial, decision, left)
    verdicts = {decision.answer.verdict for decision in decided.values()}
    worst: Verdict = "illegal" if "illegal" in verdicts else "unknown" if "unknown" in verdicts else "legal"
    return Decisions(worst, decided)


def _decide(model: str, operations: Operations, initial: int, budget: Budget | None) -> Decision:
    exact = _exactly(model, operations, initial)
    if isinstance(exact, Answer):
        return Decision(exact)
    return Decision(Search(operations, initial).run(budget), exact)


def _decide_all(
    model: str, objects: Sequence[Operations], initial: int, budget: Budget, find_all: bool
) -> dict[int, Decision]:
    decided: dict[int, Decision] = {}
    searches: dict[int, tuple[Search, str]] = {}
    for index in sorted(range(len(objects)), key=lambda index: len(objects[index])):
        exact = _exactly(model, objects[index], initial)
        if isinstance(exact, Answer):
            decided[index] = Decision(exact)
            if exact.verdict == "illegal" and not find_all:
                return decided
        else:
            searches[index] = Search(objects[index], initial), exact
    order = sorted(searches, key=lambda index: _cost(objects[index]))
    for steps in [*(most for most in _ROUNDS if most < budget.steps), budget.steps]:
        allowed = Budget(steps=steps, bytes=budget.bytes, seconds=budget.seconds)
        for index in [index for index in order if index in searches]:
            search, refused = searches[index]
            answer = search.run(allowed)
            if answer.verdict == "unknown" and steps < budget.steps and answer.spent.steps >= steps:
                continue
            decided[index] = Decision(answer, refused)
            del searches[index]
            if answer.verdict == "illegal" and not find_all:
                return decided
    return decided


def _explained(model: str, operations: Operations, initial: int, decision: Decision, seconds: float) -> Decision:
    """With as few operations as evidence as can be found quickly."""
    evidence = decision.answer.evidence
    if evidence is None or len(evidence.operations) <= FEW:
        return decision
    quick = Budget(steps=10**6, seconds=seconds / 5)
    smaller = shrink(
        operations, decision.answer, lambda some, first: _decide(model, some, first, quick).answer, initial, seconds
    )
    return decision._replace(answer=smaller)


def _exactly(model: str, operations: Operations, initial: int) -> Answer | str:
    """What an exact engine answers, or why none does."""
    reasons = []
    for engine in EXACT[model]:
        answer = engine(operations, initial)
        if isinstance(answer, Answer):
            return answer
        reasons.append(f"{answer.engine} needs: {answer.precondition}")
    return "; ".join(reasons) or f"no exact engine is known for {model}"


def _cost(operations: Operations) -> float:
    """Rough: operations times two to the mean number of others at the same time; lost ones are there for good."""
    if not len(operations):
        return 0.0
    begins, ends = np.sort(operations.invoked), np.sort(operations.completed)
    at_once = np.arange(1, len(begins) + 1) - np.searchsorted(ends, begins, side="left")
    return float(len(begins) * 2.0 ** min(60.0, float(at_once.mean())))
