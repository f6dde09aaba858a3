"""Graphs of transactions that no worker could hold, cut where no cycle can pass.

All transactions are put on a line, each where it was over, or where the first that read of it was, if that was earlier. Then
most dependencies lead forwards, and a cycle needs one that does not:

    ---A-----B---C--------D------E---F----->      C -WR-> B: F comes before E in real time, and the like
              <--                 <---
             [B C]               [E   F]          what lies under arrows that lead backwards, merged: the segments

Whatever goes round passes every point between its ends backwards once more. So each cycle lies within one segment, and a
segment is judged by its own transactions and the dependencies among them: the same cycles, exactly, wherever things are put
on the line. A sound history has few short segments. Segments are shared out over calls of the kernel (cycle_parts.py). A cycle
of millions of transactions has to fit one worker, by some hundred bytes each.

Orders in time are not made here (they would be pairs of everything): what completed before another was invoked stands before
it, unless that was read before it was invoked; then what is between is a segment.

Edges are those of dependencies.py, by joins: who wrote a value, what stands next to it in its log (in ranges).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.checker.cycle_parts import CYCLES_FOUND, MERGED, PART, TRANSACTION, merge, segments, sharing, sweep_part
from harness.checker.ranges import Reduce, at, running
from harness.checker.serializability.graph import RW, WR, WW

_LATEST = 1 << 61  # times beyond stand at one place, so that there is room for two places to a nanosecond
_PLACE_OF_END = f"2 * least(completed, {_LATEST}L)"
_PLACE_OF_BEGIN = f"2 * least(invoked, {_LATEST}L)"
_EDGE = ("run", "source", "target", "kind", "log", "offset")

Keep = Callable[[DataFrame], DataFrame]


class Cut(NamedTuple):
    """How work is cut (history.py): bits of a range of offsets, calls of the kernel, and who persists frames."""

    bits: int | None
    bundles: int
    keep: Keep


def swept(rows: DataFrame, cut: Cut, *, everything: bool) -> DataFrame | None:
    """CYCLES_FOUND rows of the graphs of all runs, from rows as of dependencies.Rows with `run`; a type may have several. None: there
    is no cycle.

    `everything`: of all edges, else of WR and orders in time only.
    """
    keyed = _keyed(rows)
    edges = cut.keep(_write_read(keyed))
    transactions = cut.keep(_placed(_transactions(keyed), edges))
    named = edges.select(*_EDGE)
    if everything:
        versions = cut.keep(_versions(keyed))
        named = named.unionByName(_write_write(versions, cut)).unionByName(_read_write(keyed, versions, cut))
    placed = cut.keep(_between(named, transactions))
    backwards = _backwards(placed, transactions).mapInArrow(merge, MERGED)
    found = segments(backwards.toArrow())
    if not found:
        return None
    parts = placed.selectExpr(*_EDGE, "0L as process", "0L as invoked", "0L as completed", "place", "other_place")
    whole = transactions.selectExpr(
        "run", "unit as source", "unit as target", f"{TRANSACTION} as kind", "0L as log", "-1L as offset",
        "process", "invoked", "completed", "place", "place as other_place",
    )  # fmt: skip
    shared = parts.unionByName(whole).mapInArrow(sharing(found, cut.bundles), PART)
    return shared.groupBy("run", "bundle").applyInArrow(sweep_part, CYCLES_FOUND)


def _keyed(rows: DataFrame) -> DataFrame:
    """With `takes_part`, and `writer`: the transaction that wrote the row's value, the first of those, null if none did."""
    value = Window.partitionBy("run", "key")
    seen = rows.withColumn("seen", F.max(F.expr("not write and happened")).over(value))
    part = seen.withColumn("takes_part", F.expr("happened or (write and seen)")).drop("seen")
    wrote = F.min(F.expr("if(write and takes_part, struct(invoked, unit), null)")).over(value)
    return part.withColumn("writer", wrote["unit"])


