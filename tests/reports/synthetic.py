# ruff: noqa: E501  (made-up rows read best one to a line)
"""Run directories that look like real ones, made up: a minute of chaos that lost nothing, and an unclean election that did.

Written by the schemas of the folders that own the rows, so that the reports are tested against what they will read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nemesis.fault import FAULTS, FaultRow
from nodes.event import EVENTS, Event, EventKind
from reports.verdict import AnomalySummary, CheckResult, Counts, Unavailability, Verdict
from workloads.op import BOUNDS, OPS, RECORDS

S = 1_000_000_000
ZERO = 4_312_907_551_000  # what CLOCK_MONOTONIC said when the run began
PARTITIONS = 4
CHECKS = ("lost-write", "duplicate", "inconsistent-offset", "phantom-value", "aborted-read", "nonmonotonic-poll",
          "poll-skip", "producer-reorder", "nonlinearizable-log")  # fmt: skip


@dataclass
class Run:
    folder: Path
    run: dict[str, Any]
    verdict: Verdict

    @property
    def history(self) -> Path:
        return self.folder / "history"


@dataclass(frozen=True)
class Outage:
    """Nobody can write to `partition` (None: any) between two run times in seconds."""

    start: float
    end: float
    partition: int | None = None


def rows_of(schema: pa.Schema, rows: list[Any]) -> pa.Table:
    names = schema.names
    return pa.Table.from_pylist([{name: getattr(row, name) for name in names} for row in rows], schema=schema)


def write(run: Run, table: str, data: pa.Table) -> None:
    folder = run.history / table
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, folder / f"part-{len(list(folder.iterdir()))}.parquet", row_group_size=20_000)


def fault(number: int, name: str, targets: tuple[str, ...], rule: str, start: float, end: float | None, proof: str,
          heal_proof: str | None, settings: str = "{}", status: str | None = None, detail: str | None = None) -> FaultRow:  # fmt: skip
    begun, healed = ZERO + int(start * S), None if end is None else ZERO + int(end * S)
    return FaultRow(
        run="r", clock="host", fault=number, name=name, rule=rule, targets=targets, settings=settings,
        status=status or ("healed" if end is not None else "active"), planned_ns=begun - 2_000_000, injecting_ns=begun,
        proved_ns=begun + 60_000_000, healing_ns=None if healed is None else healed - 400_000_000, healed_ns=healed,
        proof=proof, heal_proof=heal_proof, detail=detail,
    )  # fmt: skip


def event(seconds: float, kind: EventKind, node: str | None = None, **more: Any) -> Event:
    return Event(run="r", clock="host", at_ns=ZERO + int(seconds * S), node=node, kind=kind, **more)


def leadership(seconds: float, partition: int, leader: int, epoch: int, isr: tuple[int, ...]) -> Event:
    return event(seconds, EventKind.LEADER_CHANGED, f"b{leader}" if leader > 0 else None, topic="log",
                 partition=partition, leader=leader, leader_epoch=epoch, isr=isr)  # fmt: skip


def isr(seconds: float, partition: int, leader: int, epoch: int, members: tuple[int, ...]) -> Event:
    return event(seconds, EventKind.ISR_CHANGED, None, topic="log", partition=partition, leader=leader,
                 leader_epoch=epoch, isr=members)  # fmt: skip


def start_events() -> list[Event]:
    nodes = [("c1", 0.2, 1.3), ("b1", 0.4, 2.9), ("b2", 0.4, 3.0), ("b3", 0.4, 3.1)]
    events = [event(0, EventKind.PHASE, detail="deploy"), event(1.4, EventKind.CONTROLLER_CHANGED, "c1", leader=101)]
    for node, started, ready in nodes:
        events += [event(started, EventKind.STARTED, node), event(ready, EventKind.READY, node)]
    return events + [leadership(3.4, p, p % 3 + 1, 0, (1, 2, 3)) for p in range(PARTITIONS)]


def sends(
    rng: np.random.Generator, start: float, end: float, rate: int, outages: list[Outage]
) -> dict[str, np.ndarray]:
    """Columns of sends from two clients; during an outage they wait for its end or run into a timeout."""
    count = int((end - start) * rate)
    invoked = np.sort(rng.uniform(start, end, count))
    partition = rng.integers(0, PARTITIONS, count)
    latency = rng.lognormal(np.log(0.004), 0.45, count)
    for slow in rng.uniform(start, end, 12):  # hiccups
        latency[np.abs(invoked - slow) < 0.15] *= 4
    outcome = np.full(count, "ok", dtype=object)
    error = np.full(count, None, dtype=object)
    for outage in outages:
        hit = (invoked >= outage.start) & (invoked < outage.end)
        hit &= (partition == outage.partition) if outage.partition is not None else True
        wait = outage.end - invoked + rng.exponential(0.05, count)
        latency[hit] = wait[hit]
        timed_out = hit & (wait > 2.5)
        latency[timed_out] = 2.5 + rng.exponential(0.01, timed_out.sum())
        outcome[timed_out], error[timed_out] = "info", "_MSG_TIMED_OUT"
        refused = hit & ~timed_out & (rng.random(count) < 0.1)
        outcome[refused], error[refused] = "fail", "NOT_ENOUGH_REPLICAS"
        latency[refused] = rng.uniform(0.05, 0.4, refused.sum())
    return {"invoked": invoked, "completed": invoked + latency, "partition": partition, "outcome": outcome, "error": error,
            "client": rng.integers(1, 3, count)}  # fmt: skip


def polls(
    rng: np.random.Generator, sent: dict[str, np.ndarray], client: str, start: float, end: float
) -> dict[str, np.ndarray]:
    """One consumer's polls, ten per second, each with what was acknowledged since the one before."""
    times = np.arange(start, end, 0.1) + rng.uniform(0, 0.02, len(np.arange(start, end, 0.1)))
    acknowledged = np.sort(sent["completed"][sent["outcome"] == "ok"])
    seen = np.searchsorted(acknowledged, times)
    return {
        "invoked": times - 0.09,
        "completed": times + 0.002,
        "count": np.diff(seen, prepend=0),
        "client": np.full(len(times), client),
    }


