"""The records of any number of runs as arrays of one length, with strings as numbers:

run 'a', topic 'log', partition 0   ->   log 0        what is counted, and numbered, is (run, topic, partition)
run 'b', value 'w1.p0/7'            ->   value 41     (run, value): a value is one of its run; null is a value, too
send, 'ok', its transaction aborted ->   FAILED       outcomes as harness/checker/transactions.py settles them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.checker.log_pieces import NEVER, OPEN

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

READ_COLUMNS: Final = (
    "run", "op", "client", "process", "kind", "phase", "position", "sequence", "topic", "partition", "offset", "value",
    "leader_epoch", "invoked_ns", "completed_ns", "outcome", "transaction",
)  # fmt: skip
TEXTS: Final = ("run", "client", "kind", "phase", "topic", "outcome")
NONE: Final = int(np.iinfo(np.int64).min)  # a null
FAILED, UNKNOWN, OK = 0, 1, 2
_OUTCOMES = {"fail": FAILED, "info": UNKNOWN, "ok": OK}
_TABLE = 1 << 24  # numbers up to here are made dense by a table, larger ones by sorting
_SHIFT = 50  # bits of a transaction's number, beside its run's: 2^40 ops for each of a thousand clients


class Unusual(Exception):
    """Nothing can be said at a glance: values beyond all that a workload would write."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    logs: list[tuple[str, str, int]]  # run, topic, partition
    clients: list[str]
    values: int  # how many there are
    texts: pa.Array | None  # of all values; None: they are of several runs
    log: Ints
    value: Ints
    client: Ints
    process: Ints
    op: Ints
    unit: Ints  # the transaction, or the op
    position: Ints
    sequence: Ints  # NONE: none
    offset: Ints
    placed: Flags  # has an offset
    send: Flags
    poll: Flags
    main: Flags
    final: Flags
    outcome: Ints  # settled
    transactional: Flags
    moves_on: Flags  # a poll's process goes on behind it
    committing: Ints  # when its transaction was first asked to commit; OPEN: never, or there is none
    epoch: Ints  # NONE: none
    invoked: Ints
    completed: Ints  # OPEN: perhaps never


def columns(records: pa.Table, fates: pa.Table) -> Columns:
    """`records`: READ_COLUMNS of RECORDS; `fates`: run, transaction, fate, committing_ns, effective (transactions.FATES). Unusual."""
    kind, phase, outcome = (coded(records[name]) for name in ("kind", "phase", "outcome"))
    run, topic = (coded(records[name]) for name in ("run", "topic"))
    partition = _numbers(records["partition"])
    first, width = span(partition)
    spread = partition - first
    combined = (run.codes * len(topic.names) + topic.codes) * width + spread
    log, distinct = dense(combined, len(run.names) * len(topic.names) * width)
    value, values, texts = _values(records["value"], run)
    client = coded(records["client"])
    send = kind.codes == kind.of("send")
    settled = np.array([_OUTCOMES.get(name, UNKNOWN) for name in outcome.names] or [UNKNOWN])[outcome.codes]
    transaction = _numbers(records["transaction"], NONE)
    transactional = transaction != NONE
    settled, uncommitted, committing = _settled(run, transaction, settled, send, fates)
    op = _numbers(records["op"])
    return Columns(
        logs=[
            (run.names[one // width // len(topic.names)], topic.names[one // width % len(topic.names)], one % width + first)
            for one in distinct.tolist()
        ],
        clients=client.names,
        values=values,
        texts=texts,
        log=log,
        value=value,
        client=client.codes,
        process=_numbers(records["process"]),
        op=op,
        unit=np.where(transactional, transaction, op),
        position=_numbers(records["position"]),
        sequence=_numbers(records["sequence"], NONE),
        offset=_numbers(records["offset"], 0),
        placed=_flags(pc.is_valid(records["offset"])),
        send=send,
        poll=kind.codes == kind.of("poll"),
        main=phase.codes == phase.of("main"),
        final=phase.codes == phase.of("final"),
        outcome=settled,
        transactional=transactional,
        moves_on=(settled == OK) & ~uncommitted,
        committing=committing,
        epoch=_numbers(records["leader_epoch"], NONE),
        invoked=_numbers(records["invoked_ns"]),
        completed=_numbers(records["completed_ns"], OPEN),
    )  # fmt: skip


def dense(numbers: Ints, below: int) -> tuple[Ints, Ints]:
    """The same as 0, 1, 2, ... in their order; and what each of these was. `numbers` are at least 0 and less than `below`."""
    if below > max(_TABLE, 4 * len(numbers)):
        distinct, found = np.unique(numbers, return_inverse=True)
        return found.astype(np.int64), distinct
    there = np.zeros(below, bool)
    there[numbers] = True
    place = np.cumsum(there) - 1
    return place[numbers], np.flatnonzero(there)


def span(numbers: Ints) -> tuple[int, int]:
    """The lowest, and how many there can be from there to the highest."""
    if not len(numbers):
        return 0, 1
    low, high = int(numbers.min()), int(numbers.max())
    return low, high - low + 1


@dataclass(frozen=True)
class Coded:
    codes: Ints
    names: list[Any]

    def of(self, name: str) -> int:
        return self.names.index(name) if name in self.names else NONE


def coded(column: pa.ChunkedArray) -> Coded:
    """Few different strings as numbers."""
    encoded = _encoded(column)
    return Coded(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist())


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """One array with one dictionary. Unusual."""
    try:
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        found = column.combine_chunks()
    except pa.ArrowInvalid as error:  # more text than one array can hold
        raise Unusual(str(error)) from error
    if pa.types.is_dictionary(found.type):
        return found
    return pc.dictionary_encode(found, null_encoding="encode")


def _values(column: pa.ChunkedArray, run: Coded) -> tuple[Ints, int, pa.Array | None]:
    encoded = _encoded(column)
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if len(run.names) == 1:
        return codes, len(encoded.dictionary), encoded.dictionary
    count = len(encoded.dictionary)
    codes, distinct = dense(codes * len(run.names) + run.codes, count * len(run.names))
    return codes, len(distinct), None


def _numbers(column: pa.ChunkedArray, null: int | None = None) -> Ints:
    if null is not None and column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), null)
    return column.to_numpy().astype(np.int64, copy=False)  # type: ignore[no-any-return]


