"""Judge a history of transactions: phenomena of single reads, then cycles of the dependency graph.

decide(history, Lists)  ->  [Finding("G-single-item", count=1, rows=(3, 9), sentence="T12 did not see ..."), ...]
"""

from __future__ import annotations

from typing import Protocol

from harness.checker.serializability.cycles import Step, cycles
from harness.checker.serializability.findings import Finding, Findings
from harness.checker.serializability.graph import (
    PROCESS,
    REALTIME,
    Bools,
    Edges,
    process_edges,
    realtime_edges,
)
from harness.checker.serializability.history import OK, Transactions


class Observations(Protocol):
    """What a history's reads tell, of one kind of object."""

    findings: Findings
    happened: Bools

    def edges(self) -> Edges: ...

    def words(self, source: int, target: int, kind: int, item: int) -> str: ...


def decide(seen: Observations, transactions: Transactions) -> list[Finding]:
    """All anomalies by type, those of single reads first."""
    edges, committed = seen.edges(), transactions.outcome == OK
    process_edges(edges, transactions.process, seen.happened, committed)
    realtime_edges(edges, transactions.invoked, transactions.completed, seen.happened)
    for found in cycles(edges.graph(), committed):
        sentences = [_words(step, seen, transactions) for step in found.steps]
        rows = [step.source for step in found.steps]
        first = f"T{transactions.operations[rows[0]].index}"
        sentence = f"{', '.join(sentences)}: so {first} would have to come before itself"
        seen.findings.add(found.type, rows, sentence, found.count)
    return list(seen.findings.by_type.values())


def _words(step: Step, seen: Observations, transactions: Transactions) -> str:
    one, two = (transactions.operations[row] for row in (step.source, step.target))
    if step.kind == PROCESS:
        return f"process {one.process} did T{one.index} before T{two.index}"
    if step.kind == REALTIME:
        return f"T{one.index} was over before T{two.index} began"
    return seen.words(step.source, step.target, step.kind, step.item)
