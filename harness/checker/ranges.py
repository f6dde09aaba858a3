"""What lies before a row in its group, for groups that no worker could hold: 10^8 offsets of one log.

A plain window gives a whole group to one worker, which sorts it. So a long group is cut into ranges of its order, each
range is reduced to one value, and what all earlier ranges come to is carried into each range, where a window does the rest:

    offsets of one log     0 .. 65535 | 65536 .. 131071 | 131072 ..          ranges of 2^16
    reduced (min)               40    |       52        |    38              one row per range: small, broadcast
    carried in from above       38    |       38        |   none             a suffix minimum over those rows

Exact, because min, max and sum over a set are made of those over its parts. `bits` None: groups are short, a plain window is
cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F


class Reduce(Enum):
    """How rows become one: what Spark calls it over a group, and over two columns. Null is nothing."""

    MIN = (partial(F.min), partial(F.least))
    MAX = (partial(F.max), partial(F.greatest))
    SUM = (partial(F.sum), lambda one, other: F.coalesce(one + other, one, other))

    def __init__(self, over: Callable[..., Column], two: Callable[..., Column]) -> None:
        self.over, self.two = over, two


Wanted = Mapping[str, tuple[str, Reduce]]  # new column -> the column that it is made of, and how


def running(
    frame: DataFrame,
    wanted: Wanted,
    *,
    group: Sequence[str],
    order: str,
    bits: int | None,
    descending: bool = False,
) -> DataFrame:
    """The frame with the columns `wanted`: each its column of all rows that come before this one in `order` within its `group`, as one.

    `order`: a column of longs, distinct within the group, or it does not matter which of those that share a place comes first.
    `descending`: of all rows that come after it. Null before the first. Groups may be as many as rows: what is carried into
    ranges is kept only where it is anything, so of groups that span several.
    """
    direction = F.desc if descending else F.asc
    if bits is None:
        before = _before(Window.partitionBy(*group).orderBy(direction(order)))
        return frame.withColumns({name: how.over(of).over(before) for name, (of, how) in wanted.items()})
    ranged = frame.withColumn("range", F.shiftright(order, bits))
    within = _before(Window.partitionBy(*group, "range").orderBy(direction(order)))
    carried = _carried(ranged, wanted, group, descending=descending)
    anything = reduce(Column.__or__, [F.col(_carrying(name)).isNotNull() for name in wanted])
    joined = ranged.join(F.broadcast(carried.where(anything)), [*group, "range"], "left")
    found = joined.withColumns(
        {name: how.two(how.over(of).over(within), F.col(_carrying(name))) for name, (of, how) in wanted.items()}
    )
    return found.drop("range", *map(_carrying, wanted))


def at(
    asked: DataFrame,
    given: DataFrame,
    name: str,
    of: str,
    how: Reduce,
    *,
    group: str,
    order: str,
    bits: int | None,
    descending: bool = False,
) -> DataFrame:
    """`asked` with a column `name`: column `of` of all rows of `given` that come strictly before it (`descending`: after it).

    Of `given`, only ranges that somebody asks about are moved.
    """
    direction = F.desc if descending else F.asc
    given = given.select(group, order, of).withColumn("asked", F.lit(False))
    asked = asked.withColumn("asked", F.lit(True))
    keys = [group]
    carried = None
    if bits is not None:
        keys = [group, "range"]
        given, asked = (frame.withColumn("range", F.shiftright(order, bits)) for frame in (given, asked))
        wanted = asked.select(*keys).distinct()
        both = given.select(*keys, of).unionByName(wanted, allowMissingColumns=True)
        carried = _carried(both, {name: (of, how)}, [group], descending=descending)
        given = given.join(F.broadcast(wanted), keys, "left_semi")
    before = _before(Window.partitionBy(*keys).orderBy(direction(order), F.desc("asked")))
    found = (
        asked.unionByName(given, allowMissingColumns=True).withColumn(name, how.over(of).over(before)).where("asked")
    )
    if carried is not None:
        found = found.join(F.broadcast(carried), keys).withColumn(name, how.two(F.col(name), F.col(_carrying(name))))
        found = found.drop("range", _carrying(name))
    return found.drop("asked", of)


def _carried(ranged: DataFrame, wanted: Wanted, group: Sequence[str], *, descending: bool) -> DataFrame:
    """The group's columns, range, and per column wanted what all ranges before (`descending`: after) this one come to."""
    direction = F.desc if descending else F.asc
    before = _before(Window.partitionBy(*group).orderBy(direction("range")))
    reduced = ranged.groupBy(*group, "range").agg(
        *[how.over(of).alias(_carrying(name)) for name, (of, how) in wanted.items()]
    )
    return reduced.withColumns(
        {_carrying(name): how.over(_carrying(name)).over(before) for name, (_, how) in wanted.items()}
    )


def _carrying(name: str) -> str:
    return f"{name}_carried"


def _before(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, -1)
