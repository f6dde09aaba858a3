# ruff: noqa: E501  (made-up rows read best one to a line)
"""The run directory of a race, made up after a real one: KAFKA-14139 on Kafka 3.4.1, 200 records lost."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.fault import FAULTS, FaultRow
from nemesis.races.step import STEPS, Step
from nemesis.wire.message import MESSAGES, Message
from nodes.event import EVENTS, Event, EventKind
from nodes.metadata_row import METADATA, MetadataRow
from reports.verdict import ANOMALIES, AnomalySummary, CheckResult, Counts, Verdict
from tests.reports.synthetic import ZERO, Run, S, event, finish, rows_of, run_json, write
from workloads.op import BOUNDS, OPS, RECORDS, Bounds, Op, Record

RECORDS_SENT = 200
PHASES = [
    ("deploy", 0.0, 2.1),
    ("race", 2.1, 12.6),
    ("heal", 12.6, 13.2),
    ("drain", 13.2, 14.4),
    ("collect", 14.4, 15.0),
]


def ns(seconds: float) -> int:
    return ZERO + int(seconds * S)


def message(number: int, source: str, destination: str, api: int, name: str, at: float, *, out: float | None = -1.0, direction: str = "request",
            action: str = "passed", answers: int | None = None, error: str | None = None, fields: dict[str, Any] | None = None) -> Message:  # fmt: skip
    return Message(
        run="r", clock="host", message=number, connection=number // 2, source=source, destination=destination, direction=direction, api=api,
        api_name=name, version=2, correlation=number, client_id="1", answers=answers, size=120, in_ns=ns(at),
        out_ns=None if out is None else ns(at + 0.0004) if out < 0 else ns(out), action=action, rule="race-1" if action != "passed" else None,
        fields=None if fields is None else json.dumps(fields), error=error,
    )  # fmt: skip


def metadata(offset: int, at: float, kind: str, **fields: Any) -> MetadataRow:
    names = (
        "topic",
        "partition",
        "leader",
        "leader_epoch",
        "partition_epoch",
        "isr",
        "replicas",
        "broker",
        "broker_epoch",
        "fenced",
    )
    known = {name: fields.pop(name, None) for name in names}
    return MetadataRow(
        run="r", clock="host", node="c1", offset=offset, index=0, epoch=1, at_ns=ns(at + 0.002), timestamp_ms=1_763_719_000_000 + int(at * 1000),
        kind=kind, fields=json.dumps(fields), **known,
    )  # fmt: skip


STEPS_TAKEN: list[tuple[float, float, str, tuple[str, ...], str, str | None]] = [
    (2.2, 2.25, "kill", ("b2",), "kill -9 b2", "b2 gone"),
    (2.25, 4.5, "until", ("t-0",), "until the ISR of t-0 is [b1]", "ISR of t-0 is [1]"),
    (4.5, 5.1, "produce", ("w1",), "w1 sends 200 records to t-0 with acks=all", "200 acknowledged, offsets 0 to 199"),
    (5.1, 5.12, "hold", ("b1",), "hold AlterPartition b1 → anybody with newIsr contains 2", None),
    (5.12, 5.15, "start", ("b2",), "start b2", None),
    (5.15, 6.2, "until", ("b1", "c1"), "until AlterPartition is held", "AlterPartition from b1 to c1: newIsr [1, 2], partitionEpoch 1"),
    (6.2, 6.25, "kill", ("b2",), "kill -9 b2", "b2 gone"),
    (6.25, 8.9, "until", ("b2",), "until b2 is fenced", "b2 is fenced"),
    (8.9, 8.95, "wipe", ("b2",), "replace the disk of b2 by an empty one with its old directory id", "14 files are gone"),
    (8.95, 9.0, "cut", ("b1", "b2"), "cut b1 ↔ b2", "a probe along each of 2 one-way paths got lost"),
    (9.0, 9.05, "start", ("b2",), "start b2", None),
    (9.05, 9.8, "until", ("b2",), "until b2 is unfenced", "b2 is unfenced"),
    (10.1, 10.11, "release", ("b1", "c1"), "release AlterPartition", "1 message was released"),
    (10.11, 10.15, "until", ("b1", "c1"), "until AlterPartition is answered", "answered NONE"),
    (10.2, 10.25, "kill", ("b1",), "kill -9 b1", "b1 gone"),
    (10.25, 12.5, "until", ("t-0",), "until b2 leads t-0", "t-0 is led by b2"),
]  # fmt: skip


def race(folder: Path, **about: Any) -> Run:
    """KAFKA-14139 shown: invalid, 200 of 200 records lost."""
    run = Run(folder, run_json("kafka-14139", PHASES, system="kafka", topics=[{"name": "t"}]), None)  # type: ignore[arg-type]
    run.run |= {
        "system": "kafka", "versions": {"c1": "3.4.1", "b1": "3.4.1", "b2": "3.4.1"}, "purpose": "race",
        "topics": [{"name": "t", "partitions": 1, "replication": 2, "config": {"min.insync.replicas": "1"}}],
        "command": ["krash", "race", "run", "kafka-14139", "--system", "kafka:3.4.1"],
        "race": {
            "name": "kafka-14139", "variant": "kill", "title": "A replaced disk and one delayed AlterPartition lose every acknowledged record",
            "story": "The leader asks to add a follower to the ISR; before the request arrives the follower dies, loses its disk and comes back empty. "
                     "Nothing in the request says which incarnation was meant, so the controller lets the empty one in. KIP-903 adds the broker epoch that says so.",
            "references": ["KAFKA-14139", "KIP-903"], "quotes": ["ISR updated to", {"pattern": "[Tt]runcat", "node": "b*"}], **about,
        },
    }  # fmt: skip
    _clients(run)
    write(run, "steps", rows_of(STEPS, [
        Step(run="r", clock="host", step=n, verb=verb, nodes=nodes, text=text, started_ns=ns(a), ended_ns=ns(b), status="done", seen=seen, message=3 if "AlterPartition" in text else None)
        for n, (a, b, verb, nodes, text, seen) in enumerate(STEPS_TAKEN)
    ]))  # fmt: skip
    write(run, "messages", rows_of(MESSAGES, _messages()))
    write(run, "metadata", rows_of(METADATA, _metadata()))
    write(run, "events", rows_of(EVENTS, _events()))
    write(run, "faults", rows_of(FAULTS, [
        _fault(0, "kill", ("b2",), 2.2, 5.15), _fault(1, "hold", ("b1",), 6.2, 10.1), _fault(2, "kill", ("b2",), 6.2, 9.05), _fault(3, "wipe", ("b2",), 8.9, 9.05),
        _fault(4, "cut", ("b1", "b2"), 8.95, 12.7), _fault(5, "kill", ("b1",), 10.2, 12.8),
    ]))  # fmt: skip
    witnesses = [_lost(offset) for offset in range(20)]
    run.verdict = Verdict(
        run=run.run["run"], verdict="invalid", status="judged", reason="lost-write",
        checks=[CheckResult(name="lost-write", verdict="invalid", engine="spark-sql", judged=RECORDS_SENT, seconds=0.4)],
        anomalies=[AnomalySummary(type="lost-write", severity="violation", count=RECORDS_SENT, expected=False, tolerated=False, sentence=witnesses[0]["sentence"], witnesses=witnesses)],
        counts=Counts(ops={"ok": 204, "fail": 0, "info": 0}, attempted=RECORDS_SENT, acknowledged=RECORDS_SENT, read=0, lost=RECORDS_SENT),
    )  # fmt: skip
    (folder / "anomalies").mkdir()
    pq.write_table(
        pa.Table.from_pylist([_lost(n) for n in range(RECORDS_SENT)], schema=ANOMALIES),
        folder / "anomalies/anomalies.parquet",
    )
    finish(run)
    _log(
        folder,
        "c1",
        "[2026-11-21 10:14:13,102] INFO [Controller 101] ISR updated to [1, 2] for t-0 (org.apache.kafka.controller)\n",
    )
    _log(
        folder,
        "b1",
        "[2026-11-21 10:14:09,201] INFO [Partition t-0 broker=1] ISR updated to 1,2 and version updated to 2\n",
    )
    _log(folder, "b2", "[2026-11-21 10:14:15,310] INFO [Log partition=t-0] Loading producer state till offset 0\n"
                       "[2026-11-21 10:14:16,002] INFO [Log partition=t-0] Truncating to offset 0 <script>alert(1)</script>\n")  # fmt: skip
    return run


def _clients(run: Run) -> None:
    process = (1 << 40) | 34
    shared: dict[str, Any] = {
        "run": "r",
        "client": "w1.p0",
        "process": process,
        "kind": "send",
        "phase": "main",
        "topic": "t",
        "partition": 0,
        "outcome": "ok",
        "broker": 1,
    }
    times = [(ns(4.55 + n * 0.002), ns(4.6 + n * 0.002)) for n in range(RECORDS_SENT)]
    ops = [
        Op(**shared, clock="host", op=n, invoked_ns=a, completed_ns=b, error=None, count=1)
        for n, (a, b) in enumerate(times)
    ]
    records = [
        Record(**shared, op=n, position=0, sequence=n, offset=n, value=f"t/0/{n}", leader_epoch=1, timestamp_ms=None, invoked_ns=a, completed_ns=b)
        for n, (a, b) in enumerate(times)
    ]  # fmt: skip
    write(run, "ops", pa.Table.from_pylist([asdict(op) for op in ops], schema=OPS))
    write(run, "records", pa.Table.from_pylist([asdict(record) for record in records], schema=RECORDS))
    end = Bounds(
        run="r",
        op=900,
        phase="final",
        topic="t",
        partition=0,
        log_start=0,
        log_end=0,
        read_to=0,
        error=None,
        invoked_ns=ns(13.4),
        completed_ns=ns(13.5),
    )
    write(run, "bounds", rows_of(BOUNDS, [end]))


def _messages() -> list[Message]:
    asked = {"topicId": "Jr3", "partition": 0, "newIsr": [1, 2], "leaderEpoch": 1, "partitionEpoch": 1, "brokerId": 1}
    return [
        message(0, "b2", "c1", 62, "BrokerRegistration", 5.6, fields={"brokerId": 2}),
        message(1, "c1", "b2", 62, "BrokerRegistration", 5.61, direction="response", answers=0, error="NONE", fields={"brokerEpoch": 40}),
        *[message(100 + n, "b1", "c1", 63, "BrokerHeartbeat", 5.7 + n * 0.1) for n in range(20)],
        message(3, "b1", "c1", 56, "AlterPartition", 6.2, out=10.1, action="held", fields=asked),
        message(4, "b2", "c1", 62, "BrokerRegistration", 9.4, fields={"brokerId": 2}),
        message(5, "c1", "b2", 62, "BrokerRegistration", 9.41, direction="response", answers=4, error="NONE", fields={"brokerEpoch": 52}),
        message(6, "c1", "b1", 56, "AlterPartition", 10.11, direction="response", answers=3, error="NONE"),
    ]  # fmt: skip


def _metadata() -> list[MetadataRow]:
    t: dict[str, Any] = {"topic": "t", "partition": 0}
    return [
        metadata(20, 1.2, "register-broker", broker=1, broker_epoch=20, fenced=True), metadata(22, 1.4, "broker-registration-change", broker=1, fenced=False),
        metadata(23, 1.3, "register-broker", broker=2, broker_epoch=23, fenced=True), metadata(24, 1.5, "broker-registration-change", broker=2, fenced=False),
        metadata(30, 1.9, "topic", topic="t", name="t", topic_id="Jr3"),
        metadata(31, 1.9, "partition", **t, leader=1, leader_epoch=0, partition_epoch=0, isr=(1, 2), replicas=(1, 2)),
        metadata(35, 4.4, "broker-registration-change", broker=2, fenced=True), metadata(36, 4.4, "partition-change", **t, isr=(1,), leader=1, leader_epoch=1, partition_epoch=1),
        metadata(40, 5.6, "register-broker", broker=2, broker_epoch=40, fenced=True), metadata(41, 6.1, "broker-registration-change", broker=2, fenced=False),
        metadata(47, 8.8, "broker-registration-change", broker=2, fenced=True), metadata(52, 9.4, "register-broker", broker=2, broker_epoch=52, fenced=True),
        metadata(54, 9.8, "broker-registration-change", broker=2, fenced=False), metadata(56, 10.11, "partition-change", **t, isr=(1, 2), partition_epoch=2),
        metadata(61, 12.4, "broker-registration-change", broker=1, fenced=True), metadata(62, 12.4, "partition-change", **t, isr=(2,), leader=2, leader_epoch=2, partition_epoch=3),
        metadata(70, 13.0, "partition-change", **t, isr=(1, 2), partition_epoch=4),
    ]  # fmt: skip


def _events() -> list[Event]:
    started = [
        event(at, kind, node)
        for node in ("c1", "b1", "b2")
        for at, kind in ((0.2, EventKind.STARTED), (1.6, EventKind.READY))
    ]
    return [
        *started, event(2.22, EventKind.EXITED, "b2", detail="killed"), event(5.15, EventKind.STARTED, "b2"), event(6.1, EventKind.READY, "b2"),
        event(6.23, EventKind.EXITED, "b2", detail="killed"), event(9.05, EventKind.STARTED, "b2"), event(9.8, EventKind.READY, "b2"),
        event(10.23, EventKind.EXITED, "b1", detail="killed"), event(12.8, EventKind.STARTED, "b1"), event(13.1, EventKind.READY, "b1"),
        event(14.5, EventKind.EXITED, "b1", detail="killed"), event(14.5, EventKind.EXITED, "b2", detail="killed"),
    ]  # fmt: skip


def _fault(number: int, name: str, targets: tuple[str, ...], start: float, end: float) -> FaultRow:
    return FaultRow(
        run="r", clock="host", fault=number, name=name, rule=", ".join(targets), targets=targets, settings="{}", status="healed", planned_ns=ns(start),
        injecting_ns=ns(start), proved_ns=ns(start + 0.03), healing_ns=ns(end), healed_ns=ns(end), proof="seen", heal_proof="seen", detail=None,
    )  # fmt: skip


def _lost(offset: int) -> dict[str, Any]:
    told = 4.6 + offset * 0.002
    return {
        "run": "r", "check": "lost-write", "type": "lost-write", "severity": "violation",
        "sentence": f'w1.p0 process 34 was told at {told:.3f} s that "t/0/{offset}" is stored in t-0 at offset {offset}, and after all faults had healed t-0 ended at offset 0. Faults at work: kill of b2 (fault 0).',
        "topic": "t", "partition": 0, "offset": offset, "value": f"t/0/{offset}", "ops": [offset], "faults": [2, 3, 5], "expected": False, "tolerated": False,
        "detail": json.dumps({"how": "beyond", "process": (1 << 40) | 34, "client": "w1.p0"}),
    }  # fmt: skip


def _log(folder: Path, node: str, text: str) -> None:
    path = folder / "nodes" / node / "log"
    path.mkdir(parents=True, exist_ok=True)
    (path / "server.log").write_text("[2026-11-21 10:14:05,001] INFO started\n" + text, encoding="utf-8")
