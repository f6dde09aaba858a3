"""A run of ours in the words of `jepsen.tests.kafka`, so that another checker can be asked.

    ops      7  send    log 0  ok      ->  {:process 3, :type :invoke, :f :send, :value [[:send "log-0" "log/0/3/12"]], ...}
    records  7  offset 41              ->  {:process 3, :type :ok, :f :send, :value [[:send "log-0" [41 "log/0/3/12"]]], ...}

* A key is a partition, `topic-number`. Times are nanoseconds since the first op.
* A transaction is one op, from its begin to its commit or abort, by the process of its begin. Sends in it that surely did
  not happen are left out, and so are transactions without sends.
* Single-partition assigns that follow each other are one assignment that grows: Jepsen forgets what an assign does not name.
* Faults are `info` entries of the nemesis. `bounds` (ListOffsets) have no counterpart and are left out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.history.formats.edn_values import Keyword
from harness.history.formats.edn_writer import write
from harness.history.formats.event import EventType
from workloads.op import OpKind, Outcome, Phase

Row = Mapping[str, Any]
_POLL, _SEND = Keyword("poll"), Keyword("send")
_NEMESIS = Keyword("nemesis")


@dataclass(kw_only=True)
class Exported:
    """Entries in their order: {"index", "time", "process", "type", "f", "value", ...}, keywords as Keyword."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)  # kind of op -> how many


@dataclass(kw_only=True)
class _Exchange:
    """What becomes an invocation and a completion."""

    process: int
    f: str
    invoked_ns: int
    completed_ns: int | None
    type: str  # of the completion
    asked: Any
    answered: Any
    error: str | None
    more: dict[str, Any] = field(default_factory=dict)


def entries_of_run(ops: Iterable[Row], records: Iterable[Row], faults: Iterable[Row]) -> Exported:
    """From the rows of a run's tables."""
    exported = Exported()
    exchanges = list(_exchanges(sorted(ops, key=lambda row: row["op"]), records, exported.left_out))
    origin = min((exchange.invoked_ns for exchange in exchanges), default=0)
    placed = [*_placed(exchanges), *_nemesis(faults)]
    placed.sort(key=lambda place: place[0])
    for index, ((at_ns, _), entry) in enumerate(placed):
        exported.entries.append({"index": index, "time": at_ns - origin} | entry)
    return exported


def edn_line(entry: Mapping[str, Any]) -> str:
    return write({Keyword(name): value for name, value in entry.items()})


