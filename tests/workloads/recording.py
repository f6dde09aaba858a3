"""A recorder that keeps everything in memory, and refuses what the real one would refuse."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workloads.op import OpKind, Outcome, Phase
from workloads.workload import ClientContext, Positions, Reads, TopicFacts


@dataclass
class Invoked:
    op: int
    client: str
    process: int
    kind: OpKind
    phase: Phase
    topic: str | None
    partition: int | None
    invoked_ns: int
    sequence: int | None = None
    value: str | None = None
    outcome: Outcome | None = None  # None: never completed
    error: str | None = None
    completed_ns: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    reads: Reads | None = None
    transaction: int | None = None
    positions: Positions | None = None


@dataclass
class BoundsRow:
    op: int
    phase: Phase
    topic: str
    partition: int
    log_start: int | None
    log_end: int | None
    read_to: int | None
    error: str | None
    stable_end: int | None = None


@dataclass
class MemoryRecorder:
    ops: list[Invoked] = field(default_factory=list)
    spans: list[BoundsRow] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    _processes: Any = field(default_factory=itertools.count)

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def new_process(self) -> int:
        return next(self._processes)

    def invoke_sends(
        self,
        *,
        client: str,
        phase: Phase,
        topics: Sequence[str],
        partitions: Sequence[int],
        processes: Sequence[int],
        sequences: Sequence[int],
        values: Sequence[str],
        transaction: int | None = None,
    ) -> range:
        with self.changed:
            first = len(self.ops)
            now = self.now_ns()
            for topic, partition, process, sequence, value in zip(
                topics, partitions, processes, sequences, values, strict=True
            ):
                send = Invoked(len(self.ops), client, process, OpKind.SEND, phase, topic, partition, now)
                send.sequence, send.value, send.transaction = sequence, value, transaction
                self.ops.append(send)
            self.changed.notify_all()
            return range(first, len(self.ops))

    def complete_sends(
        self,
        *,
        ops: Sequence[int],
        outcomes: Sequence[Outcome],
        errors: Sequence[str | None],
        offsets: Sequence[int | None],
        timestamps_ms: Sequence[int | None],
        leader_epochs: Sequence[int | None] | None = None,
        brokers: Sequence[int | None] | None = None,
    ) -> None:
        with self.changed:
            for op, outcome, error, offset, timestamp_ms in zip(
                ops, outcomes, errors, offsets, timestamps_ms, strict=True
            ):
                self._end(op, outcome, error)
                self.ops[op].offset, self.ops[op].timestamp_ms = offset, timestamp_ms
            self.changed.notify_all()

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
        with self.changed:
            op = Invoked(len(self.ops), client, process, kind, phase, topic, partition, self.now_ns())
            op.transaction = op.op if kind == OpKind.BEGIN else transaction
            self.ops.append(op)
            self.changed.notify_all()
            return op.op

    def complete(
        self,
        op: int,
        outcome: Outcome,
        *,
        error: str | None = None,
        broker: int | None = None,
        reads: Reads | None = None,
    ) -> None:
        with self.changed:
            self._end(op, outcome, error)
            self.ops[op].reads = reads
            self.changed.notify_all()

    def _end(self, op: int, outcome: Outcome, error: str | None) -> None:
        row = self.ops[op]
        if row.outcome is not None:
            raise ValueError(f"op {op} was completed before")
        row.outcome, row.error, row.completed_ns = Outcome(outcome), error, self.now_ns()

    def bounds(self, op: int, **row: Any) -> None:
        with self.changed:
            self.spans.append(BoundsRow(op, **row))
            self.changed.notify_all()

    def positions(self, op: int, found: Positions) -> None:
        with self.changed:
            assert self.ops[op].outcome is None, f"positions of op {op}, which is over"
            self.ops[op].positions = found
            self.changed.notify_all()

    def flush(self) -> None: ...

    def wait_for(self, condition: Callable[[MemoryRecorder], bool], *, within_s: float = 120) -> None:
        """Until the history is such; AssertionError when it is not in time."""
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), within_s), f"not within {within_s} s: {self.ops[-3:]}"

    def sends(self, outcome: Outcome | None = None) -> list[Invoked]:
        return [op for op in self.ops if op.kind == OpKind.SEND and outcome in (None, op.outcome)]

    def of(self, kind: OpKind) -> list[Invoked]:
        return [op for op in self.ops if op.kind == kind]

    def read(self, phase: Phase = Phase.MAIN) -> dict[tuple[str, int, int], str | None]:
        """Every value read, by (topic, partition, offset)."""
        return {
            (topic, partition, offset): value
            for op in self.of(OpKind.POLL)
            if op.reads and op.phase == phase
            for topic, partition, offset, value in zip(*op.reads[:4], strict=True)
        }


def context(
    bootstrap: str,
    recorder: MemoryRecorder,
    *,
    topics: Mapping[str, int],
    settings: Mapping[str, Any] | None = None,
    rate: float | None = None,
    index: int = 0,
    clients: int = 1,
    seed: int = 7,
    progress: Callable[[Mapping[str, int]], None] = lambda counts: None,
) -> ClientContext:
    return ClientContext(
        client=f"w{index + 1}",
        index=index,
        clients=clients,
        bootstrap=bootstrap,
        topics=tuple(TopicFacts(name=name, partitions=partitions) for name, partitions in topics.items()),
        settings=settings or {},
        rate=rate,
        recorder=recorder,
        stream=lambda actor, number: random.Random(f"{seed} {actor} {number}"),
        stop=threading.Event(),
        progress=progress,
    )