def write_ops(run: Run, sent: dict[str, np.ndarray], reads: list[tuple[str, dict[str, np.ndarray]]]) -> None:
    """`reads`: (phase, polls). Send ops are numbered from 0 in invocation order, each with one record; polls follow."""
    count = len(sent["invoked"])
    nanos = lambda seconds: ZERO + (seconds * S).astype(np.int64)  # noqa: E731
    order = np.arange(count)
    never = sent["completed"] > sent["completed"].max() + 1
    columns = {
        "run": ["r"] * count, "clock": ["host"] * count, "op": order, "client": [f"w{c}" for c in sent["client"]],
        "process": sent["client"] * 100 + order % 16, "kind": ["send"] * count, "phase": ["main"] * count,
        "topic": ["log"] * count, "partition": sent["partition"], "invoked_ns": nanos(sent["invoked"]),
        "completed_ns": pa.array(nanos(sent["completed"]), mask=never), "outcome": sent["outcome"], "error": sent["error"],
        "broker": pa.nulls(count, pa.int32()), "count": np.ones(count, dtype=np.int64), "transaction": pa.nulls(count, pa.int64()),
    }  # fmt: skip
    write(run, "ops", pa.table({f.name: pa.array(columns[f.name]).cast(f.type) for f in OPS}, schema=OPS))
    next_op = count
    for phase, read in reads:
        n = len(read["invoked"])
        columns = {
            "run": ["r"] * n, "clock": ["host"] * n, "op": np.arange(next_op, next_op + n), "client": read["client"].tolist(),
            "process": np.full(n, 900 + next_op), "kind": ["poll"] * n, "phase": [phase] * n, "topic": pa.nulls(n, pa.string()),
            "partition": pa.nulls(n, pa.int32()), "invoked_ns": nanos(read["invoked"]), "completed_ns": nanos(read["completed"]),
            "outcome": ["ok"] * n, "error": pa.nulls(n, pa.string()), "broker": pa.nulls(n, pa.int32()), "count": read["count"],
            "transaction": pa.nulls(n, pa.int64()),
        }  # fmt: skip
        write(run, "ops", pa.table({f.name: pa.array(columns[f.name]).cast(f.type) for f in OPS}, schema=OPS))
        next_op += n
    write_records(run, sent, nanos)
    write(run, "bounds", BOUNDS.empty_table())


