"""Transactions on lists (`list-append`) and on registers (`rw-register`), judged by their dependency graph.

LIST_APPEND.judge(paired, Question(consistency=("snapshot-isolation",)))
->  Judgement(verdict="valid", engine="dependency-graph", found=(
        Found(type="G2-item", count=1, sentence="T1 did not see ...", ops=(0, 2), violation=False),))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.checker.models.model import ABSENT, Found, Judgement, Question, verdict_of
from harness.checker.serializability.consistency import forbidden
from harness.checker.serializability.decide import decide
from harness.checker.serializability.findings import Finding
from harness.checker.serializability.history import FUNCTIONS, OK, NotATransaction, columns, looks_like
from harness.checker.serializability.kernels import first_return
from harness.checker.serializability.lists import APPEND, Lists
from harness.checker.serializability.registers import WRITE, Registers
from harness.history.formats.pairing import Operation, Paired
from reports.verdict import Validity
from workloads.op import Outcome

ENGINE = "dependency-graph"
BAD_HISTORY = "bad-history"


@dataclass(frozen=True)
class Transactional:
    """A `Model`."""

    name: str
    write: str

    @property
    def functions(self) -> frozenset[str]:
        return FUNCTIONS

    def fits(self, history: Paired) -> bool:
        return looks_like(history, self.write)

    def judge(self, history: Paired, question: Question) -> Judgement:
        """UnknownConsistency for a consistency model that does not exist."""
        not_allowed = forbidden(question.consistency)
        if history.problems:
            problem = history.problems[0]
            return _bad(problem.sentence, problem.index, len(history.problems))
        transactions = columns(history)
        try:
            if self.write == APPEND:
                seen: Lists | Registers = Lists(history, transactions)
            else:
                initial = None if question.initial is ABSENT else question.initial
                seen = Registers(history, transactions, initial)
        except NotATransaction as error:
            return _bad(str(error), history.operations[error.row].index)
        found = tuple(_found(one, history, not_allowed) for one in decide(seen, transactions))
        verdict, reason = verdict_of(found), ""
        if verdict == Validity.VALID:
            reason = seen.ambiguous or ("" if (transactions.outcome == OK).any() else "no transaction succeeded")
            verdict = Validity.UNKNOWN if reason else verdict
        return Judgement(verdict=verdict, engine=ENGINE, found=found, reason=reason)


def _found(one: Finding, history: Paired, not_allowed: frozenset[str]) -> Found:
    return Found(
        type=one.type,
        count=one.count,
        sentence=one.sentence,
        ops=tuple(history.operations[row].index for row in one.rows),
        violation=one.type in not_allowed,
    )


def _bad(sentence: str, index: int, count: int = 1) -> Judgement:
    found = Found(type=BAD_HISTORY, count=count, sentence=sentence, ops=(index,))
    return Judgement(verdict=Validity.INVALID, engine=ENGINE, found=(found,))


LIST_APPEND = Transactional("list-append", APPEND)
RW_REGISTER = Transactional("rw-register", WRITE)


def prepare() -> None:
    """Compile the kernels, or load them compiled: seconds the first time, for whoever sets up or has time to spare."""
    reads = (("r", "x", None), ("r", "y", None))
    for model, empty, first in ((LIST_APPEND, (), (1,)), (RW_REGISTER, None, 1)):
        writes = tuple((model.write, key, 1) for key in ("x", "y"))
        torn = (("r", "x", first), ("r", "y", empty))
        skewed = ((model.write, "z", 1), ("r", "v", empty)), ((model.write, "v", 1), ("r", "z", empty))
        done = [(writes, writes), (reads, torn), *((micros, micros) for micros in skewed)]
        operations = [
            Operation(row, row, "txn", asked, result, None, row, 9 + row, Outcome.OK, None, None, None)
            for row, (asked, result) in enumerate(done)
        ]
        model.judge(Paired(operations=operations), Question())
    node, nowhere = np.zeros(1, np.int32), np.empty(0, np.int32)
    first_return(np.zeros(2, np.int64), nowhere, node, node, node, node)  # only large histories need it
