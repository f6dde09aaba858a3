"""What one process reads of a log only goes forward, and misses nothing that is there.

Kafka promises this to one reader whose position is not moved. Two walks, each with a rule against going back and one
against passing over:

    inside    the records of one poll, or of all polls of one transaction, one after the other     int-nonmonotonic-poll, int-poll-skip
    outside   the first of them, after where the process stood                                     nonmonotonic-poll, poll-skip

    offsets of one process in one log:   4 5 6 | 9 10 10 | 10 11
                                               |      |    `- 10 after 10, in a later poll: nonmonotonic-poll
                                               |      `- 10 after 10: int-nonmonotonic-poll
                                               `- 7 or 8 is in the log: poll-skip; neither (control records, compaction, expired): fine

A process stands where its last successful poll left it. A poll that failed, or whose transaction was not committed, is
asked like any other, but moves nobody: its records have to come again. Its own walk inside is asked too. A step with an
assign or subscribe op of the process in between is left out (workloads start a new process then anyway), but for logs
that the op kept (foreign histories tell). A rebalance in the middle of a foreign op excuses its walk inside.

"In the log" means: the final read found it; where there was no complete final read: it was acknowledged or read by
anybody; in foreign histories: anybody read it. So a record that was lost is reported as lost, not as skipped by everyone
after. The final read itself is not asked for skips: what it misses is what loss.py is about.

Source: the walks of `jepsen.tests.kafka`, there over indices of a version order; here over offsets, which two values at
one offset cannot confuse.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.checker.anomalies import (
    INT_NONMONOTONIC_POLL,
    INT_POLL_SKIP,
    NONMONOTONIC_POLL,
    POLL_SKIP,
    AnomalyType,
)
from harness.checker.check import Check, Need, Search, finding
from harness.checker.history import READ, History
from harness.checker.ranges import Reduce, running
from harness.checker.sentences import log_name, process, seconds, text
from harness.history.formats.kafka import PART_BITS
from reports.verdict import Severity

UNIT = "coalesce(transaction, op)"  # ops of one transaction belong together
_WALK = "xxhash64(run, process, topic, partition)"
_MOVES_ON = "outcome = 'ok' and coalesce(fate, 'committed') = 'committed'"
_OPERATION = f"shiftright(op, {PART_BITS})"  # of a foreign history
_SUBSCRIBED = "its process had subscribed, so that its group may have moved it"


def steps(history: History) -> DataFrame:
    """Pairs of consecutive reads of one process in one log that are not offset after offset; kept, since several checks
    read it. inside: within one poll or transaction.
    """
    return history.once(_steps)


def _steps(history: History) -> DataFrame:
    walk = Window.partitionBy("walk").orderBy("invoked_ns", "op", "position")
    earlier = walk.rowsBetween(Window.unboundedPreceding, -1)
    place = F.struct(F.col("last").alias("offset"), "op", "completed_ns")
    reads = history.records.where(READ).selectExpr(
        f"{_WALK} as walk",
        "log",
        "process",
        "op",
        f"{UNIT} as unit",
        "position",
        "offset",
        "invoked_ns",
        "completed_ns",
        f"phase = 'final' and {str(not history.foreign).lower()} as final",
        f"{_MOVES_ON} as moves_on",
    )
    hops, within = (reads.withColumn("last", F.col("offset")), None) if history.bits is None else _hops(history, reads)
    paired = hops.withColumns(
        {
            "before": F.lag(place).over(walk),
            "inside": F.lag("unit").over(walk) == F.col("unit"),
            "stood": F.last(F.when(F.col("moves_on"), place), ignorenulls=True).over(earlier),
        }
    ).withColumn("before", F.expr("if(inside, before, stood)"))
    if within is not None:
        paired = paired.select(*within.columns).unionByName(within)
    return history.keep(
        paired.where("offset <> before.offset + 1").selectExpr(
            "log",
            "process",
            "op",
            "offset",
            "invoked_ns",
            "completed_ns",
            "final",
            "inside",
            "before.offset as before_offset",
            "before.op as before_op",
            "before.completed_ns as before_completed_ns",
        )
    )


_UNIFORM = """
completed_ns = latest_ns and final = any_final and process = other and log = other_log and unit = other_unit
and moves_on = all_move_on
"""
_STRAIGHT = "uniform and slope = high_slope and rows = high - low + 1 and 2 * places = rows * (low + high)"
_OF_A_POLL = ("log", "process", "unit", "completed_ns", "final", "moves_on")


def _hops(history: History, reads: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Reads with one row per poll (from `offset` to `last`): a long walk has few steps then. And what happens within polls
    whose records are not offset after offset, if there are any: rows with what stands before each.

    Positions of a poll are distinct, so as many records as positions from the lowest to the highest, each as far from its
    offset, are one after the other. Polls whose rows do not agree about the poll keep a row per record.
    """
    poll = ["walk", "invoked_ns", "op"]
    polls = history.keep(
        reads.groupBy(*poll)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.min("position").cast("long").alias("low"),
            F.max("position").cast("long").alias("high"),
            F.sum("position").alias("places"),
            F.expr("min(offset - position)").alias("slope"),
            F.expr("max(offset - position)").alias("high_slope"),
            F.min("completed_ns").alias("completed_ns"),
            F.max("completed_ns").alias("latest_ns"),
            F.min("final").alias("final"),
            F.max("final").alias("any_final"),
            F.min("process").alias("process"),
            F.max("process").alias("other"),
            F.min("log").alias("log"),
            F.max("log").alias("other_log"),
            F.min("unit").alias("unit"),
            F.max("unit").alias("other_unit"),
            F.max("moves_on").alias("moves_on"),
            F.min("moves_on").alias("all_move_on"),
        )
        .withColumn("uniform", F.expr(f"coalesce({_UNIFORM}, false)"))
        .withColumn("straight", F.expr(_STRAIGHT))
    )
    crooked = polls.where("not straight").select(*poll, "uniform")
    straight = polls.where("straight").selectExpr(
        *[column for column in reads.columns if column not in ("offset", "position")],
        "cast(low as int) as position",
        "low + slope as offset",
        "high + slope as last",
    )
    count = crooked.count()
    if not count:
        return straight, None
    rows = reads.join(history.few(crooked, count), poll)
    single = rows.where("not uniform").drop("uniform").withColumn("last", F.col("offset"))
    bent = rows.where("uniform").drop("uniform")
    ends = bent.groupBy(*poll).agg(
        *[F.min(name).alias(name) for name in (*_OF_A_POLL, "position")],
        F.min_by("offset", "position").alias("offset"),
        F.max_by("offset", "position").alias("last"),
    )
    place = F.struct("offset", "op", "completed_ns")
    within = bent.select(
        "log", "process", "op", "offset", "invoked_ns", "completed_ns", "final", F.lit(True).alias("inside"),
        F.lag(place).over(Window.partitionBy(*poll).orderBy("position")).alias("before"),
    )  # fmt: skip
    return straight.unionByName(single).unionByName(ends), within


