"""The history of a simulated run: the rows that clients of a real one would have left, at simulated times.

A simulated run lives in one thread and ends within a second, so its rows stay in memory and are written once, as the same tables in the
same run directory: the checker does not know the difference. `at` is the clock of the world, in ns.

    rows = Rows("run", lambda: world.loop.now)
    op = rows.invoke(client="w1.c0", kind=OpKind.POLL, phase=Phase.MAIN, process=rows.new_process())
    rows.complete(op, Outcome.OK, reads=[Read("log", 0, 17, "log/0/3/4")])
    rows.save(run_dir, info)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.history.finished import tables_of, write_finished
from harness.history.rundir import RunInfo
from nemesis.fault import FaultRow, FaultStatus
from nodes.event import Event
from nodes.metadata_row import MetadataRow
from workloads.group import GroupPosition, GroupProtocol
from workloads.op import Bounds, Op, OpKind, Outcome, Phase, Record, record_of

CLOCK = "simulated"


class Read(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str | None


class Found(NamedTuple):
    """What an op of a consumer group is about (workloads/group.py); member, generation: None where the client knows none."""

    op: int
    group: str
    protocol: GroupProtocol | None
    member: str | None
    generation: int | None
    positions: Mapping[tuple[str, int], int | None]


@dataclass
class Rows:
    run: str
    at: Callable[[], int]
    ops: list[Op] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    bounds: list[Bounds] = field(default_factory=list)
    faults: list[FaultRow] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    metadata: list[MetadataRow] = field(default_factory=list)
    _found: list[Found] = field(default_factory=list)
    _processes: Iterator[int] = field(default_factory=itertools.count)
    _sent: dict[int, int] = field(default_factory=dict)  # op of a send -> its place in `records`

    def new_process(self) -> int:
        return next(self._processes)

    def invoke(
        self,
        *,
        client: str,
        kind: OpKind,
        phase: Phase,
        process: int,
        topic: str | None = None,
        partition: int | None = None,
        transaction: int | None = None,
    ) -> int:
        op = len(self.ops)
        self.ops.append(
            Op(
                run=self.run,
                clock=CLOCK,
                op=op,
                client=client,
                process=process,
                kind=kind,
                phase=phase,
                topic=topic,
                partition=partition,
                invoked_ns=self.at(),
                completed_ns=None,
                outcome=Outcome.INFO,
                error=None,
                broker=None,
                count=1 if kind is OpKind.SEND else 0,
                transaction=op if kind is OpKind.BEGIN else transaction,
            )
        )
        return op

    def invoke_send(
        self,
        *,
        client: str,
        process: int,
        topic: str,
        partition: int,
        sequence: int,
        value: str,
        transaction: int | None = None,
    ) -> int:
        op = self.invoke(
            client=client,
            kind=OpKind.SEND,
            phase=Phase.MAIN,
            process=process,
            topic=topic,
            partition=partition,
            transaction=transaction,
        )
        self._sent[op] = len(self.records)
        self._record(op, 0, Read(topic, partition, -1, value), sequence=sequence, offset=None)
        return op

    def complete(
        self,
        op: int,
        outcome: Outcome,
        *,
        error: str | None = None,
        broker: int | None = None,
        offset: int | None = None,
        reads: Sequence[Read] = (),
    ) -> None:
        """`offset`: of a send that was acknowledged with one; `reads`: of a poll."""
        done = {"completed_ns": self.at(), "outcome": str(outcome)}
        before = self.ops[op]
        assert before.completed_ns is None, f"op {op} was completed before"
        count = len(reads) if before.kind == OpKind.POLL else before.count
        self.ops[op] = replace(before, error=error, broker=broker, count=count, **done)  # type: ignore[arg-type]
        if op in self._sent:
            place = self._sent[op]
            self.records[place] = replace(self.records[place], offset=offset, broker=broker, **done)  # type: ignore[arg-type]
        for position, read in enumerate(reads):
            self._record(op, position, read, sequence=None, offset=read.offset)

    def span(
        self,
        op: int,
        *,
        topic: str,
        partition: int,
        log_start: int | None,
        log_end: int | None,
        read_to: int | None,
        error: str | None = None,
        stable_end: int | None = None,
    ) -> None:
        """What the final read found a partition to hold; of an op that is complete."""
        asked = self.ops[op]
        self.bounds.append(
            Bounds(
                run=self.run,
                op=op,
                phase=asked.phase,
                topic=topic,
                partition=partition,
                log_start=log_start,
                log_end=log_end,
                read_to=read_to,
                error=error,
                invoked_ns=asked.invoked_ns,
                completed_ns=asked.completed_ns,
                stable_end=stable_end,
            )
        )

    def fault_begins(self, name: str, *, rule: str, targets: tuple[str, ...], settings: str = "{}") -> int:
        """Its number; its effect is there at once. rule: what chose its targets; settings: JSON."""
        now, number = self.at(), len(self.faults)
        self.faults.append(
            FaultRow(
                run=self.run,
                clock=CLOCK,
                fault=number,
                name=name,
                rule=rule,
                targets=targets,
                settings=settings,
                status=FaultStatus.ACTIVE,
                planned_ns=now,
                injecting_ns=now,
                proved_ns=now,
                healing_ns=None,
                healed_ns=None,
                proof="simulated",
                heal_proof=None,
                detail=None,
            )
        )
        return number

    def fault_ends(self, number: int) -> None:
        """Nothing if it has ended."""
        now, fault = self.at(), self.faults[number]
        if fault.status == FaultStatus.ACTIVE:
            self.faults[number] = replace(
                fault, status=FaultStatus.HEALED, healing_ns=now, healed_ns=now, heal_proof="simulated"
            )

    def faults_end(self) -> None:
        """All that are at work."""
        for number in range(len(self.faults)):
            self.fault_ends(number)

    def note(self, found: Found) -> None:
        """Its rows repeat what became of the op, whenever that is."""
        self._found.append(found)

    @property
    def positions(self) -> Iterator[GroupPosition]:
        for found in self._found:
            op = self.ops[found.op]
            for (topic, partition), offset in found.positions.items():
                yield GroupPosition(
                    run=self.run,
                    op=op.op,
                    client=op.client,
                    process=op.process,
                    kind=op.kind,
                    phase=op.phase,
                    group=found.group,
                    protocol=found.protocol,
                    member=found.member,
                    generation=found.generation,
                    topic=topic,
                    partition=partition,
                    offset=offset,
                    invoked_ns=op.invoked_ns,
                    completed_ns=op.completed_ns,
                    outcome=op.outcome,
                    transaction=op.transaction,
                )

    def save(self, run_dir: Path, info: RunInfo) -> Path:
        """A run directory that `krash check` takes. FileExistsError: nothing is overwritten."""
        given: dict[str, Iterable[Any]] = {
            "ops": self.ops,
            "records": self.records,
            "bounds": self.bounds,
            "faults": self.faults,
            "events": self.events,
            "metadata": self.metadata,
            "positions": sorted(self.positions, key=lambda row: row.op),
        }
        write_finished(run_dir, replace(info, run=self.run, clock=CLOCK), tables_of(given))
        return run_dir

    def _record(self, op: int, position: int, read: Read, *, sequence: int | None, offset: int | None) -> None:
        self.records.append(
            record_of(
                self.ops[op],
                position=position,
                sequence=sequence,
                topic=read.topic,
                partition=read.partition,
                offset=offset,
                value=read.value,
            )
        )