def write_records(run: Run, sent: dict[str, np.ndarray], nanos: Any) -> None:
    count = len(sent["invoked"])
    sequence, offset = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    ok = sent["outcome"] == "ok"
    for p in range(PARTITIONS):
        offset[(sent["partition"] == p) & ok] = np.arange(((sent["partition"] == p) & ok).sum())
        for client in (1, 2):
            mine = (sent["partition"] == p) & (sent["client"] == client)
            sequence[mine] = np.arange(mine.sum())
    values = [f"w{c}/{c * 100 + i % 16}/{s}/log/{p}" for i, (c, s, p) in
              enumerate(zip(sent["client"], sequence, sent["partition"], strict=True))]  # fmt: skip
    columns = {
        "run": ["r"] * count, "op": np.arange(count), "client": [f"w{c}" for c in sent["client"]],
        "process": sent["client"] * 100 + np.arange(count) % 16, "kind": ["send"] * count, "phase": ["main"] * count,
        "position": np.zeros(count), "sequence": sequence, "topic": ["log"] * count, "partition": sent["partition"],
        "offset": pa.array(offset, mask=~ok), "value": values, "leader_epoch": pa.nulls(count, pa.int32()),
        "timestamp_ms": pa.nulls(count, pa.int64()), "broker": pa.nulls(count, pa.int32()), "invoked_ns": nanos(sent["invoked"]),
        "completed_ns": nanos(sent["completed"]), "outcome": sent["outcome"], "transaction": pa.nulls(count, pa.int64()),
    }  # fmt: skip
    write(run, "records", pa.table({f.name: pa.array(columns[f.name]).cast(f.type) for f in RECORDS}, schema=RECORDS))


def run_json(name: str, phases: list[tuple[str, float, float]], **spec: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "run": f"2026-11-21T10-14-03-{name}-1f3a",
        "spec": {
            "name": name, "system": "kafka:4.3.1", "controllers": 1, "brokers": 3, "backend": "local", "rate": 1000,
            "time_limit": "60s", "workload": {"name": "log", "clients": 2, "acks": "all", "idempotence": True}, **spec,
        },
        "seed": 7,
        "system": "Apache Kafka 4.3.1",
        "versions": {"c1": "4.3.1", "b1": "4.3.1", "b2": "4.3.1", "b3": "4.3.1"},
        "topics": [{"name": "log", "partitions": 4, "replication": 3, "config": {"min.insync.replicas": "2"}}],
        "clock": "host",
        "started_at": "2026-11-21T10:14:03Z",
        "phases": [{"name": n, "start_ns": ZERO + int(a * S), "end_ns": ZERO + int(b * S)} for n, a, b in phases],
        "environment": {"krash": "0.1.0", "python": "3.11.2", "java": "17.0.12", "kernel": "6.1.0", "cpus": 2, "memory": "8 GiB"},
        "command": ["krash", "run", f"examples/{name}.yaml", "--seed", "7"],
    }  # fmt: skip


def checks(judged: int, **verdicts: str) -> list[CheckResult]:
    engines = {"nonlinearizable-log": "slot-sweep"}
    return [
        CheckResult(name=c, verdict=verdicts.get(c.replace("-", "_"), "valid"), engine=engines.get(c, "spark-sql"),
                    judged=judged, seconds=0.31 + 0.07 * i)
        for i, c in enumerate(CHECKS)
    ]  # fmt: skip


def outcomes(sent: dict[str, np.ndarray], extra_ok: int) -> dict[str, int]:
    counted = {name: int((sent["outcome"] == name).sum()) for name in ("ok", "fail", "info")}
    return {**counted, "ok": counted["ok"] + extra_ok}


