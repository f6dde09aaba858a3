"""What the slices of a run (slices.py) have to know of each other, so that their looks together say what one look at all would.

Within a slice all holds as it does within a whole log. What could be wrong between slices shows at their edges:

* an append of a lower slice invoked after something of a higher one had completed: EDGES, `last_invoked` and `first_done`
* leader epochs that go back: EDGES, `low_epoch` and `high_epoch`
* a process that went back, or over something, from one slice to the next: SPANS of readers, which must follow each other in time
  as the slices do, and leave no place between the last record of one and the first of the next
* a client's records in another order than it sent them: SPANS of senders, by sequence
* a value in two slices: SPANS of families, of values `log/0/3/12` the family is `log/0/3/` and 12 a number in it. No value can be in
  two slices while numbers of a family in one lie all below those in the other

Somebody whose numbers overlap has not necessarily done anything wrong, as with retries that are not idempotent: a look may doubt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.checker.glance.columns import NONE, Columns, Flags, Ints, Unusual, highest, lowest
from harness.checker.glance.logs import COUNTS, FLAGS, LOOKED, Seen
from harness.checker.glance.screens import Order
from harness.checker.log_pieces import OPEN

_LOG: Final = [LOOKED.field(name) for name in ("run", "topic", "partition")]
EDGES: Final = pa.schema(
    [
        *_LOG,
        pa.field("places", pa.int64()),
        pa.field("nowhere", pa.int64()),  # sends without an offset, which all slices have
        pa.field("first_done", pa.int64()),
        pa.field("last_invoked", pa.int64()),
        pa.field("low_epoch", pa.int64()),
        pa.field("high_epoch", pa.int64()),
        pa.field("hesitant", pa.bool_()),  # somebody read what its process did not go on behind
    ]
)
_NUMBERS: Final = ("first", "first_op", "first_position", "last", "last_op", "last_position", "below", "above")
SPANS: Final = pa.schema(
    [
        *_LOG,
        pa.field("kind", pa.string()),  # reader, sender or family
        pa.field("who", pa.string()),
        *[pa.field(name, pa.int64()) for name in _NUMBERS],  # below, above: places of the slice beside the reader's own
        pa.field("may_skip", pa.bool_()),  # of a reader: its first record
    ]
)
_MOST_FAMILIES = 10_000
_MOST_DIGITS = 18

Row = Mapping[str, Any]
Log = tuple[str, str, int]


def edges(seen: Seen) -> pa.Table:
    """EDGES of a slice, in the order of its LOOKED rows."""
    records, places = seen.records, seen.places
    count = len(records.logs)
    led = seen.final & (records.epoch != NONE)
    stays = records.poll & records.placed & ~records.moves_on
    return pa.table(
        _named(records, np.arange(count))
        | {
            "places": np.diff(places.begins),
            "nowhere": np.bincount(records.log[records.send & ~records.placed], minlength=count),
            "first_done": lowest(places.log, places.done, count),
            "last_invoked": highest(places.log, seen.appended, count),
            "low_epoch": lowest(records.log[led], records.epoch[led], count),
            "high_epoch": highest(records.log[led], records.epoch[led], count),
            "hesitant": np.bincount(records.log[stays], minlength=count) > 0,
        },
        schema=EDGES,
    )


def spans(seen: Seen) -> pa.Table:
    """SPANS of a slice. Unusual."""
    return pa.concat_tables([_readers(seen), _senders(seen), _families(seen)])


def _readers(seen: Seen) -> pa.Table:
    records, places = seen.records, seen.places
    first, last = _ends(seen.walked)
    place = np.full(len(records.log), NONE)
    place[places.rows] = places.place
    log = records.log[first]
    numbers = {
        f"{end}{name}": column[row]
        for end, row in (("first", first), ("last", last))
        for name, column in (("", records.invoked), ("_op", records.op), ("_position", records.position))
    }
    beside = {"below": place[first] - places.begins[log], "above": places.begins[log + 1] - 1 - place[last]}
    who = pc.cast(pa.array(records.process[first]), pa.string())
    return _spans(records, log, "reader", who, numbers | beside, may_skip=seen.may_skip[first])


def _senders(seen: Seen) -> pa.Table:
    records = seen.records
    first, last = _ends(seen.sent)
    who = pa.array(records.clients, pa.string()).take(pa.array(records.client[first]))
    numbers = {"first": records.sequence[first], "last": records.sequence[last]}
    return _spans(records, records.log[first], "sender", who, numbers)


def _families(seen: Seen) -> pa.Table:
    """Of what is at a place."""
    records = seen.records
    if records.texts is None:
        raise Unusual("values of several runs")
    names, family, number = families(records.texts)
    rows = seen.places.rows
    value = records.value[rows]
    one = family[value] * len(records.logs) + records.log[rows]
    count = len(names) * len(records.logs)
    first, last = lowest(one, number[value], count), highest(one, number[value], count)
    there = np.flatnonzero(first != OPEN)
    who = names.take(pa.array(there // max(len(records.logs), 1)))
    return _spans(
        records, there % max(len(records.logs), 1), "family", who, {"first": first[there], "last": last[there]}
    )


def families(texts: pa.Array) -> tuple[pa.Array, Ints, Ints]:
    """Names of families, and of each text the family and its number there. Unusual."""
    texts = pc.fill_null(texts, "").cast(pa.string())
    stems = pc.utf8_rtrim(texts, characters="0123456789")
    digits = (pc.binary_length(texts).to_numpy() - pc.binary_length(stems).to_numpy()).astype(np.int64)
    stems = stems.dictionary_encode()
    if len(stems.dictionary) > _MOST_FAMILIES or digits.max(initial=0) > _MOST_DIGITS:
        raise Unusual("values that are not numbered")
    _, offsets, characters = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset + 1 : texts.offset + len(texts) + 1]
    number = np.zeros(len(texts), np.int64)
    for power in range(int(digits.max(initial=0))):
        there = digits > power
        number[there] += (
            np.frombuffer(characters, np.uint8)[ends[there] - 1 - power].astype(np.int64) - ord("0")
        ) * 10**power
    return stems.dictionary, stems.indices.to_numpy().astype(np.int64), number


def _ends(order: Order) -> tuple[Ints, Ints]:
    """First and last row of each group."""
    first = order.first
    return order.row[first], order.row[np.append(first[1:], True)[: len(first)]]


def _spans(
    records: Columns, log: Ints, kind: str, who: pa.Array, numbers: Mapping[str, Ints], may_skip: Flags | None = None
) -> pa.Table:
    zeros = dict.fromkeys(_NUMBERS, np.zeros(len(log), np.int64))
    told = {
        "kind": pa.array([kind] * len(log)),
        "who": who,
        "may_skip": np.zeros(len(log), bool) if may_skip is None else may_skip,
    }
    return pa.table(_named(records, log) | told | zeros | dict(numbers)).select(SPANS.names).cast(SPANS)


def _named(records: Columns, log: Ints) -> dict[str, pa.Array]:
    take = pa.array(log)
    columns = zip(*records.logs, strict=True) if records.logs else ((), (), ())
    return {field.name: pa.array(column, field.type).take(take) for field, column in zip(_LOG, columns, strict=True)}


_LEAST = ("first_final", "started_ns", "first_epoch", "first_place", "first_missing")
_MOST = ("last_final", "max_offset", "last_epoch", "last_send_ns", "last_place")


def together(slices: Sequence[tuple[Sequence[Row], Sequence[Row], Sequence[Row]]]) -> list[dict[str, Any]]:
    """LOOKED of a run, from LOOKED, EDGES and SPANS of its slices, lowest first."""
    pieces: dict[Log, list[Row]] = defaultdict(list)
    ends: dict[Log, list[Row]] = defaultdict(list)
    known: dict[tuple[Log, str, str], list[tuple[int, Row]]] = defaultdict(list)
    numbered: dict[tuple[str, str], list[tuple[int, int, Log]]] = defaultdict(list)
    for looked, edged, spanned in slices:
        for row, edge in zip(looked, edged, strict=True):
            pieces[_log(row)].append(row)
            ends[_log(row)].append(edge)
        for row in spanned:
            log = _log(row)
            if row["kind"] == "family":
                numbered[row["run"], row["who"]].append((row["first"], row["last"], log))
            else:
                known[log, row["kind"], row["who"]].append((len(ends[log]) - 1, row))
    found = {log: _merged(rows, ends[log]) for log, rows in pieces.items()}
    for (log, kind, _), told in known.items():
        doubts = _reader(told, ends[log]) if kind == "reader" else _sender(told)
        found[log] |= dict.fromkeys(doubts, True)
    for parts in numbered.values():
        for log in _overlapping(parts):
            found[log]["strange"] = True
    return [found[log] for log in sorted(found)]


def _log(row: Row) -> Log:
    return row["run"], row["topic"], row["partition"]


def _merged(rows: Sequence[Row], edges: Sequence[Row]) -> dict[str, Any]:
    nowhere = edges[0]["nowhere"]
    merged = dict(rows[0])
    merged |= {name: sum(row[name] for row in rows) for name in COUNTS}
    merged |= {"sends": merged["sends"] - nowhere * (len(rows) - 1), "unplaced": rows[0]["unplaced"]}
    for names, choose in ((_LEAST, min), (_MOST, max)):
        merged |= {name: choose((row[name] for row in rows if row[name] is not None), default=None) for name in names}
    merged |= {name: any(row[name] for row in rows) for name in FLAGS}
    merged["inverted"] |= _crosses([edge["last_invoked"] for edge in edges], [edge["first_done"] for edge in edges])
    merged["deposed"] |= _crosses([edge["high_epoch"] for edge in edges], [edge["low_epoch"] for edge in edges])
    merged["over"] |= len(edges) > 1 and any(edge["hesitant"] for edge in edges)
    return merged


def _crosses(highest: Sequence[int], lowest: Sequence[int]) -> bool:
    """Whether anything is higher than something behind it."""
    return any(high > low for high, low in zip(accumulate(highest, max), lowest[1:], strict=False))


def _reader(told: Sequence[tuple[int, Row]], edges: Sequence[Row]) -> set[str]:
    doubts = set()
    for (before, one), (place, other) in pairwise(told):
        if not _moment(one, "last") < _moment(other, "first"):
            return {"back", "over"}
        between = one["above"] + sum(edge["places"] for edge in edges[before + 1 : place]) + other["below"]
        if between and not other["may_skip"]:
            doubts.add("over")
    return doubts


def _moment(row: Row, end: str) -> tuple[int, int, int]:
    return row[end], row[f"{end}_op"], row[f"{end}_position"]


def _sender(told: Sequence[tuple[int, Row]]) -> set[str]:
    return {"overtaken"} if any(one["last"] >= other["first"] for (_, one), (_, other) in pairwise(told)) else set()


def _overlapping(parts: Iterable[tuple[int, int, Log]]) -> set[Log]:
    """Logs with parts of a family that overlap: numbers from the first to the second."""
    found: set[Log] = set()
    furthest: tuple[int, Log] | None = None
    for first, last, log in sorted(parts):
        if furthest is not None and first <= furthest[0]:
            found |= {log, furthest[1]}
        if furthest is None or last > furthest[0]:
            furthest = (last, log)
    return found
