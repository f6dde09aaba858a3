"""What a report page is made of: small tables, reduced from a run directory in bounded memory.

Why a layer of its own: the page must be the same whether a run had a hundred ops or ten million, and must come out of
runs that went wrong half-way. So everything that touches Parquet happens in `gather`, which never raises because of
what it finds on disk (what is missing or damaged becomes a line in `problems`), and everything after it is a pure
function of an `Evidence`:

    evidence = gather(json.loads(run_json), Verdict.from_json(...), run_dir / "history")
    html = page.render(evidence)

    Evidence(verdict=Verdict(...), run={"run": "...", "seed": 7, ...}, zero_ns=..., end_ns=...,
             activity=Activity(...), states=States(...), faults=(FaultRow(...),), ops={7: WitnessOp(...)},
             tables=(TableFacts(name="ops", rows=20431, files=1), ...))

Times are CLOCK_MONOTONIC nanoseconds as recorded; `zero_ns` is the start of the first phase, which readers see as 0
s. A run across several clock domains is drawn on one axis all the same, and `problems` says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemesis.fault import FAULTS, FaultRow
from reports.exchange import Exchange, exchange
from reports.losses import Loss, losses
from reports.scan import History, rows
from reports.series import Activity, Buckets, activity, span_of_ops
from reports.spans import Partition, Span, States, span_of_events, states
from reports.verdict import Verdict
from reports.witness import WitnessOp, integers, witness_ops

TABLES = ("ops", "records", "bounds", "faults", "events", "metadata", "messages", "steps")
_OFTEN_ABSENT = {"metadata", "messages", "steps"}  # runs of an older krash have none
FAULT_LIMIT = 300
FILE_LIMIT = 60
_AFTER_THE_RUN = {"collect", "check", "judge", "report"}  # phases in which nothing happens to the system
_WRITTEN_BY_US = {"report.html", "junit.xml"}


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    name: str
    rows: int | None  # None: there is no such table
    files: int


@dataclass(frozen=True, kw_only=True)
class Evidence:
    verdict: Verdict
    run: dict[str, Any]  # run.json as it is; trust nothing in it
    zero_ns: int = 0
    end_ns: int = 0
    activity: Activity = field(default_factory=lambda: Activity(buckets=Buckets.over(0, 0)))
    states: States = field(default_factory=States)
    phases: tuple[Span, ...] = ()
    exchange: Exchange = field(default_factory=Exchange)
    losses: tuple[Loss, ...] = ()
    faults: tuple[FaultRow, ...] = ()  # in plan order
    faults_left_out: int = 0
    ops: dict[int, WitnessOp] = field(default_factory=dict)
    tables: tuple[TableFacts, ...] = ()
    files: tuple[str, ...] = ()  # of the run directory, relative to it
    problems: tuple[str, ...] = ()  # what could not be read, and other reasons to doubt this page

    @property
    def drained_ns(self) -> int | None:
        """When the final read was over: what happens to nodes later is the end of the run."""
        return next((phase.start_ns for phase in self.phases if phase.state == "collect"), None)

    @property
    def seconds(self) -> float:
        return max(0.0, (self.end_ns - self.zero_ns) / 1e9)

    def since_start(self, ns: int) -> float:
        return (ns - self.zero_ns) / 1e9


def gather(run_json: dict[str, Any], verdict: Verdict, history_dir: Path) -> Evidence:
    """Reduce the tables under `history_dir` (`<run directory>/history`). Never raises for what is missing or damaged
    there.
    """
    history = History(history_dir)
    phases = _phases(run_json)
    zero_ns, end_ns = _extent(history, phases)
    named = [witness for anomaly in verdict.anomalies for witness in anomaly.witnesses]
    partitions = {_partition(w) for w in named} - {None}
    faults, faults_left_out = _faults(history, {f for w in named for f in integers(w.get("faults"))})
    said = exchange(history, run_json, history_dir.parent)
    seen = states(history, end_ns, {p for p in partitions if p is not None}, said.metadata)
    judged = History(history_dir.parent)
    evidence = Evidence(
        verdict=verdict,
        run=run_json,
        zero_ns=zero_ns,
        end_ns=end_ns,
        activity=activity(history, Buckets.over(zero_ns, (end_ns - zero_ns) / 1e9)),
        states=seen,
        phases=phases or seen.phases,
        exchange=said,
        losses=losses(judged),
        faults=faults,
        faults_left_out=faults_left_out,
        ops=witness_ops(history, verdict.anomalies),
        tables=tuple(TableFacts(name=t, rows=history.rows(t), files=len(history.files(t))) for t in TABLES),
        files=_files(history_dir.parent),
        problems=(),
    )
    missing = _missing(evidence.tables, history_dir)
    return _with_problems(evidence, missing + history.problems + judged.problems + _clock_problem(faults))


def _missing(tables: tuple[TableFacts, ...], history_dir: Path) -> list[str]:
    names = [table.name for table in tables if table.rows is None and table.name not in _OFTEN_ABSENT]
    if not names:
        return []
    if (history_dir.parent / "journal").is_dir():
        return ["the run's writer died before it wrote its tables: `krash recover .` in this directory finishes them"]
    if all(table.rows is None for table in tables):
        return [f"nothing was recorded: {history_dir.name}/ holds no tables"]
    return [f"table {name} is missing in {history_dir.name}/" for name in names]


def _with_problems(evidence: Evidence, problems: list[str]) -> Evidence:
    return Evidence(**{**vars(evidence), "problems": tuple(problems)})


def _phases(run_json: dict[str, Any]) -> tuple[Span, ...]:
    """Phases of run.json; one that never ended (its `end_ns` is null) lasts until the next begins."""
    found = [p for p in _list(run_json.get("phases")) if isinstance(p, dict) and type(p.get("start_ns")) is int]
    starts = [p["start_ns"] for p in found[1:]]
    ends = [p["end_ns"] if type(p.get("end_ns")) is int else None for p in found]
    fallbacks = [*starts, found[-1]["start_ns"]] if found else []
    return tuple(
        Span(start_ns=p["start_ns"], end_ns=fallback if end is None else end, state=str(p.get("name", "?")))
        for p, end, fallback in zip(found[:20], ends, fallbacks, strict=False)
    )


def _extent(history: History, phases: tuple[Span, ...]) -> tuple[int, int]:
    """Start and end of what the page draws. Phases bound it where they are known, so that one absurd time does not
    flatten the rest.
    """
    seen = [span for span in (span_of_ops(history), span_of_events(history)) if span is not None]
    starts, ends = [first for first, _ in seen], [last for _, last in seen]
    if phases:
        drawn = [p for p in phases if p.state not in _AFTER_THE_RUN] or list(phases)
        zero_ns, latest = phases[0].start_ns, max(p.end_ns for p in drawn)
        return zero_ns, latest if drawn[-1].end_ns > drawn[-1].start_ns else max([zero_ns, latest, *ends])
    return (min(starts), max(ends)) if seen else (0, 0)


def _partition(witness: dict[str, Any]) -> Partition | None:
    topic, partition = witness.get("topic"), witness.get("partition")
    return (topic, partition) if isinstance(topic, str) and type(partition) is int else None


def _faults(history: History, named: Collection[int]) -> tuple[tuple[FaultRow, ...], int]:
    """The last row of each fault (a live run appends them), those that anomalies name first when there are too many."""
    latest: dict[int, FaultRow] = {}
    for batch in history.batches("faults", FAULTS.names):
        for row in rows(batch):
            latest[row["fault"]] = FaultRow(**{**row, "targets": tuple(row["targets"])})
    kept = sorted(latest, key=lambda fault: (fault not in named, fault))[:FAULT_LIMIT]
    return tuple(latest[fault] for fault in sorted(kept)), len(latest) - len(kept)


def _clock_problem(faults: tuple[FaultRow, ...]) -> list[str]:
    clocks = sorted({fault.clock for fault in faults})
    return (
        [f"times come from {len(clocks)} clocks ({', '.join(clocks[:5])}) and are drawn on one axis"]
        if len(clocks) > 1
        else []
    )


def _files(run_dir: Path) -> tuple[str, ...]:
    """Names of files for who wants to go on, sorted; without those this package writes, so that a second report is
    like the first.
    """
    found: set[str] = set()
    for pattern in ("*", "anomalies/*", "history/*/*", "nodes/*", "nodes/*/*", "nodes/*/*/*"):
        found |= {str(p.relative_to(run_dir)) for p in run_dir.glob(pattern) if p.is_file() and p.name[0] != "."}
    return tuple(sorted(found - _WRITTEN_BY_US)[:FILE_LIMIT])


def node_name(run: dict[str, Any], node: str) -> str:
    """The name of a node id: "2" is "b2", "101" is "c1" where the run has such a node, else "node 2"."""
    names = [str(name) for name in run["versions"]] if isinstance(run.get("versions"), dict) else []
    if not re.fullmatch(r"\d{1,6}", node):
        return node
    possible = (f"b{node}", f"n{node}", f"c{int(node) - 100}")
    return next((name for name in possible if name in names), f"node {node}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
