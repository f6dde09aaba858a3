# ruff: noqa: E501  (made-up rows read best one to a line)
"""A run whose every text tries to break the page that shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.fault import FAULTS
from nemesis.races.step import STEPS
from nemesis.wire.message import MESSAGES
from nodes.event import EVENTS, EventKind
from nodes.metadata_row import METADATA
from reports.verdict import ANOMALIES, AnomalySummary, CheckResult, Counts, Unavailability, Verdict
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
    exchange(run, text)
    return run


def exchange(run: Run, text: str) -> None:
    """Steps, messages, the metadata log, anomalies and a node's log."""
    step = {"run": text, "clock": text, "step": 0, "verb": "wipe", "nodes": [text], "text": text, "started_ns": ZERO + S,
            "ended_ns": ZERO + 2 * S, "status": text, "seen": text, "message": 1}  # fmt: skip
    message = {
        "run": text, "clock": text, "message": 1, "connection": 1, "source": text, "destination": f"{text}2", "direction": "request", "api": 56,
        "api_name": text, "version": 1, "correlation": 1, "client_id": text, "answers": None, "size": 1, "in_ns": ZERO + S, "out_ns": ZERO + 2 * S,
        "action": "held", "rule": text, "fields": json.dumps({"topic": text, "partition": 0, "newIsr": [text]}), "error": text,
    }  # fmt: skip
    row: dict[str, Any] = {
        "run": text, "clock": text, "node": text, "offset": 1, "index": 0, "epoch": 1, "at_ns": ZERO + S, "timestamp_ms": 1, "kind": "partition",
        "topic": text, "partition": 0, "leader": 1, "leader_epoch": 1, "partition_epoch": 1, "isr": [1, 2], "replicas": [1, 2], "broker": None,
        "broker_epoch": None, "fenced": None, "fields": text,
    }  # fmt: skip
    write(run, "steps", pa.Table.from_pylist([step, {**step, "step": 1, "status": "done"}], schema=STEPS))
    answer = {**message, "message": 2, "direction": "response", "action": "passed", "answers": 1}
    write(run, "messages", pa.Table.from_pylist([message, answer], schema=MESSAGES))
    write(run, "metadata", pa.Table.from_pylist([row, {**row, "offset": 2, "kind": text}], schema=METADATA))
    lost = dict.fromkeys(("run", "check", "sentence", "topic", "value", "detail"), text)
    lost |= {
        "type": "lost-write",
        "severity": "violation",
        "partition": 0,
        "offset": 3,
        "ops": [],
        "faults": [],
        "expected": False,
        "tolerated": False,
    }
    (run.folder / "anomalies").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([lost], schema=ANOMALIES), run.folder / "anomalies/0.parquet")
    log = run.folder / "nodes/b1/log"
    log.mkdir(parents=True)
    (log / "server.log").write_bytes(f"quoted {text}\n".encode() + b"quoted \xff\xfe\n" + b"quoted " + b"x" * 100_000)
    run.run["race"] = {
        "name": text,
        "variant": text,
        "title": text,
        "story": text,
        "references": [text],
        "quotes": ["quoted", "(a+)+$", "[", 7, text],
    }


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
