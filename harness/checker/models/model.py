"""What a history of any tool is judged against, and what comes of it.

    question = Question(consistency=("serializable",))
    LIST_APPEND.judge(paired, question)
    ->  Judgement(verdict="invalid", engine="dependency-graph", found=(
            Found(type="G-single", count=3, sentence="T1 read 1 of key x, which T2 ...", ops=(4, 9)),))

A model is a pure function of one paired history, without Spark: Spark hands histories (or, where `objects` takes one apart
into independent pieces, those) to it in its workers. It never raises for what a history says: what cannot be judged is
`unknown` with its reason, and what no client could have recorded is the anomaly `bad-history`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from harness.history.formats.pairing import Paired
from reports.verdict import Validity

ABSENT = object()  # no initial value was given: the model's own


@dataclass(frozen=True, kw_only=True)
class Question:
    """How to judge, as the user asked."""

    initial: Any = ABSENT  # None is nil
    consistency: tuple[str, ...] = ()  # names of consistency models; empty: the model's default
    find_all: bool = False  # go on after the first violation


@dataclass(frozen=True, kw_only=True)
class Found:
    """One type of anomaly in one history."""

    type: str
    count: int
    sentence: str  # of the most telling instance
    ops: tuple[int, ...] = ()  # Operation.index of the few that prove it, the most telling first
    violation: bool = True  # False: told, but allowed by the consistency that was asked for


@dataclass(frozen=True, kw_only=True)
class Judgement:
    verdict: Validity
    engine: str  # which algorithm decided; several joined by "+"
    found: tuple[Found, ...] = ()
    reason: str = ""  # of unknown: what kept it from being decided, and what was spent


class Model(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def functions(self) -> frozenset[str]:
        """The `f` that its ops may have; others make the history a bad one for this model."""

    def fits(self, history: Paired) -> bool:
        """Whether this is what the ops look like, for when nobody names a model."""

    def judge(self, history: Paired, question: Question) -> Judgement: ...


def verdict_of(found: Sequence[Found]) -> Validity:
    return Validity.INVALID if any(one.violation for one in found) else Validity.VALID