def _transactions(keyed: DataFrame) -> DataFrame:
    return (
        keyed.where("takes_part")
        .groupBy("run", "unit")
        .agg(*[F.min(name).alias(name) for name in ("process", "invoked", "completed")])
    )


def _write_read(keyed: DataFrame) -> DataFrame:
    """_EDGE, and completed: of who read."""
    read = keyed.where("takes_part and not write and writer is not null and writer <> unit")
    pairs = read.groupBy("run", F.col("writer").alias("source"), F.col("unit").alias("target")).agg(
        F.min(F.struct("log", "offset")).alias("record"), F.min("completed").alias("completed")
    )
    return pairs.selectExpr(
        "run", "source", "target", f"{WR} as kind", "record.log as log", "record.offset as offset", "completed"
    )


def _placed(transactions: DataFrame, write_read: DataFrame) -> DataFrame:
    """With `place`: where it stands on the line."""
    shown = write_read.groupBy("run", F.col("source").alias("unit")).agg(
        F.expr(f"min({_PLACE_OF_END}) - 1").alias("shown")
    )
    return (
        transactions.join(shown, ["run", "unit"], "left")
        .withColumn("place", F.expr(f"least({_PLACE_OF_END}, shown)"))
        .drop("shown")
    )


def _versions(keyed: DataFrame) -> DataFrame:
    """run, log, offset, version (offset, writer): the records of each log whose writers are known."""
    return (
        keyed.where("offset >= 0")
        .groupBy("run", "log", "offset")
        .agg(F.min(F.struct("key", "writer"))["writer"].alias("writer"))
        .where("writer is not null")
        .selectExpr("run", "log", "offset", "struct(offset, writer) as version")
    )


def _write_write(versions: DataFrame, cut: Cut) -> DataFrame:
    following = running(
        versions, {"before": ("version", Reduce.MAX)}, group=["run", "log"], order="offset", bits=cut.bits
    )
    return following.where("before.writer <> version.writer").selectExpr(
        "run", "before.writer as source", "version.writer as target", f"{WW} as kind", "log", "offset"
    )


def _read_write(keyed: DataFrame, versions: DataFrame, cut: Cut) -> DataFrame:
    """From how far each transaction read each log, to who wrote what comes next."""
    read = (
        keyed.where("takes_part and not write and offset >= 0")
        .groupBy("run", "unit", "log")
        .agg(F.max("offset").alias("offset"))
    )
    following = at(
        read, versions, "following", "version", Reduce.MIN, group="log", order="offset", bits=cut.bits, descending=True
    )
    return following.where("following.writer <> unit").selectExpr(
        "run", "unit as source", "following.writer as target", f"{RW} as kind", "log", "following.offset as offset"
    )


def _between(edges: DataFrame, transactions: DataFrame) -> DataFrame:
    """With `place` of the source and `other_place` of the target."""
    sources = transactions.selectExpr("run", "unit as source", "place")
    targets = transactions.selectExpr("run", "unit as target", "place as other_place")
    return edges.join(sources, ["run", "source"]).join(targets, ["run", "target"])


def _backwards(edges: DataFrame, transactions: DataFrame) -> DataFrame:
    """run, low, high: between which places a dependency leads backwards.

    A process does one thing at a time, so what it did before mostly stands before; where it does not, it is a segment. That
    looks at one process in one worker, at a row per transaction.
    """
    of_records = edges.where("place >= other_place").selectExpr("run", "other_place as low", "place as high")
    early = transactions.where(f"place < {_PLACE_OF_BEGIN} or invoked >= {_LATEST}L")
    in_time = early.selectExpr("run", "place as low", f"{_PLACE_OF_BEGIN} as high")
    walk = Window.partitionBy("run", "process").orderBy("invoked", "unit")
    of_process = (
        transactions.where("process >= 0")
        .withColumn("before", F.lag("place").over(walk))
        .where("before >= place")
        .selectExpr("run", "place as low", "before as high")
    )
    return of_records.unionByName(in_time).unionByName(of_process)
