"""The tables of the checks as conditions on arrays: which logs have a row that may be a suspect.

Each function returns a flag per log, and has the condition of the screens that it stands for in its docstring, as SQL on the
columns of their tables (history.py, polls.py, producers.py, linearizable.py). Where the condition here is wider, it says why.

A place is a number for a (log, offset) at which anything was acknowledged or read, in the order of logs and offsets:

    log 0: offsets 4, 5, 6   log 1: offsets 0, 1      ->      places 0, 1, 2, 3, 4
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.checker.glance.columns import FAILED, NONE, OK, UNKNOWN, Columns, Flags, Ints, dense, highest, lowest, span
from harness.checker.linearizability.pieces import above
from harness.checker.log_pieces import OPEN

_ROOM = 4  # places for each row, beyond which they are found by sorting
_FEW = 1 << 16  # groups that a radix sort tells apart


@dataclass(frozen=True, kw_only=True)
class Places:
    rows: Ints  # of the records that have one
    place: Ints  # of each of these
    log: Ints  # of each place
    offset: Ints
    begins: Ints  # the first place of each log, and one past the last of all
    acknowledged: Flags
    read: Flags
    final: Flags
    done: Ints  # when it was first known to be there: the earliest completion
    above: Ints  # the earliest of these at a higher offset of its log; OPEN: none
    read_done: Ints
    invoked: Ints  # of the last acknowledged send; NEVER: none


def places(records: Columns, acknowledged: Flags, final: Flags) -> Places:
    read = records.poll & records.placed
    rows = np.flatnonzero(acknowledged | read)
    place, log, offset = _numbered(records.log[rows], records.offset[rows], len(records.logs))
    count = len(log)
    sent, seen = acknowledged[rows], read[rows]
    done = lowest(place, records.completed[rows], count)
    begins = np.searchsorted(log, np.arange(len(records.logs) + 1))
    return Places(
        rows=rows,
        place=place,
        log=log,
        offset=offset,
        begins=begins,
        acknowledged=_marked(place[sent], count),
        read=_marked(place[seen], count),
        final=_marked(place[final[rows]], count),
        done=done,
        above=above(begins.tolist(), done),
        read_done=lowest(place[seen], records.completed[rows[seen]], count),
        invoked=highest(place[sent], records.invoked[rows[sent]], count),
    )


def _numbered(log: Ints, offset: Ints, logs: int) -> tuple[Ints, Ints, Ints]:
    """The place of each pair, and log and offset of each place. Offsets mostly lie close together: then a table says which
    there are, and nothing is sorted."""
    low = lowest(log, offset, logs)
    high = highest(log, offset, logs)
    lengths = [max(0, last - first + 1) for first, last in zip(low.tolist(), high.tolist(), strict=True)]
    if sum(lengths) > _ROOM * len(log) + 1:
        order = np.lexsort((offset, log))
        ordered_log, ordered = log[order], offset[order]
        new = np.ones(len(order), bool)
        new[1:] = (ordered_log[1:] != ordered_log[:-1]) | (ordered[1:] != ordered[:-1])
        place = np.empty(len(order), np.int64)
        place[order] = np.cumsum(new) - 1
        return place, ordered_log[new], ordered[new]
    base = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    place, cells = dense(base[log] + offset - low[log], int(base[-1]))
    log_of = np.searchsorted(base, cells, side="right") - 1
    return place, log_of, cells - base[log_of] + low[log_of]


def _marked(places: Ints, count: int) -> Flags:
    found = np.zeros(count, bool)
    found[places] = True
    return found


def two_values(records: Columns, places: Places) -> Flags:
    """least(ack_min, read_min) <> greatest(ack_max, read_max)"""
    value = records.value[places.rows]
    one = np.empty(len(places.log), np.int64)
    one[places.place] = value
    return _marked(places.log[places.place[one[places.place] != value]], len(records.logs))


@dataclass(frozen=True, kw_only=True)
class Sightings:
    place: Ints  # of each value, where it was read; NONE: nowhere
    strange: Flags  # logs
    unknown: Ints  # values that were read, and sent with unknown outcome only


def sightings(records: Columns, places: Places, acknowledged: Flags) -> Sightings:
    """places > 1 or sent_log is null or sent_log <> log or ok + info = 0 or ack_offset <> offset or early

    Wider than the screens: any send of the value to another log will do, and one of which nobody said how it ended.
    """
    count, logs = records.values, len(records.logs)
    place_of = np.full(len(records.log), NONE)
    place_of[places.rows] = places.place
    reads, sends = np.flatnonzero(records.poll & records.placed), np.flatnonzero(records.send)
    place = np.full(count, NONE)
    read_value, sent_value = records.value[reads], records.value[sends]
    place[read_value] = place_of[reads]
    elsewhere = place[read_value] != place_of[reads]
    possible = _marked(sent_value[records.outcome[sends] != FAILED], count)
    unsent = ~possible[read_value]
    asked = lowest(sent_value, records.committing[sends], count)
    early = records.completed[reads] < asked[read_value]
    strange = _marked(records.log[reads[elsewhere | unsent | (early & (asked[read_value] != OPEN))]], logs)
    seen = sends[place[sent_value] != NONE]
    stood = place[records.value[seen]]
    moved = (places.log[stood] != records.log[seen]) | (acknowledged[seen] & (place_of[seen] != stood))
    strange |= _marked(records.log[seen[moved]], logs)
    stored = _marked(sent_value[records.outcome[sends] == OK], count)
    unknown = _marked(records.value[seen[records.outcome[seen] == UNKNOWN]], count) & ~stored
    return Sightings(place=place, strange=strange, unknown=np.flatnonzero(unknown))


@dataclass(frozen=True, kw_only=True)
class Order:
    """Rows that come one after the other, in groups of numbers that only grow."""

    group: Ints
    row: Ints  # of the records

    @property
    def first(self) -> Flags:
        found = np.ones(len(self.row), bool)
        found[1:] = self.group[1:] != self.group[:-1]
        return found


def walks(records: Columns) -> Order:
    """Of each process what it read of a log, in the order of reading."""
    logs = len(records.logs)
    reads = np.flatnonzero(records.poll & records.placed)
    low, width = span(records.process[reads])
    process, distinct = dense(records.process[reads] - low, width)
    walk, _ = dense(process * logs + records.log[reads], len(distinct) * logs)
    order = _in_order(walk, records.invoked[reads], records.op[reads], records.position[reads])
    return Order(group=walk[order], row=reads[order])


def steps(records: Columns, places: Places, walked: Order, final: Flags) -> tuple[Flags, Flags]:
    """Steps backwards: offset <= before.offset; and steps over anything at all: offset > before.offset + 1 and not final.

    The second is wider than the screen: what the final read did not find counts as a record, too.
    """
    logs = len(records.logs)
    of_row = np.full(len(records.log), NONE)
    of_row[places.rows] = places.place
    first, row = walked.first, walked.row
    offset, unit = records.offset[row], records.unit[row]
    index = np.arange(len(row))
    begun = np.maximum.accumulate(np.where(first, index, 0))
    stood = np.maximum.accumulate(np.where(records.moves_on[row], index, -1))
    before = np.concatenate([[-1], stood[:-1]])[: len(row)]
    inside = ~first
    inside[1:] &= unit[1:] == unit[:-1]
    before = np.where(inside, index - 1, before)
    there = before >= begun
    before = np.maximum(before, 0)
    back = there & (offset <= offset[before])
    over = there & (offset > offset[before] + 1) & ~final[row]
    between = of_row[row] - of_row[row[before]] > 1
    return _marked(records.log[row[back]], logs), _marked(records.log[row[over & between]], logs)


def _in_order(group: Ints, *keys: Ints) -> Ints:
    """Rows by group, and within it by `keys`, the first being the most important. Rows mostly come in that order."""
    order = np.argsort(group.astype(np.uint16) if group.max(initial=0) < _FEW else group, kind="stable")
    same = group[order][1:] == group[order][:-1]
    later, tied = np.zeros(len(same), bool), same
    for key in keys:
        ordered = key[order]
        later |= tied & (ordered[1:] > ordered[:-1])
        tied = tied & (ordered[1:] == ordered[:-1])
    if (later | tied | ~same).all():
        return order
    return np.lexsort((*reversed(keys), group))


def streams(records: Columns, sent: Flags) -> Order:
    """Of each client what it sent to a log, in the order of sending."""
    rows = np.flatnonzero(sent & (records.sequence != NONE))
    logs = len(records.logs)
    stream, _ = dense(records.client[rows] * logs + records.log[rows], len(records.clients) * logs)
    order = _in_order(stream, records.sequence[rows], records.offset[rows])
    return Order(group=stream[order], row=rows[order])


def overtaken(records: Columns, sent: Order) -> Flags:
    """offset < overtaken: what a client sent to a log earlier stands behind. Somewhere in the order of sending an offset is
    lower than the one before then, and the other way round.

    Wider than the screen in transactions, whose records it asks only about those before the transaction.
    """
    row = sent.row
    back = ~sent.first[1:] & (records.offset[row[1:]] < records.offset[row[:-1]])
    return _marked(records.log[row[1:][back]], len(records.logs))


def appended(records: Columns, places: Places, seen: Sightings) -> Ints:
    """When what is at a place was invoked, the last of it; NEVER: that was not acknowledged, and nobody read it either."""
    invoked = places.invoked.copy()
    if len(seen.unknown):
        since = lowest(records.value[records.send], records.invoked[records.send], records.values)
        np.maximum.at(invoked, seen.place[seen.unknown], since[seen.unknown])
    return invoked


def inversions(records: Columns, places: Places, invoked: Ints) -> Flags:
    """bound < invoked: an append invoked after something above it had completed (linearizability/pieces.py)."""
    bound = np.minimum(places.read_done, places.above)
    return _marked(places.log[bound < invoked], len(records.logs))


def epochs(records: Columns, final: Flags) -> Flags:
    """last.offset > next.first.offset: somewhere in what the final read found, a leader epoch is lower than the one before.

    Wider than the screen where a log was read several times: all of these readings count.
    """
    rows = np.flatnonzero(final & (records.epoch != NONE))
    order = _in_order(records.log[rows], records.offset[rows], records.epoch[rows])
    row = rows[order]
    log, epoch = records.log[row], records.epoch[row]
    return _marked(log[1:][(log[1:] == log[:-1]) & (epoch[1:] < epoch[:-1])], len(records.logs))


def early_ends(places: Places, log: Ints, log_end: Ints, invoked: Ints) -> Flags:
    """bound < invoked_ns: somebody was told at `invoked` that a log ends at `log_end`, when something at or above that had
    completed. A flag per log."""
    from_here = np.minimum(places.done, places.above)
    found = np.zeros(len(places.begins) - 1, bool)
    for one in np.unique(log).tolist():
        begin, end = places.begins[one], places.begins[one + 1]
        asked = log == one
        place = begin + np.searchsorted(places.offset[begin:end], log_end[asked])
        bound = np.append(from_here, OPEN)[np.where(place < end, place, len(from_here))]
        found[one] = bool((bound < invoked[asked]).any())
    return found
