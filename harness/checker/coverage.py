"""What groups have committed against what was handed to their members: nothing below a committed offset may be left out.

    record x stands in the log, at or above where the group began; some commit above x was over before any member had been
    handed x, or nobody ever was:
        records at or above x had not been handed to anybody by then     committed-past-processed
        they had                                                         group-skip

One pass over the log from its end, per group: commits and records by offset, with the earliest of the commits above carried
down (as in early_ends of linearizable.py), and the latest of the polls above.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.checker.anomalies import COMMITTED_PAST, GROUP_SKIP, AnomalyType
from harness.checker.check import Check, Need, Search, finding
from harness.checker.groups import NEVER_ASKED, TAKEN_UP_LATE, partitions
from harness.checker.history import LOG, READ, History
from harness.checker.ranges import Reduce, running
from harness.checker.sentences import log_name, seconds, text
from workloads.op import OpKind

_NEVER = (1 << 63) - 1
_COMMITS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("committed", pa.int64(), nullable=False),
        pa.field("op", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("until_ns", pa.int64(), nullable=False),
        pa.field("begins", pa.int64(), nullable=False),  # lowest offset at which the group took the partition up
    ]
)
_MEMBERS = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("run", "group", "client")])


def _commits(history: History) -> pa.Table:
    """Commits that succeeded, with where their group began."""
    rows = []
    for place, one in partitions(history).items():
        starts = [row["offset"] for row in one.rows if row["kind"] == OpKind.ASSIGN]
        begins = min((0 if start is None else start for start in starts), default=None)
        if begins is None:
            continue
        rows += [
            {
                **place._asdict(),
                "committed": said.offset,
                "op": said.row["op"],
                "client": said.row["client"],
                "until_ns": said.until_ns,
                "begins": begins,
            }
            for said in one.commits
            if said.until_ns is not None
        ]
    return pa.Table.from_pylist(rows, schema=_COMMITS)


def uncovered(history: History) -> DataFrame:
    """Records that a commit left out: run, group, log, offset, handed_ns, bound (when the commit was over), past; kept."""
    return history.once(_uncovered)


def _uncovered(history: History) -> DataFrame:
    table = _commits(history)
    commits = history.frame(table).withColumn("log", F.expr(LOG))
    members = {(row["run"], row["group"], row["client"]) for one in partitions(history).values() for row in one.rows}
    named = [dict(zip(_MEMBERS.names, member, strict=True)) for member in sorted(members)]
    clients = history.frame(pa.Table.from_pylist(named, schema=_MEMBERS))
    handed = (
        history.records.where(f"{READ} and outcome = 'ok'")
        .join(F.broadcast(clients), ["run", "client"])
        .groupBy("group", "log", "offset")
        .agg(F.min("completed_ns").alias("handed_ns"))
    )
    begins = commits.groupBy("run", "group", "log").agg(F.min("begins").alias("begins"))
    present = (
        history.known(history.ledger)
        .where("final_min is not null and offset < complete_to and not compacted")
        .select("log", "offset")
        .join(F.broadcast(begins), "log")
        .where("offset >= begins")
        .join(handed, ["group", "log", "offset"], "left")
    )
    points = present.selectExpr(
        "run", "group", "log", "offset", "2 * offset as slot", "handed_ns", "cast(null as long) as until_ns"
    ).unionByName(
        commits.selectExpr(
            "run", "group", "log", "committed as offset", "2 * committed - 1 as slot",
            "cast(null as long) as handed_ns", "until_ns",
        )
    )  # fmt: skip
    bounded = running(
        points,
        {"bound": ("until_ns", Reduce.MIN), "others_ns": ("handed_ns", Reduce.MIN)},
        group=["group", "log"],
        order="slot",
        bits=None if history.bits is None else history.bits + 1,  # two slots to an offset
        descending=True,
    ).where(f"until_ns is null and bound < coalesce(handed_ns, {_NEVER})")
    return history.keep(
        bounded.selectExpr(
            "run", "group", "log", "offset", "handed_ns", "bound", "coalesce(others_ns > bound, true) as past"
        )
    )


def left_out(history: History, suspects: DataFrame, *, kind: AnomalyType) -> DataFrame:
    """Each with the commit."""
    commits = history.frame(_commits(history)).withColumn("log", F.expr(LOG))
    commit = (
        commits.selectExpr("group", "log", "until_ns as bound", "struct(op, client, committed) as made")
        .groupBy("group", "log", "bound")
        .agg(F.max("made").alias("commit"))
    )
    standing = history.final_reads.groupBy("log", "offset").agg(
        F.min("value").alias("value"), F.min("op").alias("read_op")
    )
    found = suspects.join(commit, ["group", "log", "bound"], "left").join(standing, ["log", "offset"], "left")
    handed = F.when(F.col("handed_ns").isNull(), F.lit("was never handed to any member")).otherwise(
        text("was handed to a member only at {when}", when=seconds("handed_ns"))
    )
    return history.known(found).select(
        *finding(
            kind,
            text(
                "{who} committed {committed} for group {group} in {log} at {at}, but the record at offset {offset} {handed}.",
                who=F.col("commit.client"),
                committed=F.col("commit.committed"),
                group=F.col("group"),
                log=log_name(),
                at=seconds("bound"),
                offset=F.col("offset"),
                handed=handed,
            ),
            ops=[F.col("commit.op"), F.col("read_op")],
            since=F.col("bound"),
            until=F.coalesce("handed_ns", "bound"),
            offset=F.col("offset"),
            value=F.col("value"),
            detail=[F.col("group")],
        )
    )


def _search(kind: AnomalyType, suspect: str) -> Search:
    return Search(table=uncovered, suspect=suspect, explain=partial(left_out, kind=kind))


CHECKS = (
    Check(
        kind=COMMITTED_PAST,
        engine="spark-sql",
        needs=Need.GROUPS,
        searches=(_search(COMMITTED_PAST, "past"),),
        tell=NEVER_ASKED,
        optional=True,
    ),
    Check(
        kind=GROUP_SKIP,
        engine="spark-sql",
        needs=Need.GROUPS,
        searches=(_search(GROUP_SKIP, "not past"),),
        tell=TAKEN_UP_LATE,
        optional=True,
    ),
)
