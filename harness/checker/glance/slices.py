"""Histories of which no worker can hold all records: where their records are, and how they are cut.

A run is cut in time, so that few row groups are read twice, but the cuts are offsets, so that what belongs together stays
together: of each log a slice has the offsets from one cut up to the next, whoever wrote or read them, and whenever.

    row groups, by time     log 0 up to   log 1 up to
    sends                   999           120
    sends                   1999          340      <- cut: slice 0 has offsets .. 1999 of log 0 and .. 340 of log 1
    sends                   2999          355
    the final read          2999          355      <- the end: slice 1 has what is above

A record without an offset may be of any slice: all slices of its log get it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.checker.glance.columns import READ_COLUMNS, TEXTS, Flags, Ints, Unusual, coded, dense, span
from harness.checker.log_pieces import NEVER, OPEN

HELD: Final = pa.schema(
    [  # a row per row group and log
        pa.field("file", pa.int32()),
        pa.field("group", pa.int32()),
        pa.field("started_ns", pa.int64()),  # the first invocation in the row group
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("rows", pa.int64()),  # with an offset
        pa.field("lowest", pa.int64()),  # offset
        pa.field("highest", pa.int64()),
    ]
)
_SURVEYED = ("topic", "partition", "offset", "invoked_ns")
MOST_READ = 8  # times, on average, that a row is read before it is left to Spark
_FAR = 1 << 62  # offsets from here on are as good as the end of all

Log = tuple[str, int]  # topic, partition


class Group(NamedTuple):
    """A row group."""

    file: int
    number: int


class Range(NamedTuple):
    """Offsets: `low` <= offset < `high`."""

    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class Slice:
    ranges: Mapping[Log, Range]
    groups: Sequence[Group]


def survey(files: Sequence[str], groups: Sequence[Group]) -> tuple[pa.Table, pa.Table]:
    """HELD of these row groups, and READ_COLUMNS of their records without an offset."""
    held, nowhere = [], []
    with _reading(files) as read:
        for group in groups:
            table = read(group, _SURVEYED)
            held.append(_held(group, table))
            if table["offset"].null_count:
                whole = read(group, READ_COLUMNS)
                nowhere.append(whole.filter(pc.is_null(whole["offset"])))
    return pa.concat_tables([HELD.empty_table(), *held]), _joined(nowhere)


def _held(group: Group, table: pa.Table) -> pa.Table:
    found = table.group_by(["topic", "partition"]).aggregate(
        [("offset", "count"), ("offset", "min"), ("offset", "max")]
    )
    rows = found.num_rows
    started = pc.min(table["invoked_ns"]).as_py()
    return pa.table(
        [
            pa.array([group.file] * rows, pa.int32()),
            pa.array([group.number] * rows, pa.int32()),
            pa.array([started] * rows, pa.int64()),
            found["topic"].cast(pa.string()),
            *(found[name] for name in ("partition", "offset_count", "offset_min", "offset_max")),
        ],
        schema=HELD,
    )


def records(files: Sequence[str], one: Slice, nowhere: pa.Table, *, most: int) -> pa.Table:
    """The records of a slice. `nowhere`: those of the run that have no offset. Unusual: there are more than `most`, as offsets
    are not spread as evenly as `slices` has to take them to be."""
    tables = [nowhere.filter(pa.array(_among(nowhere, one.ranges)))]
    with _reading(files) as read:
        for group in one.groups:
            table = read(group, READ_COLUMNS)
            inside = _inside(table, one.ranges)
            if inside.any():
                tables.append(table if inside.all() else table.filter(pa.array(inside)))
            if sum(table.num_rows for table in tables) > most:
                raise Unusual(f"a slice of more than {most:,} records")
    return _joined(tables)


def parquet(file: str) -> pq.ParquetFile:
    """A file of records, as a look reads it: few different texts as dictionaries."""
    return pq.ParquetFile(file, read_dictionary=list(TEXTS), page_checksum_verification=True)


@contextmanager
def _reading(files: Sequence[str]) -> Iterator[Callable[[Group, Sequence[str]], pa.Table]]:
    """Reads columns of row groups; each file is opened once."""
    opened: dict[int, pq.ParquetFile] = {}
    with ExitStack() as stack:

        def read(group: Group, columns: Sequence[str]) -> pa.Table:
            if group.file not in opened:
                opened[group.file] = stack.enter_context(parquet(files[group.file]))
            return opened[group.file].read_row_group(group.number, columns=list(columns))

        yield read


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """One table of which a text is either a dictionary in all parts or in none."""
    if not tables:
        return pa.table({name: pa.array([], pa.null()) for name in READ_COLUMNS})
    return pa.concat_tables([table for table in tables if table.num_rows] or tables[:1], promote_options="permissive")


def _inside(table: pa.Table, ranges: Mapping[Log, Range]) -> Flags:
    logs, log = _logs(table)
    low, high = np.array([ranges.get(one, (0, 0)) for one in logs], np.int64).reshape(-1, 2).T
    offset = pc.fill_null(table["offset"], -1).to_numpy()
    placed = pc.is_valid(table["offset"]).to_numpy()
    found: Flags = placed & (offset >= low[log]) & (offset < high[log])
    return found


def _among(table: pa.Table, ranges: Mapping[Log, Range]) -> Flags:
    logs, log = _logs(table)
    found: Flags = np.array([one in ranges for one in logs], bool)[log]
    return found


def _logs(table: pa.Table) -> tuple[list[Log], Ints]:
    """Which logs there are, and of each row which."""
    if not table.num_rows:
        return [], np.zeros(0, np.int64)
    topic = coded(table["topic"])
    names = topic.names
    partition = table["partition"].to_numpy().astype(np.int64)
    first, width = span(partition)
    log, distinct = dense((partition - first) * len(names) + topic.codes, width * len(names))
    return [(names[one % len(names)], one // len(names) + first) for one in distinct.tolist()], log


def groups_of(files: Sequence[Path]) -> list[Group]:
    """All row groups."""
    return [
        Group(place, one) for place, file in enumerate(files) for one in range(pq.read_metadata(file).num_row_groups)
    ]


def slices(held: pa.Table, *, wanted: int, most: int) -> list[Slice] | None:
    """Slices of about `wanted` rows, none of more than `most`; None: that cannot be done without reading most of it again and
    again. `held`: HELD of a run."""
    laid = _Laid.out(held)
    if laid.highest.max(initial=NEVER) >= _FAR:
        return None
    cuts = _cuts(laid, wanted=wanted)
    ends = [np.full(len(laid.logs), NEVER), *cuts, np.full(len(laid.logs), OPEN)]
    found = [_slice(laid, low, high) for low, high in pairwise(ends)]
    rows = [laid.rows_below(high) - laid.rows_below(low) for low, high in pairwise(ends)]
    read = sum(laid.group_rows[group] for one in found for group in one.groups)
    if max(rows) > most or read > MOST_READ * max(sum(laid.group_rows.values()), 1):
        return None
    return found


@dataclass(frozen=True, kw_only=True)
class _Laid:
    """HELD in the order of time, as arrays."""

    logs: list[Log]
    groups: list[Group]  # of each row
    group_rows: Mapping[Group, int]
    log: Ints
    rows: Ints
    lowest: Ints
    highest: Ints

    @classmethod
    def out(cls, held: pa.Table) -> _Laid:
        rows = held.sort_by([(name, "ascending") for name in ("started_ns", "file", "group")]).to_pylist()
        logs = sorted({(row["topic"], row["partition"]) for row in rows})
        numbers = {log: number for number, log in enumerate(logs)}
        groups = [Group(row["file"], row["group"]) for row in rows]
        group_rows = dict.fromkeys(groups, 0)
        for group, row in zip(groups, rows, strict=True):
            group_rows[group] += row["rows"]
        return cls(
            logs=logs,
            groups=groups,
            group_rows=group_rows,
            log=np.array([numbers[row["topic"], row["partition"]] for row in rows], np.int64),
            rows=np.array([row["rows"] for row in rows], np.int64),
            lowest=np.array([OPEN if row["lowest"] is None else row["lowest"] for row in rows], np.int64),
            highest=np.array([NEVER if row["highest"] is None else row["highest"] for row in rows], np.int64),
        )

    def rows_below(self, cut: Ints) -> float:
        """About how many rows lie below a cut, as if offsets were spread evenly in each row group."""
        at = cut[self.log]
        whole, none = at > self.highest, at <= self.lowest
        parts = ~whole & ~none
        share = (at[parts] - self.lowest[parts]) / (self.highest[parts] - self.lowest[parts] + 1)
        return float(self.rows[whole].sum() + (self.rows[parts] * share).sum())

    def frontiers(self) -> Iterator[Ints]:
        """One past the highest offset of each log so far, after each row group."""
        frontier = np.full(len(self.logs), NEVER)
        for place, group in enumerate(self.groups):
            if self.rows[place]:
                one = self.log[place]
                frontier[one] = max(frontier[one], self.highest[place] + 1)
            if place + 1 == len(self.groups) or self.groups[place + 1] != group:
                yield frontier.copy()


def _cuts(laid: _Laid, *, wanted: int) -> list[Ints]:
    cuts: list[Ints] = []
    begun, below, before = 0.0, 0.0, None
    for frontier in laid.frontiers():
        if before is not None and (frontier == before).all():
            continue
        rows = laid.rows_below(frontier)
        if rows - begun > wanted and before is not None and below > begun:
            cuts.append(before)
            begun = below
        before, below = frontier, rows
    return cuts


def _slice(laid: _Laid, low: Ints, high: Ints) -> Slice:
    """What lies between two cuts. A log that has nothing there is not in it; one of which nothing has an offset is in the last."""
    there = low < high
    ranges = {log: Range(int(low[number]), int(high[number])) for number, log in enumerate(laid.logs) if there[number]}
    touched = there[laid.log] & (laid.rows > 0) & (laid.highest >= low[laid.log]) & (laid.lowest < high[laid.log])
    groups = dict.fromkeys(laid.groups[place] for place in np.flatnonzero(touched).tolist())
    return Slice(ranges=ranges, groups=list(groups))
