"""Small histories, told op by op, for tests of the checker and of reports.

A story is three lists of rows that a test may bend before it is saved as a run directory:

    story = clean("r1")                     # two partitions, two clients, one reader, a complete final read: nothing wrong with it
    story.records.remove(...)               # bend it
    story.save(tmp_path / "r1")

Times are milliseconds in calls and nanoseconds in rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.history.finished import tables_of, write_finished
from harness.history.rundir import RunInfo
from nemesis.fault import FaultRow
from nemesis.races.step import Step, StepStatus
from nodes.event import Event, EventKind
from nodes.metadata_row import MetadataRow
from workloads.group import GroupPosition
from workloads.op import Bounds, Op, Record, record_of

MS = 1_000_000
SAFE = {"name": "log", "acks": "all", "idempotence": True, "retries": 1000, "requests_in_flight": 5}
CLOCK = "host"


@dataclass
class Story:
    run: str = "r"
    workload: dict[str, Any] = field(default_factory=lambda: dict(SAFE))
    checks: dict[str, Any] = field(default_factory=dict)
    brokers: dict[str, Any] = field(default_factory=dict)  # broker config
    topic_config: dict[str, Any] = field(default_factory=dict)
    replication: int = 3
    more: dict[str, Any] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    bounds: list[Bounds] = field(default_factory=list)
    faults: list[FaultRow] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    metadata: list[MetadataRow] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    positions: list[GroupPosition] = field(default_factory=list)

    def send(
        self,
        value: str | None,
        offset: int | None = None,
        *,
        at: tuple[int, int | None],
        client: str = "w1.p0",
        process: int = 1,
        sequence: int | None = None,
        outcome: str = "ok",
        topic: str = "log",
        partition: int = 0,
        error: str | None = None,
        transaction: int | None = None,
    ) -> int:
        op = self._op("send", client, process, "main", at, outcome, 1, topic, partition, error, transaction)
        if sequence is None:
            sequence = sum(
                r.kind == "send" and (r.client, r.topic, r.partition) == (client, topic, partition)
                for r in self.records
            )
        self.records.append(
            record_of(op, position=0, sequence=sequence, topic=topic, partition=partition, offset=offset, value=value)
        )
        return op.op

    def begin(self, *, at: int, client: str = "w1.t0", process: int = 50) -> int:
        """The number of the transaction."""
        op = self._op("begin", client, process, "main", (at, at), "ok", 0, None, None, None)
        self.ops[-1] = replace(op, transaction=op.op)
        return op.op

    def end_transaction(
        self,
        kind: str,
        transaction: int,
        *,
        at: tuple[int, int | None],
        outcome: str = "ok",
        error: str | None = None,
        client: str = "w1.t0",
        process: int = 50,
    ) -> int:
        return self._op(kind, client, process, "main", at, outcome, 0, None, None, error, transaction).op

    def poll(
        self,
        reads: Iterable[tuple[int, str | None]],
        *,
        at: tuple[int, int | None],
        client: str = "w1.c0",
        process: int = 100,
        phase: str = "main",
        outcome: str = "ok",
        topic: str = "log",
        partition: int = 0,
        transaction: int | None = None,
    ) -> int:
        reads = list(reads)
        op = self._op("poll", client, process, phase, at, outcome, len(reads), None, None, None, transaction)
        for position, (offset, value) in enumerate(reads):
            self.records.append(
                record_of(
                    op, position=position, sequence=None, topic=topic, partition=partition, offset=offset, value=value
                )
            )
        return op.op

    def end(
        self,
        log_end: int | None,
        *,
        at: tuple[int, int | None],
        log_start: int | None = 0,
        read_to: int | None = -1,
        error: str | None = None,
        phase: str = "final",
        topic: str = "log",
        partition: int = 0,
        stable_end: int | None = None,
    ) -> int:
        """What ListOffsets said; `read_to` -1: the reader came to the end."""
        op = self._op("bounds", "w1.d0", 900, phase, at, "fail" if error else "ok", 0, topic, partition, error)
        self.bounds.append(
            Bounds(
                run=self.run,
                op=op.op,
                phase=phase,
                topic=topic,
                partition=partition,
                log_start=None if log_end is None else log_start,
                log_end=log_end,
                read_to=log_end if read_to == -1 else read_to,
                error=error,
                invoked_ns=op.invoked_ns,
                completed_ns=op.completed_ns,
                stable_end=stable_end,
            )
        )
        return op.op

    def move(self, *, at: int, process: int = 100, client: str = "w1.c0", kind: str = "assign") -> int:
        return self._op(kind, client, process, "main", (at, at), "ok", 0, "log", 0, None).op

    def position(
        self,
        kind: str,
        offset: int | None,
        *,
        at: tuple[int, int | None],
        client: str = "w1.m0",
        generation: int | None = 1,
        outcome: str = "ok",
        process: int = 300,
        protocol: str | None = "eager",
        partition: int = 0,
        transaction: int | None = None,
        member: str | None = "",
    ) -> int:
        """What a member of group "g" was given, gave up, committed or was told; its member id is its client, unless told."""
        op = self._op(kind, client, process, "main", at, outcome, 1, "log", partition, None, transaction)
        self.positions.append(
            GroupPosition(
                run=self.run,
                op=op.op,
                client=client,
                process=process,
                kind=kind,
                phase="main",
                group="g",
                protocol=protocol,
                member=client if member == "" else member,
                generation=generation,
                topic="log",
                partition=partition,
                offset=offset,
                invoked_ns=op.invoked_ns,
                completed_ns=op.completed_ns,
                outcome=outcome,
                transaction=transaction,
            )
        )
        return op.op

    def fault(
        self, name: str, since: int, until: int | None, *, status: str = "healed", targets: tuple[str, ...] = ("b1",)
    ) -> int:
        number = len(self.faults) + 1
        self.faults.append(
            FaultRow(
                run=self.run,
                clock=CLOCK,
                fault=number,
                name=name,
                rule="leader of log-0",
                targets=targets,
                settings="{}",
                status=status,
                planned_ns=since * MS,
                injecting_ns=since * MS,
                proved_ns=since * MS,
                healing_ns=None if until is None else until * MS,
                healed_ns=None if until is None else until * MS,
                proof="seen",
                heal_proof=None if until is None else "seen",
                detail=None,
            )
        )
        return number

    def event(self, kind: EventKind, at: int, node: str | None = None, **fields: Any) -> None:
        self.events.append(Event(run=self.run, clock=CLOCK, at_ns=at * MS, node=node, kind=kind, **fields))

    def claim(self, node: str, epoch: int, since: int, until: int, *, end: str = "it says otherwise") -> None:
        """A controller says that it is the active one."""
        leads = {"leader": 100 + int(node[1:]), "leader_epoch": epoch}
        self.event(EventKind.CONTROLLER_CLAIMS, since, node, **leads)
        self.event(EventKind.CONTROLLER_CLAIM_ENDS, until, node, detail=end, **leads)

    def leads(self, at: int, leader: int, isr: tuple[int, ...], partition: int = 0) -> None:
        kind = EventKind.LEADER_CHANGED
        self.event(kind, at, topic="log", partition=partition, leader=leader, leader_epoch=1, isr=isr)

    def step(self, verb: str, at: int, *nodes: str, text: str | None = None) -> None:
        self.steps.append(
            Step(
                run=self.run,
                clock=CLOCK,
                step=len(self.steps),
                verb=verb,
                nodes=nodes,
                text=text or f"{verb} {' '.join(nodes)}",
                started_ns=at * MS,
                ended_ns=at * MS,
                status=StepStatus.DONE,
                seen=None,
                message=None,
            )
        )

    def metadata_record(
        self,
        kind: str,
        *,
        node: str = "c1",
        partition: int | None = None,
        epoch: int = 1,
        offset: int | None = None,
        **fields: Any,
    ) -> None:
        """The next record of a node's copy, unless an offset is named."""
        offset = sum(row.node == node for row in self.metadata) if offset is None else offset
        known = dict.fromkeys(
            ("leader", "leader_epoch", "partition_epoch", "isr", "replicas", "broker", "broker_epoch", "fenced"), None
        )
        topic = None if partition is None else "log"
        self.metadata.append(
            MetadataRow(
                run=self.run,
                clock=CLOCK,
                node=node,
                offset=offset,
                index=0,
                epoch=epoch,
                at_ns=None,
                timestamp_ms=0,
                kind=kind,
                topic=topic,
                partition=partition,
                fields="{}",
                **{**known, **fields},  # type: ignore[arg-type]
            )
        )

    def final_read(
        self, content: dict[int, list[tuple[int, str | None]]], *, since: int, log_start: int = 0, topic: str = "log"
    ) -> None:
        """Read every partition to its end by a fresh process each; the end is one past the last offset."""
        for partition, reads in sorted(content.items()):
            self.poll(
                reads,
                at=(since, since + 5),
                client="w1.d0",
                process=900 + partition,
                phase="final",
                partition=partition,
                topic=topic,
            )
            end = reads[-1][0] + 1 if reads else log_start
            self.end(end, log_start=log_start, at=(since + 5, since + 6), partition=partition, topic=topic)

    def change(self, which: Callable[[Any], bool], **values: Any) -> int:
        """Replace fields of all rows of records and ops for which `which` holds; returns how many."""
        changed = 0
        for rows in (self.records, self.ops, self.bounds):
            for index, row in enumerate(rows):
                if which(row):
                    rows[index] = type(row)(**{**asdict(row), **values})  # type: ignore[call-overload]
                    changed += 1
        return changed

    def tables(self) -> dict[str, pa.Table]:
        rows: dict[str, list[Any]] = {
            "ops": self.ops,
            "records": self.records,
            "bounds": self.bounds,
            "faults": self.faults,
            "events": self.events,
            "metadata": self.metadata,
            "steps": self.steps,
            "positions": self.positions,
        }
        return tables_of(rows)

    def info(self) -> RunInfo:
        partitions = 1 + max((record.partition for record in self.records), default=0)
        return RunInfo(
            run=self.run,
            spec={"workload": self.workload, "checks": self.checks, "config": {"all": self.brokers}},
            system="kafka:4.3.1",
            topics=[
                {"name": "log", "partitions": partitions, "replication": self.replication, "config": self.topic_config}
            ],
            clock=CLOCK,
            more=self.more,
        )

    def save(self, run_dir: Path) -> Path:
        write_finished(run_dir, self.info(), self.tables())
        return run_dir

    def _op(
        self, kind: str, client: str, process: int, phase: str, at: tuple[int, int | None], outcome: str, count: int, topic: str | None,
        partition: int | None, error: str | None, transaction: int | None = None,
    ) -> Op:  # fmt: skip
        op = Op(
            run=self.run,
            clock=CLOCK,
            op=len(self.ops) + 1,
            client=client,
            process=process,
            kind=kind,
            phase=phase,
            topic=topic,
            partition=partition,
            invoked_ns=at[0] * MS,
            completed_ns=None if at[1] is None else at[1] * MS,
            outcome=outcome,
            error=error,
            broker=None,
            count=count,
            transaction=transaction,
        )
        self.ops.append(op)
        return op


def clean(run: str = "r", *, records: int = 20, partitions: int = 2, **settings: Any) -> Story:
    """Two clients send `records` to each partition, two at a time and overlapping; one reader follows; a complete final
    read; a fault healed long before.

    Record i of partition p: value "log/p/i" at offset i, sent by client w1.p(i % 2) from 100 + 10 i to 115 + 10 i ms.
    """
    story = Story(run=run, **settings)
    content: dict[int, list[tuple[int, str | None]]] = {}
    for partition in range(partitions):
        content[partition] = [(i, f"log/{partition}/{i}") for i in range(records)]
        for i, value in content[partition]:
            story.send(
                value, i, at=(100 + 10 * i, 115 + 10 * i), client=f"w1.p{i % 2}", process=2 * partition + i % 2, sequence=i // 2,
                partition=partition,
            )  # fmt: skip
        for i in range(0, records, 5):
            story.poll(
                content[partition][i : i + 5],
                at=(100 + 10 * i, 170 + 10 * i),
                process=100 + partition,
                partition=partition,
            )
    story.fault("pause", 120, 140)
    story.final_read(content, since=10_000)
    return story