_BACK = {
    NONMONOTONIC_POLL: "{who} read offset {offset} of {log} at {when}, after it had already read offset {before} at {then}.",
    INT_NONMONOTONIC_POLL: "{who} read offset {offset} of {log} right after offset {before}, in one {unit} that ended at {when}.",
}
_OVER = {
    POLL_SKIP: "{who} read offset {offset} of {log} at {when} right after offset {before}, and passed over {skipped} of "
    "the log's records.",
    INT_POLL_SKIP: "{who} read offset {offset} of {log} right after offset {before}, in one {unit} that ended at {when}, and "
    "passed over {skipped} of the log's records.",
}


def backwards(history: History, suspects: DataFrame, *, kind: AnomalyType) -> DataFrame:
    """Steps backwards, or on the spot."""
    return _explained(history, suspects, kind, _BACK[kind])


def skips(history: History) -> DataFrame | None:
    """Steps over records that are in the log: those of `steps`, with `skipped`; kept. None: no step leaves anything out.

    A log with transactions has a marker after each, so that every reader steps over thousands of offsets without a record:
    all steps are settled at once.
    """
    return history.once(_skips)


def _skips(history: History) -> DataFrame | None:
    over = steps(history).where("offset > before_offset + 1 and not final")
    count = over.count()
    return history.keep(passed_over(history, history.few(over, count))) if count else None


def skipped(history: History, suspects: DataFrame, *, kind: AnomalyType) -> DataFrame:
    return _explained(history, suspects, kind, _OVER[kind])


def passed_over(history: History, suspects: DataFrame) -> DataFrame:
    """Those of the steps (log, before_offset, offset, ...) that have records of the log between them: `skipped` of them."""
    gaps = history.known(suspects).where("not compacted").select(*suspects.columns)
    numbered = _numbered(history, gaps)
    ahead = numbered.selectExpr("log", "offset", "below")
    behind = numbered.selectExpr("log", "offset as before_offset", "below + present as up_to")
    return (
        gaps.join(ahead, ["log", "offset"])
        .join(behind, ["log", "before_offset"])
        .withColumn("skipped", F.expr("below - up_to"))
        .where("skipped > 0")
        .drop("below", "up_to")
    )


_PRESENT = """
case
    when complete_to is null then 1
    when offset < log_start or offset >= log_end then 0
    when offset < complete_to then cast(final_min is not null as int)
    else 1
end
"""
_PRESENT_IN_FOREIGN = "cast(read_min is not null as int)"


def _numbered(history: History, suspects: DataFrame) -> DataFrame:
    """Every known offset of the suspects' logs: whether its record is `present` in the log, and how many are `below` it."""
    logs = F.broadcast(suspects.select("log").distinct())
    present = _PRESENT_IN_FOREIGN if history.foreign else _PRESENT
    known = history.known(history.ledger.join(logs, "log", "left_semi")).selectExpr(
        "log", "offset", f"cast({present} as long) as present"
    )
    counted = running(known, {"below": ("present", Reduce.SUM)}, group=["log"], order="offset", bits=history.bits)
    return counted.withColumn("below", F.coalesce("below", F.lit(0)))


