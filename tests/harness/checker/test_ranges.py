"""Long groups cut into ranges give what one window over the whole group gives, and the cut is really made."""

from __future__ import annotations

import random
from typing import Any

import pytest

from harness.checker.ranges import Reduce, at, running

Row = tuple[int, int, int | None]  # group, order, value
SHAPES = "grp long, place long, value long"
PLAIN = {Reduce.MIN: min, Reduce.MAX: max, Reduce.SUM: sum}


pytestmark = pytest.mark.usefixtures("small_plans")


def rows(seed: int, count: int = 300, groups: int = 4) -> list[Row]:
    rng = random.Random(seed)
    places = rng.sample(range(3 * count), count)
    return [(rng.randrange(groups), place, rng.choice([None, rng.randrange(-50, 50)])) for place in places]


def reduced(how: Reduce, values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return PLAIN[how](known) if known else None


@pytest.mark.spark
@pytest.mark.parametrize("bits", [None, 0, 3, 7, 20])
@pytest.mark.parametrize("descending", [False, True])
def test_running(spark: Any, bits: int | None, descending: bool) -> None:
    given = rows(bits or 99)
    frame = spark.createDataFrame(given, SHAPES)
    for how in Reduce:
        found = running(
            frame, {"found": ("value", how)}, group=["grp"], order="place", bits=bits, descending=descending
        ).collect()
        assert {(row["grp"], row["place"]): row["found"] for row in found} == {
            (group, place): reduced(
                how, [v for g, p, v in given if g == group and (p > place if descending else p < place)]
            )
            for group, place, _ in given
        }, how


@pytest.mark.spark
@pytest.mark.parametrize("bits", [None, 0, 3, 7, 20])
@pytest.mark.parametrize("descending", [False, True])
def test_at(spark: Any, bits: int | None, descending: bool) -> None:
    """Strictly before, at places that nothing stands at, in groups that nobody else is in, and several times at one place."""
    given = rows(bits or 99)
    places = [(group, place) for group in range(6) for place in (0, 1, 7, 8, 64, 333, 334, 5000)] * 2
    asked = [(number, group, place) for number, (group, place) in enumerate(places)]
    for how in Reduce:
        found = at(
            spark.createDataFrame(asked, "number long, grp long, place long"),
            spark.createDataFrame(given, SHAPES),
            "found",
            "value",
            how,
            group="grp",
            order="place",
            bits=bits,
            descending=descending,
        )
        assert sorted(found.columns) == ["found", "grp", "number", "place"]
        assert {row["number"]: row["found"] for row in found.collect()} == {
            number: reduced(how, [v for g, p, v in given if g == group and (p > place if descending else p < place)])
            for number, group, place in asked
        }, how


@pytest.mark.spark
def test_no_worker_gets_a_whole_group(spark: Any) -> None:
    """Rows of one group, cut, are dealt out over all partitions; uncut they are in one."""
    frame = spark.range(0, 4096).selectExpr("7 as grp", "id as place", "id as value")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    threshold = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    try:
        spark.conf.set("spark.sql.shuffle.partitions", "8")
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        held = {}
        for bits in (None, 4):
            cut = running(frame, {"found": ("value", Reduce.MIN)}, group=["grp"], order="place", bits=bits)
            held[bits] = [len(part) for part in cut.rdd.glom().collect()]
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
    assert max(held[None]) == 4096
    assert max(held[4]) < 2048
