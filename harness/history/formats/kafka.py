"""Histories of `jepsen.tests.kafka` as the rows that our own workloads record (workloads/op.py).

    {:index 4 :process 2 :type :invoke :f :txn :value [[:send 7 12] [:poll]]}
    {:index 5 :process 2 :type :ok     :f :txn :value [[:send 7 [40 12]] [:poll {8 [[3 5] [4 6]]}]]}

    ops      begin 4<<20, send 4<<20 | 1, poll 4<<20 | 2, commit 4<<20 | 3    (one row per micro-op, in one transaction)
    records  send "7", partition 0, offset 40, value "7/12"; poll "8": offset 3 "8/5", offset 4 "8/6"

What differs, and what becomes of it:

* A key is a topic-partition: topic `str(key)`, partition 0. Values are unique per key, ours per run: `key/value`.
* Whether `:send` ops are transactions is not said: they are if there is any `:txn`, or a `:send` with several micro-ops.
  Several micro-ops are always a transaction, also of polls only: so ops that belong together can be told.
* An offset in an op that was not `ok` was acknowledged before things went wrong: within a transaction such a send is `ok`
  (its transaction is not), outside it keeps the outcome of its op, and its offset.
* `assign`, `subscribe` and `:rebalance-log` name keys, which our ops have no column for: they are tables of their own.
* From an assign with `:seek-to-beginning?` on, what its process does is the final read (phase `final`).
* Times are `:time` where all entries have one that never decreases, else positions in the history.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from harness.history.formats.event import Event
from harness.history.formats.pairing import Operation
from workloads.op import OPS, RECORDS, OpKind, Outcome, Phase

PART_BITS = 20  # an op id is the index of the invocation and the place of the micro-op
MOST_PARTS = (1 << PART_BITS) - 2
_INT64 = 1 << 63

KEYS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("op", pa.int64(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """An op that is none of `jepsen.tests.kafka`, or has what no log can have (a negative offset): `bad-history`."""

    index: int
    place: str
    sentence: str


@dataclass(kw_only=True)
class KafkaTables:
    ops: pa.Table
    records: pa.Table
    assignments: pa.Table  # KEYS: logs whose position an assign or subscribe op keeps (none with :seek-to-beginning?)
    rebalances: pa.Table  # KEYS: of rebalance logs; `op` is that of the first micro-op
    problems: list[Misfit] = field(default_factory=list)


class _NotKafka(ValueError):
    """What is wrong with an op."""


_TRANSACTIONAL = frozenset({"send", "poll", "txn"})
_IGNORED = frozenset({"crash", "debug-topic-partitions"})


def is_kafka(operations: Iterable[Operation]) -> bool:
    """Does it look like `jepsen.tests.kafka`: is every send, poll and txn made of micro-ops of its kind, and is there one?"""
    found = [operation.value for operation in operations if operation.f in _TRANSACTIONAL]
    return any(found) and all(_micro_ops_of_kafka(value) for value in found)


def _micro_ops_of_kafka(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(m, tuple) and m and m[0] in ("send", "poll") for m in value)


def kafka_tables(operations: Sequence[Operation], *, run: str, clock: str = "history") -> KafkaTables:
    """Rows of a paired history. Never fails on its content: what does not fit is a problem with its place."""
    conversion = _Conversion(run, clock, operations)
    for operation in operations:
        conversion.add(operation)
    return conversion.tables()


class _Shared(NamedTuple):
    """The columns that all rows of one op have in common."""

    op: int
    client: str
    process: int
    phase: Phase
    invoked_ns: int
    completed_ns: int | None
    outcome: Outcome
    error: str | None


class _Conversion:
    def __init__(self, run: str, clock: str, operations: Sequence[Operation]) -> None:
        self._run, self._clock = run, clock
        self._real_time = _real_time(operations)
        self._transactional = any(o.f == "txn" or (o.f == "send" and _many(o.value)) for o in operations)
        self._processes: dict[int | str | None, int] = {}
        self._final: set[int] = set()
        self._sequences: dict[tuple[int, str], int] = {}
        self._ops: list[tuple[Any, ...]] = []  # columns as in OPS, RECORDS, KEYS
        self._records: list[tuple[Any, ...]] = []
        self._assigned: list[tuple[Any, ...]] = []
        self._rebalanced: list[tuple[Any, ...]] = []
        self._problems: list[Misfit] = []

    def add(self, operation: Operation) -> None:
        tables = self._ops, self._records, self._assigned, self._rebalanced
        marks = [len(rows) for rows in tables]
        try:
            self._convert(operation)
        except _NotKafka as error:
            for rows, mark in zip(tables, marks, strict=True):
                del rows[mark:]
            event = operation.completion or operation.invocation
            place = event.place if event else ""
            sentence = f"{operation.f} at {place}: {error}"
            self._problems.append(Misfit(index=operation.index, place=place, sentence=sentence))

    def tables(self) -> KafkaTables:
        return KafkaTables(
            ops=_table(self._ops, OPS),
            records=_table(self._records, RECORDS),
            assignments=_table(self._assigned, KEYS),
            rebalances=_table(self._rebalanced, KEYS),
            problems=self._problems,
        )

    def _convert(self, operation: Operation) -> None:
        if operation.f in _IGNORED:
            return
        if operation.index >= _INT64 >> PART_BITS:
            raise _NotKafka("the index is too large")
        if operation.f in ("assign", "subscribe"):
            self._assign(operation)
        elif operation.f in _TRANSACTIONAL:
            self._micro_ops(operation)
        else:
            known = ", ".join(sorted({*_TRANSACTIONAL, *_IGNORED, "assign", "subscribe"}))
            raise _NotKafka(f"no op of jepsen.tests.kafka; those are {known}")

    def _shared(self, operation: Operation) -> _Shared:
        process = self._process(operation.process)
        times = operation.invoked, operation.completed
        if self._real_time:
            times = self._real_time[operation.index]
        return _Shared(
            operation.index << PART_BITS,
            f"process {operation.process}",
            process,
            Phase.FINAL if process in self._final else Phase.MAIN,
            *times,
            operation.outcome,
            None if operation.error is None else str(operation.error)[:1000],
        )

    def _process(self, process: int | str | None) -> int:
        if isinstance(process, int) and 0 <= process < _INT64:
            return process
        return self._processes.setdefault(process, -1 - len(self._processes))

    def _add_op(
        self,
        shared: _Shared,
        kind: OpKind,
        *,
        topic: str | None = None,
        count: int = 0,
        transaction: int | None = None,
    ) -> None:
        op, client, process, phase, invoked_ns, completed_ns, outcome, error = shared
        partition = None if topic is None else 0
        row = (
            self._run, self._clock, op, client, process, kind, phase, topic, partition,
            invoked_ns, completed_ns, outcome, error, None, count, transaction,
        )  # fmt: skip
        self._ops.append(row)

    def _add_record(
        self, shared: _Shared, kind: OpKind, position: int, sequence: int | None, topic: str, offset: int | None,
        value: Any, transaction: int | None,
    ) -> None:  # fmt: skip
        op, client, process, phase, invoked_ns, completed_ns, outcome, _ = shared
        text = None if value is None else f"{topic}/{value}"
        row = (
            self._run, op, client, process, kind, phase, position, sequence, topic, 0, offset, text,
            None, None, None, invoked_ns, completed_ns, outcome, transaction,
        )  # fmt: skip
        self._records.append(row)

    def _keys(self, op: int, process: int, topics: Iterable[str]) -> list[tuple[Any, ...]]:
        return [(self._run, op, process, topic, 0) for topic in topics]

    def _assign(self, operation: Operation) -> None:
        keys = operation.value
        if not isinstance(keys, (tuple, frozenset)):
            raise _NotKafka("expected a list of keys")
        seeks = bool(operation.invocation and operation.invocation.more.get("seek-to-beginning?"))
        if seeks:
            self._final.add(self._process(operation.process))
        shared = self._shared(operation)
        topics = [_topic(key) for key in keys]
        self._add_op(shared, OpKind.ASSIGN if operation.f == "assign" else OpKind.SUBSCRIBE, count=len(topics))
        self._assigned += [] if seeks else self._keys(shared.op, shared.process, topics)

    def _micro_ops(self, operation: Operation) -> None:
        micro_ops = operation.value if operation.result is None else operation.result
        if not isinstance(micro_ops, tuple) or len(micro_ops) > MOST_PARTS:
            raise _NotKafka("expected a vector of micro-ops")
        shared = self._shared(operation)
        sends = any(isinstance(m, tuple) and m and m[0] == "send" for m in micro_ops)
        together = len(micro_ops) > 1 or (self._transactional and sends)
        transaction = shared.op if operation.f == "txn" or together else None
        if transaction is not None:
            begun = shared._replace(outcome=Outcome.OK, error=None)
            self._add_op(begun, OpKind.BEGIN, transaction=transaction)
        for place, micro_op in enumerate(micro_ops, start=1):
            part = shared._replace(op=shared.op | place)
            if isinstance(micro_op, tuple) and len(micro_op) == 3 and micro_op[0] == "send":
                self._send(part, micro_op[1], micro_op[2], transaction)
            elif isinstance(micro_op, tuple) and 1 <= len(micro_op) <= 2 and micro_op[0] == "poll":
                self._poll(part, micro_op[1] if len(micro_op) == 2 else None, transaction)
            else:
                found = str(micro_op)[:60]
                raise _NotKafka(f"{found} is neither [:send key value] nor [:poll {{key [[offset value]]}}]")
        if transaction is not None:
            self._end(shared._replace(op=shared.op | len(micro_ops) + 1), transaction)
        rebalanced = _rebalanced(operation.completion)
        if rebalanced:
            self._rebalanced += self._keys(shared.op | 1, shared.process, rebalanced)

    def _end(self, shared: _Shared, transaction: int) -> None:
        """Jepsen's `fail` of a transaction is an abort that succeeded, or a commit that surely did not happen."""
        if shared.outcome is Outcome.FAIL:
            self._add_op(shared._replace(outcome=Outcome.OK), OpKind.ABORT, transaction=transaction)
        else:
            self._add_op(shared, OpKind.COMMIT, transaction=transaction)

    def _send(self, shared: _Shared, key: Any, value: Any, transaction: int | None) -> None:
        offset = None
        if isinstance(value, tuple):
            if len(value) != 2:
                raise _NotKafka(f"expected [offset value], found {str(value)[:60]}")
            offset, value = _offset(value[0], optional=True), value[1]
        topic = _topic(key)
        if transaction is not None and offset is not None:
            shared = shared._replace(outcome=Outcome.OK)
        sequence = self._sequences.get((shared.process, topic), 0)
        self._sequences[shared.process, topic] = sequence + 1
        self._add_op(shared, OpKind.SEND, topic=topic, count=1, transaction=transaction)
        self._add_record(shared, OpKind.SEND, 0, sequence, topic, offset, value, transaction)

    def _poll(self, shared: _Shared, polled: Any, transaction: int | None) -> None:
        if not isinstance(polled, dict | None):
            raise _NotKafka("expected a map of key to [[offset value]] in a poll")
        position = 0
        for key, pairs in (polled or {}).items():
            topic = _topic(key)
            if not isinstance(pairs, tuple):
                raise _NotKafka(f"expected [[offset value]] for key {topic}")
            for pair in pairs:
                if not isinstance(pair, tuple) or len(pair) != 2:
                    raise _NotKafka(f"expected [offset value], found {str(pair)[:60]}")
                offset = _offset(pair[0], optional=False)
                self._add_record(shared, OpKind.POLL, position, None, topic, offset, pair[1], transaction)
                position += 1
        self._add_op(shared, OpKind.POLL, count=position, transaction=transaction)


