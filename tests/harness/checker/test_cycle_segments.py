"""Cut into segments, transactions have the cycles that they have together; and of a sound history nothing is left to look at."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from harness.checker.cycle_parts import merge, segments, sharing
from harness.checker.cycle_segments import Cut, swept
from harness.checker.dependencies import UNPLACED, Rows, dependencies
from harness.checker.serializability.cycles import cycles
from harness.checker.serializability.graph import OPEN
from tests.harness.checker.test_dependencies import Record, rows

pytestmark = pytest.mark.usefixtures("small_plans")
RUNS = 40
SHAPE = (
    "run string, unit long, write boolean, happened boolean, key long, log long, offset long, process long, "
    "invoked long, completed long"
)
Times = dict[int, tuple[int, int, int]]


def drawn(rng: random.Random) -> tuple[list[Record], Times]:
    """Some ten transactions that overlap, of three processes of which some break off; reads of values that may be anywhere, and
    may have been read before they were sent.
    """
    units = rng.sample(range(1000), rng.randrange(4, 14))
    times, now = {}, 0
    for unit in units:
        now += rng.randrange(0, 20)
        lasts = rng.choice([0, 5, 30, 90])
        times[unit] = (rng.randrange(3), now, OPEN if rng.random() < 0.1 else now + lasts)
    records: list[Record] = []
    values: list[tuple[int, int, int]] = []
    ends = [0, 0]
    for place, unit in enumerate(units):
        happened = rng.random() < 0.8
        for _ in range(rng.randrange(3)):
            log = rng.randrange(2)
            offset = ends[log] if rng.random() < 0.9 else rng.randrange(8)
            ends[log] += 1
            key = 1000 * log + len(values)
            values.append((log, offset, key))
            records.append(Record(unit, True, happened, key, log, offset if rng.random() < 0.7 else UNPLACED))
        near = values[-4:] if rng.random() < 0.7 else values
        for _ in range(rng.randrange(3)):
            if near:
                log, offset, key = rng.choice(near)
                reader = unit if rng.random() < 0.6 else units[max(0, place - rng.randrange(3))]
                records.append(Record(reader, False, True, key, log, offset))
    return records, times


def frame(spark: Any, histories: dict[str, Rows]) -> Any:
    names = [field.split()[0] for field in SHAPE.split(", ")]
    tables = []
    for number, (run, one) in enumerate(histories.items()):
        columns = {"run": pa.array([run] * len(one.unit), pa.string())}
        columns |= {name: pa.array(getattr(one, name)) for name in names[1:]}
        columns["log"] = pa.array(one.log + 10 * number)  # no two runs have a log in common
        tables.append(pa.table([columns[name] for name in names], names=names))
    return spark.createDataFrame(pa.concat_tables(tables).combine_chunks(), SHAPE)


def told(found: Any) -> dict[str, Counter[str]]:
    kinds: dict[str, Counter[str]] = {}
    for row in [] if found is None else found.toArrow().to_pylist():
        kinds.setdefault(row["run"], Counter())[row["type"]] += row["count"]
    return kinds


@pytest.mark.spark
@pytest.mark.parametrize("everything", [False, True])
def test_the_same_cycles(spark: Any, everything: bool) -> None:
    """Ranges of two offsets, three bundles; about every second history has cycles."""
    rng = random.Random(20261122)
    histories = {f"r{number}": rows(*drawn(rng)) for number in range(RUNS)}
    histories = {run: one for run, one in histories.items() if len(one.unit)}
    wanted = {}
    for run, one in histories.items():
        graphs = dependencies(one, everything=everything)
        if found := cycles(graphs.everything if everything else graphs.reads):
            wanted[run] = Counter({kind.type: kind.count for kind in found})
    cut = Cut(bits=1, bundles=3, keep=lambda kept: kept)
    assert told(swept(frame(spark, histories), cut, everything=everything)) == wanted
    assert RUNS / 5 < len(wanted) < RUNS
    assert len({kind for types in wanted.values() for kind in types}) > 2


def merged(*intervals: tuple[int, int]) -> list[tuple[int, int]]:
    columns = {
        "run": ["r"] * len(intervals),
        "low": [low for low, _ in intervals],
        "high": [high for _, high in intervals],
    }
    batch = pa.RecordBatch.from_pydict(columns, pa.schema({"run": pa.string(), "low": pa.int64(), "high": pa.int64()}))
    found = segments(pa.Table.from_batches(list(merge([batch[:2], batch[2:]]))))
    return list(zip(*(places.tolist() for places in found["r"]), strict=True))


def test_segments_are_what_lies_under_an_arrow() -> None:
    assert merged((5, 6), (0, 2), (9, 9), (2, 4), (9, 9)) == [(0, 4), (5, 6), (9, 9)]
    assert merged((0, 9), (3, 4), (9, 12), (20, 21)) == [(0, 12), (20, 21)]


def test_only_what_lies_in_one_segment_is_looked_at() -> None:
    """Transactions inside, at both ends, between and outside; an edge inside, one from a segment to another, and one out of it."""
    ends = [(10, 10), (15, 15), (20, 20), (21, 21), (9, 9), (40, 40), (10, 20), (20, 30), (10, 25)]
    zeros = [0] * len(ends)
    columns: dict[str, list[Any]] = dict.fromkeys(
        ("source", "target", "kind", "log", "offset", "process", "invoked", "completed"), zeros
    )
    columns |= {
        "run": ["r"] * len(ends),
        "place": [one for one, _ in ends],
        "other_place": [other for _, other in ends],
    }
    cut = {"r": (np.array([10, 30]), np.array([20, 40]))}
    (shared,) = sharing(cut, 7)([pa.RecordBatch.from_pydict({**columns, "source": list(range(len(ends)))})])
    assert dict(zip(shared["source"].to_pylist(), shared["bundle"].to_pylist(), strict=True)) == {
        0: 0,
        1: 0,
        2: 0,
        5: 1,
        6: 0,
    }
    assert list(sharing({}, 7)([pa.RecordBatch.from_pydict(columns)])) == []


@pytest.mark.spark
def test_a_long_sound_history_with_one_defect_leaves_its_neighbourhood(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transactions of 35 ns that begin every 10, each reads what the third before it wrote, so before that was over. Two in the
    middle read each other.
    """
    from harness.checker import cycle_segments

    looked: list[int] = []

    def counted(found: Any, bundles: int) -> Any:
        looked.append(sum(len(low) for low, _ in found.values()))
        looked.append(max(int((high - low).max()) for low, high in found.values()))
        return sharing(found, bundles)

    monkeypatch.setattr(cycle_segments, "sharing", counted)
    records = []
    for number in range(300):
        records.append(Record(number, True, True, number, 1, number))
        if number >= 3:
            records.append(Record(number, False, True, number - 3, 1, number - 3))
    times = {number: (number % 4, 10 * number, 10 * number + 35) for number in range(300)}
    cut = Cut(bits=4, bundles=2, keep=lambda kept: kept)
    assert swept(frame(spark, {"fine": rows(records, times)}), cut, everything=False) is None
    broken = [*records, Record(150, False, True, 151, 1, 151), Record(151, False, True, 150, 1, 150)]
    found = swept(frame(spark, {"broken": rows(broken, times)}), cut, everything=False)
    assert told(found) == {"broken": {"G1c": 1}}
    assert looked[0] == 1
    assert looked[1] < 200