def chaos(folder: Path) -> Run:
    """A minute of partitions, kills, pauses and a wipe on safe settings: valid."""
    rng = np.random.default_rng(7)
    run = Run(
        folder, run_json("chaos", [("deploy", 0, 4), ("workload", 4, 64), ("heal", 64, 66), ("drain", 66, 71.5)]), None
    )  # type: ignore[arg-type]
    sent = sends(rng, 4.2, 63.8, 1000, [Outage(9.06, 11.4, 0), Outage(9.06, 11.4, 3), Outage(21.06, 26.1), Outage(34.06, 36.0, 1),
                                        Outage(47.05, 49.2, 2)])  # fmt: skip
    final = polls(rng, sent, "d1", 68, 70)
    final["count"][:] = 0
    final["count"][3:9] = int((sent["outcome"] == "ok").sum() / 6)
    write_ops(
        run,
        sent,
        [("main", polls(rng, sent, "w1", 4.3, 64)), ("main", polls(rng, sent, "w2", 4.4, 64)), ("final", final)],
    )
    faults = [
        fault(1, "kill", ("b1",), "leader of log-0", 9, 16.2, "pid 1 of b1 is gone, signal 9", "b1 answers ApiVersions again", '{"restart_after": "6s"}'),
        fault(2, "partition-isolate", ("b2", "b3"), "majority from the rest", 21, 30.5, "412 packets from b2 were dropped at b1; a probe from b1 to b2 got no answer", "probes pass both ways", '{"action": "drop"}'),
        fault(3, "pause", ("b2",), "leader of log-1", 34, 40.1, "b2 is stopped (state T) and does not answer ApiVersions", "b2 answers ApiVersions again"),
        fault(4, "wipe", ("b3",), "follower in the ISR of log-0", 47, 55.8, "the log directory of b3 is empty (4 partitions removed)", "b3 is in every ISR again", '{"keep_directory_id": false}'),
        replace(fault(5, "wipe", ("b1",), "follower in the ISR of log-2", 58, None, "", None), status="refused", proof=None, injecting_ns=None, proved_ns=None, healing_ns=None,
                detail="refused: without b1 the ISR of log-2 would have 1 member, and min.insync.replicas is 2"),
    ]  # fmt: skip
    write(run, "faults", rows_of(FAULTS, faults))
    events = [*start_events(), event(4, EventKind.PHASE, detail="workload")]
    events += [event(9.06, EventKind.EXITED, "b1", detail="signal 9"), event(15.1, EventKind.STARTED, "b1"), event(16.2, EventKind.READY, "b1"),
               event(11.1, EventKind.FENCED, "b1"), event(16.1, EventKind.UNFENCED, "b1"),
               leadership(11.2, 0, 2, 1, (2, 3)), leadership(11.2, 3, 3, 1, (2, 3)), isr(11.2, 1, 2, 0, (2, 3)), isr(11.2, 2, 3, 0, (2, 3)),
               *[isr(18.0, p, [2, 2, 3, 3][p], [1, 0, 0, 1][p], (1, 2, 3)) for p in range(4)],
               leadership(24.5, 0, -1, 2, (2, 3)), leadership(26.0, 0, 1, 3, (1, 2, 3)),
               leadership(35.8, 1, 3, 1, (1, 3)), isr(36.0, 0, 1, 3, (1, 3)), *[isr(42.5, p, [1, 3, 3, 3][p], 3, (1, 2, 3)) for p in range(4)],
               event(47.05, EventKind.EXITED, "b3", detail="signal 9"), event(48.4, EventKind.STARTED, "b3"), event(50.2, EventKind.READY, "b3"),
               leadership(49.0, 2, 1, 2, (1, 2)), leadership(49.0, 3, 2, 2, (1, 2)), leadership(49.0, 1, 2, 2, (1, 2)), isr(49.0, 0, 1, 3, (1, 2)),
               *[isr(55.7, p, [1, 2, 1, 2][p], 3, (1, 2, 3)) for p in range(4)],
               event(64, EventKind.PHASE, detail="heal"), event(66, EventKind.PHASE, detail="drain")]  # fmt: skip
    write(run, "events", rows_of(EVENTS, events))
    acknowledged = int((sent["outcome"] == "ok").sum())
    windows = [
        (1, "kill", ["b1"], 2.31, 1.02),
        (2, "partition-isolate", ["b2", "b3"], 5.04, 2.2),
        (3, "pause", ["b2"], 1.94, 0.4),
        (4, "wipe", ["b3"], 2.15, 0.31),
    ]
    run.verdict = Verdict(
        run=run.run["run"], verdict="valid", status="judged", reason=None, checks=checks(2 * acknowledged),
        counts=Counts(ops=outcomes(sent, 1800), attempted=len(sent["invoked"]), acknowledged=acknowledged, read=acknowledged + 38, lost=0),
        unavailability=[Unavailability(fault=f, name=n, targets=t, writes_seconds=w, reads_seconds=r) for f, n, t, w, r in windows],
    )  # fmt: skip
    return finish(run)


