"""What clients did. An op is one request of one process, from invocation to completion.

Why two times: an op takes effect at some instant between them, and that is all a checker may assume. An op whose
completion never came (or came as "unknown") may still take effect at any later time, so it stays open to the end of the
run.

Three tables, each row keyed by `run` (a fourth, `positions`, is about consumer groups: group.py):

* `ops`: one row per request.
* `records`: one row per record that an op sent or read. A row repeats its op's times and outcome, so that the big
  checks (loss, duplicates, order) read one table and never join ten million rows with ten million others.
* `bounds`: what a partition's log spanned when somebody asked (ListOffsets), and how far a full read got.

Example, one acknowledged send: `Op(op=7, client="w1.p0", process=3, kind="send", phase="main", invoked_ns=10,
completed_ns=25, outcome="ok", ...)` with `Record(op=7, kind="send", topic="log", partition=0, offset=41,
value="log/0/3/12", sequence=12, ...)`.

Transactions: a transaction is named by the op id of its `begin`. The begin, its sends, and the `commit` or `abort` that
ended it carry that number; everything else has None. A send is acknowledged when its record was written, which promises
nothing until the commit is: the checker reads both.

Processes: a process does one op at a time and is retired after an unknown outcome. A pipelined client is many
processes, one per slot in flight; order checks then use `client` and `sequence`, which grows per (client, topic,
partition) in the order in which sends were invoked. Times are CLOCK_MONOTONIC nanoseconds of the clock domain named in
`clock`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class Outcome(StrEnum):
    OK = "ok"  # happened
    FAIL = "fail"  # surely did not happen
    INFO = "info"  # unknown: concurrent with everything that follows


class OpKind(StrEnum):
    SEND = "send"
    POLL = "poll"
    BOUNDS = "bounds"  # ListOffsets earliest and latest
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    BEGIN = "begin"  # of a transaction: from here on its sends may reach brokers
    COMMIT = "commit"
    ABORT = "abort"
    # Of consumer groups (group.py has their positions). Only add kinds at the end: journals number them.
    REVOKE = "revoke"  # partitions are taken back from a member
    LOST = "lost"  # partitions were given to others already
    COMMIT_OFFSETS = "commit-offsets"
    FETCH_OFFSETS = "fetch-offsets"
    INIT = "init"  # InitProducerId: a transactional id is taken over; transactions.py says whose it is


class Phase(StrEnum):
    MAIN = "main"  # while faults may be active
    FINAL = "final"  # the drain: after everything was healed, by fresh clients


@dataclass(frozen=True, kw_only=True, slots=True)
class Op:
    run: str
    clock: str
    op: int  # unique in the run
    client: str  # the Kafka client instance that sent it (its client.id): node and instance, e.g. "w1.p0"
    process: int  # unique in the run, does one op at a time; retired after INFO
    kind: str  # OpKind
    phase: str  # Phase
    topic: str | None  # where it went, if that is one partition
    partition: int | None
    invoked_ns: int
    completed_ns: int | None  # None: never completed
    outcome: str  # Outcome; INFO when it never completed
    error: str | None  # Kafka error name such as REQUEST_TIMED_OUT, or None
    broker: int | None  # node id of the broker that answered, where the client tells
    count: int  # records sent or read
    transaction: int | None = None  # op id of its begin: of a begin (its own), and of what happens in it up to its end


OPS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("clock", pa.string(), nullable=False),
        pa.field("op", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("phase", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("invoked_ns", pa.int64(), nullable=False),
        pa.field("completed_ns", pa.int64()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("error", pa.string()),
        pa.field("broker", pa.int32()),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("transaction", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    run: str
    op: int
    client: str
    process: int
    kind: str  # "send" or "poll"
    phase: str
    position: int  # place among the records of its op, from 0
    sequence: int | None  # sends: grows per (client, topic, partition) in invocation order; reads: None
    topic: str
    partition: int
    offset: int | None  # sends: None unless acknowledged with an offset
    value: str | None  # unique per run; None: the record had no value (a tombstone, or foreign)
    leader_epoch: int | None
    timestamp_ms: int | None
    broker: int | None
    invoked_ns: int
    completed_ns: int | None
    outcome: str
    transaction: int | None = None  # of a send: op id of its transaction's begin


def record_of(
    op: Op, *, position: int, sequence: int | None, topic: str, partition: int, offset: int | None, value: str | None
) -> Record:
    """A row that repeats what its op has; neither leader epoch nor timestamp are known."""
    return Record(
        run=op.run,
        op=op.op,
        client=op.client,
        process=op.process,
        kind=op.kind,
        phase=op.phase,
        position=position,
        sequence=sequence,
        topic=topic,
        partition=partition,
        offset=offset,
        value=value,
        leader_epoch=None,
        timestamp_ms=None,
        broker=op.broker,
        invoked_ns=op.invoked_ns,
        completed_ns=op.completed_ns,
        outcome=op.outcome,
        transaction=op.transaction,
    )


RECORDS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("op", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("phase", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("sequence", pa.int64()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("value", pa.string()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("broker", pa.int32()),
        pa.field("invoked_ns", pa.int64(), nullable=False),
        pa.field("completed_ns", pa.int64()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("transaction", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What one partition's log spanned at some instant of the op, and how far a read that followed it got.

    A partition was read to its end when `read_to >= log_end`. `stable_end` is how far consumers with read_committed may
    read (the last stable offset); it stays below `log_end`, the high watermark, while a transaction is open, and is None
    when nobody asked. `log_start` and `log_end` are None when ListOffsets
    failed (`error` says how; UNKNOWN_TOPIC_OR_PARTITION on the final read means that the topic or partition is gone).
    """

    run: str
    op: int
    phase: str
    topic: str
    partition: int
    log_start: int | None
    log_end: int | None
    read_to: int | None  # next offset to read when the final reader stopped; None: nobody read
    error: str | None
    invoked_ns: int
    completed_ns: int | None
    stable_end: int | None = None


BOUNDS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("op", pa.int64(), nullable=False),
        pa.field("phase", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("log_start", pa.int64()),
        pa.field("log_end", pa.int64()),
        pa.field("read_to", pa.int64()),
        pa.field("error", pa.string()),
        pa.field("invoked_ns", pa.int64(), nullable=False),
        pa.field("completed_ns", pa.int64()),
        pa.field("stable_end", pa.int64()),
    ]
)
