"""Sentences that a person understands, as columns.

    text("{who} read offset {offset} of {log}", who=process("process", "client"), offset=F.col("offset"), log=log_name())

gives "w1.c0 process 9 read offset 12 of log-0". A hole that is null says "?", so that a missing detail never swallows
the sentence.
"""

from __future__ import annotations

import string

from pyspark.sql import Column
from pyspark.sql import functions as F

from reports.wording import PROCESS_MASK


def text(template: str, **holes: Column) -> Column:
    parts: list[Column] = []
    for literal, name, _, _ in string.Formatter().parse(template):
        if literal:
            parts.append(F.lit(literal))
        if name is not None:
            parts.append(F.coalesce(holes[name].cast("string"), F.lit("?")))
    return F.concat(*parts)


def log_name() -> Column:
    """log-0, as Kafka's own tools and logs call a topic-partition."""
    return F.concat(F.col("topic"), F.lit("-"), F.col("partition").cast("string"))


def process(number: str, client: str) -> Column:
    """w1.c0 process 9: the number within its client, as people know it (reports/wording.py); process 9 alone in foreign
    histories, whose clients are processes.
    """
    within = F.col(number).bitwiseAND(F.lit(PROCESS_MASK))
    both = F.concat(F.col(client), F.lit(" process "), within.cast("string"))
    return F.when(F.col(client).startswith("process "), F.col(client)).otherwise(both)


def seconds(nanoseconds: str) -> Column:
    """12.345 s, counted from the start of the run; `never` for an op that did not complete."""
    since = (F.col(nanoseconds) - F.col("origin_ns")) / F.lit(1e9)
    return F.coalesce(F.concat(F.format_string("%.3f", since), F.lit(" s")), F.lit("never"))


def quoted(value: str) -> Column:
    """The value in quotes, cut at 80 characters; `no value` for a record without one."""
    column = F.col(value)
    short = F.when(F.length(column) > 80, F.concat(F.substring(column, 1, 77), F.lit("..."))).otherwise(column)
    return F.coalesce(F.concat(F.lit('"'), short, F.lit('"')), F.lit("no value"))
