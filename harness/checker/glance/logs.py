"""A row per log of what one look at its records says (LOOKED): its tally (facts.py), where what was read and acknowledged
lies, and which screens would find nothing in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from harness.checker.glance import screens
from harness.checker.glance.columns import NONE, OK, UNKNOWN, Columns, Flags, Ints, columns, highest, lowest
from harness.checker.glance.screens import Order, Places
from harness.checker.log_pieces import NEVER, OPEN

COUNTS: Final = (
    *("sends", "acknowledged", "unplaced", "reads", "transactional_reads"),
    "offsets_read",
    "unread",  # offsets at which something was acknowledged, and that the final read did not find
)
_NUMBERS: Final = (
    *("first_final", "last_final", "max_offset", "started_ns", "first_epoch", "last_epoch", "last_send_ns"),
    "first_place",  # lowest and highest offset at which anything was acknowledged or read
    "last_place",
    "first_missing",  # lowest of these that the final read did not find
)
FLAGS: Final = ("two_values", "strange", "back", "over", "overtaken", "inverted", "early_end", "deposed")
LOOKED: Final = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        *[pa.field(name, pa.int64(), nullable=False) for name in COUNTS],
        *[pa.field(name, pa.int64()) for name in _NUMBERS],
        *[pa.field(name, pa.bool_(), nullable=False) for name in FLAGS],
    ]
)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was made of the records on the way."""

    records: Columns
    places: Places
    final: Flags
    may_skip: Flags  # of the final read: what it leaves out is lost, not skipped
    walked: Order
    sent: Order
    appended: Ints


def look(records: pa.Table, bounds: pa.Table, fates: pa.Table, *, foreign: bool) -> pa.Table:
    """LOOKED. `records`: columns.READ_COLUMNS of RECORDS, `bounds`: BOUNDS, `fates`: transactions.FATES, of the same runs;
    `foreign`: histories of `jepsen.tests.kafka` (foreign_kafka.py). columns.Unusual."""
    return look_closely(records, bounds, fates, foreign=foreign)[0]


def look_closely(records: pa.Table, bounds: pa.Table, fates: pa.Table, *, foreign: bool) -> tuple[pa.Table, Seen]:
    found = columns(records, fates)
    del records  # half of the memory
    count = len(found.logs)
    acknowledged = found.send & (found.outcome == OK) & found.placed
    read = found.poll & found.placed
    final = read & ((found.outcome == OK) if foreign else found.final)
    places = screens.places(found, acknowledged, final)
    sighted = screens.sightings(found, places, acknowledged)
    walked = screens.walks(found)
    may_skip = final & (not foreign)
    back, over = screens.steps(found, places, walked, may_skip)
    sent = screens.streams(found, found.send & found.placed & (found.outcome >= UNKNOWN) if foreign else acknowledged)
    appended = screens.appended(found, places, sighted)
    flags = {
        "two_values": screens.two_values(found, places),
        "strange": sighted.strange,
        "back": back,
        "over": over,
        "overtaken": screens.overtaken(found, sent),
        "inverted": screens.inversions(found, places, appended),
        "early_end": _early_ends(found, places, bounds),
        "deposed": screens.epochs(found, final),
    }
    runs, topics, partitions = zip(*found.logs, strict=True) if count else ((), (), ())
    named = {"run": runs, "topic": topics, "partition": partitions}
    rows = pa.table(named | _tally(found, places, acknowledged, read, final) | flags, schema=LOOKED)
    seen = Seen(
        records=found,
        places=places,
        final=final,
        may_skip=may_skip,
        walked=walked,
        sent=sent,
        appended=appended,
    )
    return rows, seen


def _tally(
    found: Columns, places: Places, acknowledged: Flags, read: Flags, final: Flags
) -> dict[str, Ints | pa.Array]:
    count = len(found.logs)

    def counted(rows: Flags) -> Ints:
        return np.bincount(found.log[rows], minlength=count)

    def least(numbers: Ints, rows: Flags | slice) -> pa.Array:
        return _or_null(lowest(found.log[rows], numbers[rows], count), OPEN)

    def most(numbers: Ints, rows: Flags | slice) -> pa.Array:
        return _or_null(highest(found.log[rows], numbers[rows], count), NEVER)

    gone = (places.acknowledged | places.read) & ~places.final
    led = found.poll & (found.epoch != NONE)
    return {
        "sends": counted(found.send),
        "acknowledged": counted(acknowledged),
        "unplaced": counted(found.send & (found.outcome == OK) & ~found.placed),
        "reads": counted(read),
        "transactional_reads": counted(read & found.transactional),
        "offsets_read": np.bincount(places.log[places.read], minlength=count),
        "unread": np.bincount(places.log[places.acknowledged & ~places.final], minlength=count),
        "first_final": least(found.process, read & found.final),
        "last_final": most(found.process, read & found.final),
        "max_offset": most(found.offset, found.placed),
        "started_ns": least(found.invoked, slice(None)),
        "first_epoch": least(found.epoch, led),
        "last_epoch": most(found.epoch, led),
        "last_send_ns": most(found.invoked, found.send & found.main),
        "first_place": _or_null(lowest(places.log, places.offset, count), OPEN),
        "last_place": _or_null(highest(places.log, places.offset, count), NEVER),
        "first_missing": _or_null(lowest(places.log[gone], places.offset[gone], count), OPEN),
    }


def _or_null(numbers: Ints, none: int) -> pa.Array:
    return pa.array(numbers, pa.int64(), mask=numbers == none)


def _early_ends(found: Columns, places: Places, bounds: pa.Table) -> Flags:
    known = {log: number for number, log in enumerate(found.logs)}
    asked = [
        (known[log], row["log_end"], row["invoked_ns"])
        for row in bounds.select(["run", "topic", "partition", "log_end", "invoked_ns"]).to_pylist()
        if row["log_end"] is not None and (log := (row["run"], row["topic"], row["partition"])) in known
    ]
    claims = np.array(asked, np.int64).reshape(-1, 3)
    return screens.early_ends(places, claims[:, 0], claims[:, 1], claims[:, 2])
