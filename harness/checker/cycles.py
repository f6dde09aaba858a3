"""Cycles of transactions: no order of them explains what they read (G1c), or with more asked of Kafka than it promises, what
they wrote and did not read (G0, G-single-item, G-nonadjacent-item, G2-item; each with orders of processes and real time).

A run whose transactions do not read has no G1c that nonlinearizable-log does not show: a send or a poll alone is one
object, and linearizability is local. So only runs that have polls with records inside transactions pay for a graph
(dependencies.py), one call of the kernel per run, or per segments of long ones (cycle_segments.py); the edges other than
reads only where their types are asked for.

    WR and orders in time     G1c, G1c-process, G1c-realtime: violations, always told
    WW and RW too             whatever type the cycles then have, G1c among them: information

Source: jepsen.tests.kafka, whose default (`ww-deps`) hides the first line behind the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.checker.anomalies import CYCLES, AnomalyType
from harness.checker.check import Check, Need, Row, plain_finding
from harness.checker.cycle_rows import CYCLES_FOUND, sweep_everything, sweep_reads
from harness.checker.cycle_segments import Cut, swept
from harness.checker.facts import LogKey
from harness.checker.history import READ, SENT, History
from harness.checker.polls import UNIT
from harness.checker.serializability.graph import PROCESS, REALTIME, RW, WR, WW
from reports.verdict import Severity

_READ_UNCOMMITTED = "isolation=read_uncommitted"
_STEPS_TOLD = 8
_PURE = {WR, PROCESS, REALTIME}


@dataclass(frozen=True, kw_only=True)
class Step:
    source: int  # op id: of the begin of a transaction, or of a single op
    target: int
    kind: int  # of harness/checker/serializability/graph.py
    log: int
    offset: int  # -1: of no record


@dataclass(frozen=True, kw_only=True)
class Cycle:
    run: str
    type: str
    pure: bool  # of WR and orders in time only
    count: int
    steps: tuple[Step, ...]


def found(history: History) -> list[Cycle]:
    """Of all runs."""
    return history.once(_found)


def _found(history: History) -> list[Cycle]:
    runs = sorted({key.run for key, tally in history.tallies.items() if tally.transactional_reads})
    if not runs:
        return []
    extra = {kind.name for kind in CYCLES if kind.severity is Severity.INFORMATION}
    wide = [run for run in runs if extra & set(history.runs[run].settings.wanted)]
    found: list[dict[str, Any]] = []
    for everything, these in ((True, wide), (False, [run for run in runs if run not in wide])):
        if these:
            rows = _rows(history).where(F.col("run").isin(these))
            found += _whole(rows, everything) if history.bits is None else _in_segments(history, rows, everything)
    told = (one for one in _together(found) if one.pure or not {step.kind for step in one.steps} <= _PURE)
    return sorted(told, key=lambda one: (one.run, not one.pure, one.type))


def _whole(rows: DataFrame, everything: bool) -> list[dict[str, Any]]:
    """Runs that fit a worker each."""
    sweep = sweep_everything if everything else sweep_reads
    found: list[dict[str, Any]] = rows.groupBy("run").applyInArrow(sweep, CYCLES_FOUND).toArrow().to_pylist()
    return found


def _in_segments(history: History, rows: DataFrame, everything: bool) -> list[dict[str, Any]]:
    cut = Cut(bits=history.bits, bundles=history.bundles, keep=history.keep)
    found: list[dict[str, Any]] = []
    for pure in (True, False) if everything else (True,):
        if (told := swept(rows, cut, everything=not pure)) is not None:
            found += [row | {"pure": pure} for row in told.toArrow().to_pylist()]
    return found


def _together(rows: Iterable[dict[str, Any]]) -> list[Cycle]:
    """One of each type, with the shortest steps; of equally short ones those of the lowest ops."""
    found: dict[tuple[str, bool, str], Cycle] = {}
    for row in rows:
        one, key = _cycle(row), (row["run"], row["pure"], row["type"])
        if other := found.get(key):
            shortest = min(one, other, key=lambda each: (len(each.steps), [step.source for step in each.steps]))
            one = replace(shortest, count=one.count + other.count)
        found[key] = one
    return list(found.values())


def _cycle(row: dict[str, Any]) -> Cycle:
    columns = (row[name] for name in ("source", "target", "kind", "log", "offset"))
    steps = tuple(
        Step(source=source, target=target, kind=kind, log=log, offset=offset)
        for source, target, kind, log, offset in zip(*columns, strict=True)
    )
    return Cycle(run=row["run"], type=row["type"], pure=row["pure"], count=row["count"], steps=steps)


def _rows(history: History) -> DataFrame:
    """The columns of dependencies.Rows, with `run`."""
    whole = history.frame(history.fates).selectExpr("run", "transaction", "begun_ns", "ended_ns")
    sends = f"{SENT} and outcome <> 'fail' and coalesce(fate, 'committed') = 'committed'"
    records = history.records.where(f"value is not null and (({sends}) or ({READ}))")
    return records.join(F.broadcast(whole), ["run", "transaction"], "left").selectExpr(
        "run",
        f"{UNIT} as unit",
        "kind = 'send' as write",
        "outcome = 'ok' and coalesce(fate, 'committed') = 'committed' as happened",
        "xxhash64(log, v) as key",
        "log",
        "coalesce(offset, -1L) as offset",
        "process",
        "coalesce(begun_ns, invoked_ns) as invoked",
        f"coalesce(if(transaction is null, completed_ns, ended_ns), {(1 << 63) - 1}L) as completed",
    )


def _names(history: History) -> dict[tuple[str, int], str]:
    """(run, op) -> how the transactions of the cycles are called."""
    return history.once(_named)


def _named(history: History) -> dict[tuple[str, int], str]:
    wanted = {(one.run, step.source) for one in found(history) for step in one.steps}
    names = {(one.run, one.transaction): one.name for one in history.transactions}
    single = sorted({op for run, op in wanted if (run, op) not in names})
    if single:
        for row in history.ops.where(F.col("op").isin(single)).select("run", "op", "kind", "client").collect():
            names.setdefault((row["run"], row["op"]), f"the {row['kind']} of {row['client']}")
    return names


def _tell(kind: AnomalyType) -> Callable[[History], Iterator[Row]]:
    def tell(history: History) -> Iterator[Row]:
        for one in found(history):
            if one.type == kind.name and (one.pure or kind.name in history.runs[one.run].settings.wanted):
                for _ in range(one.count):
                    yield _finding(history, kind, one)

    return tell


def _finding(history: History, kind: AnomalyType, one: Cycle) -> Row:
    names = _names(history)
    logs = {row["log"]: LogKey(row["run"], row["topic"], row["partition"]) for row in history.log_table.to_pylist()}
    told = [_sentence(step, names, logs, one.run) for step in one.steps[:_STEPS_TOLD]]
    more = f"; and {len(one.steps) - _STEPS_TOLD} more" if len(one.steps) > _STEPS_TOLD else ""
    place = next((step for step in one.steps if step.offset >= 0), None)
    log = logs.get(place.log) if place else None
    facts = history.runs[one.run]
    return plain_finding(
        kind,
        run=one.run,
        sentence=f"{len(one.steps)} transactions come before each other: {'; '.join(told)}{more}.",
        severity=kind.severity if one.pure else Severity.INFORMATION,
        topic=log.topic if log else None,
        partition=log.partition if log else None,
        offset=place.offset if place else None,
        ops=[step.source for step in one.steps[:_STEPS_TOLD]],
        since=None,
        until=None,
        expected_because=None if facts.read_committed else _READ_UNCOMMITTED,
        detail={"steps": len(one.steps), "reads_only": one.pure},
    )


def _sentence(step: Step, names: dict[tuple[str, int], str], logs: dict[int, LogKey], run: str) -> str:
    one, other = (names.get((run, op), f"op {op}") for op in (step.source, step.target))
    log = logs.get(step.log)
    record = f"offset {step.offset} of {log.topic}-{log.partition}" if log else "a record"
    match step.kind:
        case kind if kind == WR:
            return f"{one} wrote {record}, which {other} read"
        case kind if kind == WW:
            return f"{one} wrote the record before {record}, which {other} wrote"
        case kind if kind == RW:
            return f"{one} read up to {record} but not it, which {other} wrote"
    return f"{one} was over before {other} began"


CHECKS = tuple(
    Check(kind=kind, engine="dependency-graph", needs=Need.ANY_TRANSACTIONS, tell=_tell(kind), optional=True)
    for kind in CYCLES
)