def _many(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) > 1


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    if not rows:
        return schema.empty_table()
    columns = zip(*rows, strict=True)
    return pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def _real_time(operations: Sequence[Operation]) -> dict[int, tuple[int, int | None]]:
    """Index -> times, or nothing when they cannot stand for the order."""
    events = [event for o in operations for event in (o.invocation, o.completion) if event is not None]
    events.sort(key=lambda event: event.number if event.index is None else event.index)
    times = [event.time for event in events]
    if not times or times[0] == times[-1] or any(type(time) is not int or not 0 <= time < _INT64 for time in times):
        return {}
    if any(later < earlier for earlier, later in itertools.pairwise(times)):  # type: ignore[operator]
        return {}
    found: dict[int, tuple[int, int | None]] = {}
    for o in operations:
        if o.invocation is None:
            return {}
        completed = o.completion.time if o.completion is not None and o.completed is not None else None
        found[o.index] = (o.invocation.time, completed)  # type: ignore[assignment]
    return found


def _offset(offset: Any, *, optional: bool) -> int | None:
    if offset is None and optional:
        return None
    if type(offset) is not int or not 0 <= offset < _INT64:
        raise _NotKafka(f"{str(offset)[:40]} is no offset: those are whole numbers from 0 to 2^63 - 1")
    return offset


def _topic(key: Any) -> str:
    if isinstance(key, (int, str)) and not isinstance(key, bool):
        return str(key)
    raise _NotKafka(f"{str(key)[:40]} is no key of jepsen.tests.kafka: those are numbers or names")


def _rebalanced(completion: Event | None) -> list[str]:
    """Keys of `:rebalance-log [{:keys [...]} ...]`, each once, in their order."""
    log = completion.more.get("rebalance-log") if completion is not None else None
    if log is None:
        return []
    if not isinstance(log, tuple) or not all(isinstance(entry, dict) for entry in log):
        raise _NotKafka("expected maps with :keys in :rebalance-log")
    keys = [key for entry in log for key in entry.get("keys") or ()]
    return list(dict.fromkeys(_topic(key) for key in keys))