def json_line(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> str:
    if isinstance(value, Keyword):
        return value.name
    raise TypeError(f"JSON has no form for {type(value).__name__}")


def _exchanges(ops: Sequence[Row], records: Iterable[Row], left_out: dict[str, int]) -> Iterator[_Exchange]:
    carried: dict[int, list[Row]] = defaultdict(list)
    for record in records:
        carried[record["op"]].append(record)
    transactions: dict[int, list[Row]] = defaultdict(list)
    assigned: dict[int, list[str]] = {}
    for op in ops:
        kind = op["kind"]
        if kind != OpKind.ASSIGN:
            assigned.pop(op["process"], None)
        if op["transaction"] is not None:
            transactions[op["transaction"]].append(op)
        elif kind in (OpKind.ASSIGN, OpKind.SUBSCRIBE):
            yield _assignment(op, assigned)
        elif kind == OpKind.SEND:
            yield _exchange(
                op, "send", (_sent(carried[op["op"]][0], None),), (_sent(carried[op["op"]][0], op["outcome"]),)
            )
        elif kind == OpKind.POLL:
            yield _exchange(op, "poll", ((_POLL,),), ((_POLL, _polled(carried[op["op"]])),))
        else:
            left_out[kind] = left_out.get(kind, 0) + 1
    for rows in transactions.values():
        transaction = _transaction(rows, carried)
        if transaction is None:
            left_out["transaction"] = left_out.get("transaction", 0) + 1
        else:
            yield transaction


def _exchange(op: Row, f: str, asked: Any, answered: Any, **more: Any) -> _Exchange:
    return _Exchange(
        process=op["process"],
        f=f,
        invoked_ns=op["invoked_ns"],
        completed_ns=op["completed_ns"],
        type=op["outcome"],
        asked=asked,
        answered=answered,
        error=op["error"],
        more=more,
    )


def _key(row: Row) -> str:
    return row["topic"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"


def _sent(record: Row, outcome: str | None) -> tuple[Any, ...]:
    """`outcome` None: as it was invoked."""
    known = outcome is not None and record["offset"] is not None
    return (_SEND, _key(record), (record["offset"], record["value"]) if known else record["value"])


def _polled(records: Sequence[Row]) -> dict[str, tuple[tuple[Any, Any], ...]]:
    found: dict[str, list[tuple[Any, Any]]] = {}
    for record in sorted(records, key=lambda row: row["position"]):
        found.setdefault(_key(record), []).append((record["offset"], record["value"]))
    return {key: tuple(pairs) for key, pairs in found.items()}


def _assignment(op: Row, assigned: dict[int, list[str]]) -> _Exchange:
    if op["kind"] == OpKind.SUBSCRIBE:
        return _exchange(op, "subscribe", (_key(op),), (_key(op),))
    assigned.setdefault(op["process"], []).append(_key(op))
    keys = tuple(assigned[op["process"]])
    more = {"seek-to-beginning?": True} if op["phase"] == Phase.FINAL else {}
    return _exchange(op, "assign", keys, keys, **more)


def _transaction(rows: Sequence[Row], carried: Mapping[int, Sequence[Row]]) -> _Exchange | None:
    begin = next((row for row in rows if row["kind"] == OpKind.BEGIN), None)
    sends = [row for row in rows if row["kind"] == OpKind.SEND and row["outcome"] != Outcome.FAIL]
    if begin is None or not sends:
        return None
    outcome, end = _decision(rows)
    records = [(carried[row["op"]][0], row["outcome"]) for row in sends]
    return _Exchange(
        process=begin["process"],
        f="txn",
        invoked_ns=begin["invoked_ns"],
        completed_ns=end["completed_ns"] if end and end["completed_ns"] is not None else _last_sign(rows),
        type=outcome,
        asked=tuple(_sent(record, None) for record, _ in records),
        answered=tuple(_sent(record, outcome) for record, outcome in records),
        error=end["error"] if end else None,
    )


def _last_sign(rows: Sequence[Row]) -> int:
    """When a transaction of which no end is known was last heard of: the offsets of its sends are known, and are told."""
    return max(int(row["invoked_ns"] if row["completed_ns"] is None else row["completed_ns"]) for row in rows)


def _decision(rows: Sequence[Row]) -> tuple[str, Row | None]:
    """How a transaction ended, and the op that says so. Unknown unless a commit, or an abort without a possible commit, is sure."""
    commits = [row for row in rows if row["kind"] == OpKind.COMMIT]
    aborts = [row for row in rows if row["kind"] == OpKind.ABORT and row["outcome"] == Outcome.OK]
    for commit in commits:
        if commit["outcome"] == Outcome.OK:
            return Outcome.OK, commit
    for commit in commits:
        if commit["outcome"] == Outcome.INFO:
            return Outcome.INFO, commit
    if aborts:
        return Outcome.FAIL, aborts[0]
    return Outcome.INFO, None


_Place = tuple[tuple[int, int], dict[str, Any]]  # (time, rank among equal times), entry


def _placed(exchanges: Iterable[_Exchange]) -> Iterator[_Place]:
    """At equal times invocations stand before completions, so that such ops are concurrent, but for those of one process."""
    latest: dict[int, tuple[int, int]] = {}
    for exchange in sorted(exchanges, key=lambda each: each.invoked_ns):
        at = (exchange.invoked_ns, 0)
        before = latest.get(exchange.process)
        if before is not None and before >= at:
            at = (exchange.invoked_ns, before[1] + 1)
        yield at, _entry(exchange, EventType.INVOKE, exchange.asked)
        if exchange.completed_ns is None:
            continue
        done = (exchange.completed_ns, 1 if exchange.completed_ns > exchange.invoked_ns else at[1] + 1)
        latest[exchange.process] = done
        yield done, _entry(exchange, exchange.type, exchange.answered)


def _entry(exchange: _Exchange, kind: str, value: Any) -> dict[str, Any]:
    entry = {
        "process": exchange.process,
        "type": Keyword(kind),
        "f": Keyword(exchange.f),
        "value": value,
    } | exchange.more
    if exchange.error is not None and kind != EventType.INVOKE:
        entry["error"] = exchange.error
    return entry


def _nemesis(faults: Iterable[Row]) -> Iterator[_Place]:
    for fault in faults:
        for moment, at_ns in ("injected", fault["proved_ns"]), ("healed", fault["healed_ns"]):
            if at_ns is not None:
                value = (Keyword(moment), *fault["targets"])
                entry = {
                    "process": _NEMESIS,
                    "type": Keyword(EventType.INFO),
                    "f": Keyword(fault["name"]),
                    "value": value,
                }
                yield (at_ns, 0), entry