def _flags(column: pa.ChunkedArray) -> Flags:
    return column.to_numpy().astype(bool, copy=False)  # type: ignore[no-any-return]


def _settled(run: Coded, transaction: Ints, outcome: Ints, send: Flags, fates: pa.Table) -> tuple[Ints, Flags, Ints]:
    """Outcomes of sends as their transactions give them, rows of transactions that were not committed, and when these were
    first asked to commit."""
    uncommitted, committing = np.zeros(len(outcome), bool), np.full(len(outcome), OPEN)
    if not fates.num_rows:
        return outcome, uncommitted, committing
    numbers = {name: place for place, name in enumerate(run.names)}
    rows = [row for row in fates.to_pylist() if row["run"] in numbers]
    keys = [(numbers[row["run"]] << _SHIFT) + row["transaction"] for row in rows]
    if not rows:
        return outcome, uncommitted, committing
    own = transaction[transaction != NONE]
    if any(row["transaction"] >> _SHIFT for row in rows) or (own >> _SHIFT).any() or len(run.names) >> (63 - _SHIFT):
        raise Unusual("more runs or ops than numbers")
    order = np.argsort(np.array(keys, np.int64))
    known = np.array(keys, np.int64)[order]
    asked = (run.codes << _SHIFT) + np.maximum(transaction, 0)
    place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    found = (transaction != NONE) & (known[place] == asked)
    row_of = order[place]
    effective = np.array([_OUTCOMES.get(row["effective"], NONE) for row in rows])[row_of]
    open_to_change = found & send & (outcome != FAILED) & (effective != NONE)
    uncommitted = found & np.array([row["fate"] != "committed" for row in rows])[row_of]
    asked_ns = np.array([OPEN if row["committing_ns"] is None else row["committing_ns"] for row in rows])[row_of]
    return np.where(open_to_change, effective, outcome), uncommitted, np.where(found, asked_ns, OPEN)


def lowest(places: Ints, numbers: Ints, count: int) -> Ints:
    """Of each of 0 .. count - 1 the least of its numbers; OPEN: it has none."""
    found = np.full(count, OPEN)
    np.minimum.at(found, places, numbers)
    return found


def highest(places: Ints, numbers: Ints, count: int) -> Ints:
    """The greatest; NEVER: it has none."""
    found = np.full(count, NEVER)
    np.maximum.at(found, places, numbers)
    return found