def unclean(folder: Path) -> Run:
    """unclean.leader.election.enable=true: the last leader dies, an old follower takes over, 200 records are gone."""
    rng = np.random.default_rng(11)
    run = Run(folder, run_json("unclean", [("deploy", 0, 4), ("workload", 4, 34), ("heal", 34, 35), ("drain", 35, 39)], config={"all": {"unclean.leader.election.enable": "true"}}), None)  # type: ignore[arg-type]  # fmt: skip
    sent = sends(rng, 4.2, 33.8, 600, [Outage(17.1, 19.8, 0)])
    write_ops(run, sent, [("main", polls(rng, sent, "w1", 4.3, 34)), ("main", polls(rng, sent, "w2", 4.4, 34))])
    write(run, "faults", rows_of(FAULTS, [
        fault(1, "partition-isolate", ("b2", "b3"), "followers of log-0", 9, 22.4, "318 packets from b1 were dropped at b2; a probe from b1 to b2 got no answer", "probes pass both ways", '{"action": "drop", "between": "brokers"}'),
        fault(2, "kill", ("b1",), "leader of log-0", 17, 24.0, "pid 1 of b1 is gone, signal 9", "b1 answers ApiVersions again"),
    ]))  # fmt: skip
    write(run, "events", rows_of(EVENTS, [
        *start_events(), event(4, EventKind.PHASE, detail="workload"), isr(13.4, 0, 1, 0, (1,)), isr(13.4, 3, 1, 0, (1,)),
        event(17.06, EventKind.EXITED, "b1", detail="signal 9"), leadership(17.9, 0, -1, 1, (1,)), leadership(19.6, 0, 2, 2, (2,)), leadership(19.6, 3, 3, 2, (3,)),
        event(22.9, EventKind.STARTED, "b1"), event(24.0, EventKind.READY, "b1"), *[isr(25.5, p, [2, 2, 3, 3][p], 2, (1, 2, 3)) for p in range(4)],
        event(34, EventKind.PHASE, detail="heal"), event(35, EventKind.PHASE, detail="drain"),
    ]))  # fmt: skip
    late = np.flatnonzero((sent["partition"] == 0) & (sent["outcome"] == "ok") & (sent["completed"] < 17.0))[-200:]
    first = int(((sent["partition"] == 0) & (sent["outcome"] == "ok") & (sent["completed"] < 17.0)).sum()) - 200
    witnesses = [lost_witness(run, sent, int(op), first + i) for i, op in enumerate(late[:20])]
    acknowledged = int((sent["outcome"] == "ok").sum())
    run.verdict = Verdict(
        run=run.run["run"], verdict="invalid", status="judged", reason="lost-write", checks=checks(2 * acknowledged, lost_write="invalid"),
        anomalies=[
            AnomalySummary(type="lost-write", severity="violation", count=200, expected=True, tolerated=False, sentence=witnesses[0]["sentence"], witnesses=witnesses),
            AnomalySummary(type="unavailable", severity="information", count=1, expected=False, tolerated=False,
                           sentence="No write to log-0 succeeded for 2.7 s after fault 2 (kill b1).", witnesses=[]),
        ],
        counts=Counts(ops=outcomes(sent, 600), attempted=len(sent["invoked"]), acknowledged=acknowledged, read=acknowledged - 200, lost=200),
        unavailability=[Unavailability(fault=1, name="partition-isolate", targets=["b2", "b3"], writes_seconds=4.4, reads_seconds=0.1),
                        Unavailability(fault=2, name="kill", targets=["b1"], writes_seconds=2.7, reads_seconds=2.6)],
    )  # fmt: skip
    return finish(run)


def lost_witness(run: Run, sent: dict[str, np.ndarray], op: int, offset: int) -> dict[str, Any]:
    client = int(sent["client"][op])
    process = client * 100 + op % 16
    sequence = int(((sent["client"] == client) & (sent["partition"] == 0))[:op].sum())
    value = f"w{client}/{process}/{sequence}/log/0"
    return {
        "run": run.run["run"], "check": "lost-write", "type": "lost-write", "severity": "violation",
        "sentence": f'w{client} process {process} was told at {sent["completed"][op]:.3f} s that "{value}" is stored in log-0 at offset {offset}, and after all faults had healed "w1/101/{900 + op % 97}/log/0" stood there. Faults then: kill b1.',
        "topic": "log", "partition": 0, "offset": offset, "value": value, "ops": [op], "faults": [1, 2], "expected": True,
        "tolerated": False, "detail": json.dumps({"expected_because": "unclean.leader.election.enable is true", "how": "replaced", "process": process, "client": f"w{client}", "other_value": f"w1/101/{900 + op % 97}/log/0"}),
    }  # fmt: skip


def finish(run: Run) -> Run:
    """Write run.json, verdict.json and a node's log beside the history."""
    (run.folder / "run.json").write_text(json.dumps(run.run), encoding="utf-8")
    (run.folder / "verdict.json").write_text(json.dumps(run.verdict.as_json()), encoding="utf-8")
    (run.folder / "nodes/b1/log").mkdir(parents=True)
    (run.folder / "nodes/b1/log/server.log").write_text("", encoding="utf-8")
    return run
