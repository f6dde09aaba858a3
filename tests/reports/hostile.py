"""A run whose every text tries to break the page that shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from nemesis.fault import FAULTS
from nodes.event import EVENTS, EventKind
from reports.verdict import AnomalySummary, CheckResult, Counts, Unavailability, Verdict
from tests.reports.synthetic import ZERO, Run, S, event, fault, rows_of, write
from workloads.op import OPS, RECORDS

MARK = "pwned"  # what the scripts below would set as the window's title
EVIL = (
    f"<script>document.title='{MARK}'</script><img src=x onerror=\"document.title='{MARK}'\">"
    f"'\"><svg onload=document.title='{MARK}'></title></style></textarea>{{{{7*7}}}}$\\frac{{1}}$&lt;\x00\x1b[31m\u202e41\ufeff"
    "<link rel=stylesheet href=//evil.example/x.css><a href='javascript:document.title=1'>x</a>]]>-->"
)
HALF_PAIR = "half \ud83d of a pair"  # cannot be stored in Arrow, but can come out of verdict.json


def hostile(folder: Path, text: str = EVIL, types: int = 3, witnesses: int = 20) -> Run:
    """`text` in every place that a text can be, in the tables, in run.json and in the verdict."""
    op: dict[str, Any] = {
        "run": text, "clock": text, "op": 1, "client": text, "process": 1, "kind": text, "phase": "final", "topic": text,
        "partition": 0, "invoked_ns": ZERO + S, "completed_ns": ZERO + 2 * S, "outcome": text, "error": text, "broker": 1, "count": 1,
    }  # fmt: skip
    send = {**op, "op": 2, "kind": "send", "outcome": "ok", "completed_ns": ZERO + 3 * S}
    record = {**send, "position": 0, "sequence": 0, "offset": 3, "value": text, "leader_epoch": 0, "timestamp_ms": 0}
    witness = {
        "run": text, "check": text, "type": text, "sentence": text + HALF_PAIR, "topic": text, "partition": 0, "offset": 3,
        "value": text + HALF_PAIR, "ops": [1, 2, 99], "faults": [1, 2], "detail": text,
    }  # fmt: skip
    run = Run(folder, run_json(text), verdict(text, [witness] * witnesses, types))
    write(run, "ops", pa.Table.from_pylist([op, send], schema=OPS))
    write(run, "records", pa.Table.from_pylist([{**record, "op": o} for o in (1, 2)], schema=RECORDS))
    row = fault(1, text, (text, text), text, 1, 5, text, text, settings=text, detail=text)
    write(run, "faults", rows_of(FAULTS, [row, replace(row, fault=2, status=text, healed_ns=None)]))
    states = [
        EventKind.STARTED,
        EventKind.READY,
        EventKind.EXITED,
        EventKind.FENCED,
        EventKind.CONTROLLER_CHANGED,
        EventKind.PHASE,
    ]
    rows = [event(i, kind, text, detail=text) for i, kind in enumerate(states)]
    rows.append(event(1, EventKind.LEADER_CHANGED, text, topic=text, partition=0, leader=1, leader_epoch=1, isr=(1, 2)))
    write(run, "events", rows_of(EVENTS, rows))
    return run


def run_json(text: str) -> dict[str, Any]:
    return {
        "run": text, "spec": {text: text, "backend": text, "workload": {"name": text}, "rate": text}, "seed": text,
        "system": text, "versions": {text: text, "b1": text}, "topics": [{"name": text, "config": {text: text}}],
        "started_at": text, "phases": [{"name": text, "start_ns": ZERO, "end_ns": ZERO + 9 * S}],
        "environment": {text: {text: [text]}}, "command": ["krash", text],
    }  # fmt: skip


def verdict(text: str, witnesses: list[dict[str, Any]], types: int) -> Verdict:
    text += HALF_PAIR
    return Verdict(
        run=text, verdict="invalid", status="interrupted", reason=text,
        checks=[CheckResult(name=text, verdict="unknown", engine=text, judged=1, seconds=1.0, note=text)],
        anomalies=[
            AnomalySummary(type=f"{i}{text}", severity="violation", count=len(witnesses) + 7, expected=False, tolerated=False,
                           sentence=text, witnesses=witnesses)
            for i in range(types)
        ],
        counts=Counts(ops={text: 1}, attempted=1, acknowledged=1, read=1, lost=1),
        unavailability=[Unavailability(fault=1, name=text, targets=[text], writes_seconds=None, reads_seconds=0.5)],
        unjudged=[text],
    )  # fmt: skip