def _explained(history: History, found: DataFrame, kind: AnomalyType, sentence: str) -> DataFrame:
    inside = kind in (INT_NONMONOTONIC_POLL, INT_POLL_SKIP)
    known = history.known(found)
    judged = _without_rebalances(history, known) if inside else _unmoved(history, known)
    named = judged.join(_clients(history, found), ["log", "op", "offset"], "left")
    skipped = F.col("skipped") if "skipped" in found.columns else F.lit(0)
    if not inside:
        named = _with_subscribers(history, named)
    return named.select(
        *finding(
            kind,
            text(
                sentence,
                who=process("process", "client"),
                offset=F.col("offset"),
                log=log_name(),
                when=seconds("completed_ns"),
                before=F.col("before_offset"),
                then=seconds("before_completed_ns"),
                skipped=skipped,
                unit=F.when(F.col("op") == F.col("before_op"), F.lit("poll")).otherwise(F.lit("transaction")),
            ),
            ops=[F.col("op"), F.col("before_op")],
            since=F.coalesce("before_completed_ns", "invoked_ns"),
            until=F.coalesce("completed_ns", "invoked_ns"),
            offset=F.col("offset"),
            value=F.col("value"),
            severity=None if inside else _unless_expected(kind, F.col("moved_because")),
            because=None if inside else F.col("moved_because"),
            detail=[F.col("process"), F.col("before_offset")],
        )
    )


def _unmoved(history: History, known: DataFrame) -> DataFrame:
    """Steps in which nobody moved the process: no assign or subscribe came between that did not keep the log."""
    moves = history.ops.where("kind in ('assign', 'subscribe') and outcome <> 'fail'").selectExpr(
        "run as moved_run", "process as moved_process", "op as move", "invoked_ns as moved_ns"
    )
    step = ["run", "topic", "partition", "log", "op", "offset", "before_op"]
    moved = known.select(*step, "process", "before_completed_ns", "invoked_ns").join(
        F.broadcast(moves),
        F.expr(
            "run = moved_run and process = moved_process and moved_ns >= before_completed_ns and moved_ns <= invoked_ns"
        ),
    )
    if "kept" in history.small:
        kept = history.frame(history.small["kept"]).selectExpr("run", "op as move", "topic", "partition")
        moved = moved.join(F.broadcast(kept), ["run", "move", "topic", "partition"], "left_anti")
    return known.join(
        moved.select("log", "op", "offset", "before_op"), ["log", "op", "offset", "before_op"], "left_anti"
    )


def _without_rebalances(history: History, known: DataFrame) -> DataFrame:
    """Steps of ops in whose middle the log was not given away or taken up."""
    if not history.small.get("rebalances"):
        return known
    rebalanced = (
        history.frame(history.small["rebalances"])
        .selectExpr("run", "topic", "partition", f"{_OPERATION} as operation")
        .distinct()
    )
    operations = known.withColumn("operation", F.expr(_OPERATION))
    return operations.join(F.broadcast(rebalanced), ["run", "topic", "partition", "operation"], "left_anti")


def _with_subscribers(history: History, steps: DataFrame) -> DataFrame:
    """moved_because: foreign consumers that subscribe may be moved by their group without a word; ours would be new
    processes."""
    if not history.foreign:
        return steps.withColumn("moved_because", F.lit(None).cast("string"))
    subscribed = history.ops.where("kind = 'subscribe'").select("run", "process").distinct()
    return steps.join(subscribed.withColumn("moved_because", F.lit(_SUBSCRIBED)), ["run", "process"], "left")


def _unless_expected(kind: AnomalyType, because: Column) -> Column:
    return F.when(because.isNotNull(), F.lit(str(Severity.INFORMATION))).otherwise(F.lit(str(kind.severity)))


def _clients(history: History, found: DataFrame) -> DataFrame:
    wanted = found.select("log", "op", "offset").distinct()
    reads = history.records.where("kind = 'poll'").join(wanted, ["log", "op", "offset"], "left_semi")
    return reads.groupBy("log", "op", "offset").agg(F.min("client").alias("client"), F.min("value").alias("value"))


def _check(kind: AnomalyType, search: Search) -> Check:
    return Check(kind=kind, engine="spark-sql", needs=Need.READ, searches=(search,))


def _back(kind: AnomalyType, where: str) -> Check:
    suspect = f"offset <= before_offset and {where}"
    return _check(kind, Search(table=steps, suspect=suspect, explain=partial(backwards, kind=kind)))


def _over(kind: AnomalyType, where: str) -> Check:
    return _check(kind, Search(table=skips, suspect=where, explain=partial(skipped, kind=kind)))


CHECKS = (
    _back(NONMONOTONIC_POLL, "not inside"),
    _back(INT_NONMONOTONIC_POLL, "inside"),
    _over(POLL_SKIP, "not inside"),
    _over(INT_POLL_SKIP, "inside"),
)
