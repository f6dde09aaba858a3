"""The dependency graph of a Kafka history against its definition, edge by edge, on random small histories."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from harness.checker.dependencies import UNPLACED, Rows, dependencies
from harness.checker.serializability.cycles import cycles
from harness.checker.serializability.graph import OPEN, RW, WR, WW, Graph

HISTORIES = 2_000


@dataclass(frozen=True)
class Record:
    unit: int
    write: bool
    happened: bool
    key: int
    log: int
    offset: int


def rows(records: list[Record], times: dict[int, tuple[int, int, int]]) -> Rows:
    """`times`: process, invoked and completed of each unit."""

    def column(values: list[int]) -> np.ndarray:
        return np.array(values, np.int64)

    return Rows(
        unit=column([r.unit for r in records]),
        write=np.array([r.write for r in records], bool),
        happened=np.array([r.happened for r in records], bool),
        key=column([r.key for r in records]),
        log=column([r.log for r in records]),
        offset=column([r.offset for r in records]),
        process=column([times[r.unit][0] for r in records]),
        invoked=column([times[r.unit][1] for r in records]),
        completed=column([times[r.unit][2] for r in records]),
    )


def drawn(rng: random.Random) -> tuple[list[Record], dict[int, tuple[int, int, int]]]:
    """Values stand where they were sent to, mostly; some sends are of unknown outcome, some offsets have two values."""
    units = rng.sample(range(100), rng.randrange(1, 6))
    records: list[Record] = []
    values: list[tuple[int, int]] = []
    for unit in units:
        happened = rng.random() < 0.8
        for _ in range(rng.randrange(3)):
            log, offset = rng.randrange(2), rng.randrange(6)
            values.append((log, offset))
            key = 1000 * log + len(values)
            records.append(Record(unit, True, happened, key, log, offset if rng.random() < 0.7 else UNPLACED))
    for unit in units:
        happened = rng.random() < 0.9
        for _ in range(rng.randrange(4)):
            if values and rng.random() < 0.95:
                number = rng.randrange(len(values))
                log, offset = values[number]
                key = 1000 * log + number + 1
            else:
                log, offset, key = rng.randrange(2), rng.randrange(6), 5000 + rng.randrange(3)
            records.append(Record(unit, False, happened, key, log, offset))
    times = {unit: (rng.randrange(3), 10 * place, OPEN) for place, unit in enumerate(units)}
    rng.shuffle(records)
    return records, times


def defined(records: list[Record]) -> dict[int, set[tuple[int, int]]]:
    seen = {r.key for r in records if not r.write and r.happened}
    part = [r for r in records if r.happened or (r.write and r.key in seen)]
    writer: dict[int, int] = {r.key: r.unit for r in part if r.write}
    reads = [r for r in part if not r.write]
    wr = {(writer[r.key], r.unit) for r in reads if r.key in writer}
    places: dict[tuple[int, int], int] = {}
    for r in records:
        if r.offset != UNPLACED:
            place = r.log, r.offset
            places[place] = min(places.get(place, r.key), r.key)
    versions: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (log, offset), key in sorted(places.items()):
        if key in writer:
            versions[log].append((offset, writer[key]))
    ww = {(one[1], other[1]) for line in versions.values() for one, other in pairwise(line)}
    rw = set()
    for unit, log in {(r.unit, r.log) for r in reads}:
        last = max(r.offset for r in reads if (r.unit, r.log) == (unit, log))
        following = [wrote for offset, wrote in versions[log] if offset > last]
        if following:
            rw.add((unit, following[0]))
    return {kind: {(a, b) for a, b in pairs if a != b} for kind, pairs in ((WR, wr), (WW, ww), (RW, rw))}


def edges(graph: Graph, units: np.ndarray, kind: int) -> set[tuple[int, int]]:
    mine = graph.kind == kind
    return {(int(units[a]), int(units[b])) for a, b in zip(graph.source[mine], graph.target[mine], strict=True)}


def test_edges_are_those_of_the_definition() -> None:
    rng = random.Random(20261121)
    shown = dict.fromkeys((WR, WW, RW), 0)
    for _ in range(HISTORIES):
        records, times = drawn(rng)
        found = dependencies(rows(records, times))
        wanted = defined(records)
        for kind in (WR, WW, RW):
            assert edges(found.everything, found.units, kind) == wanted[kind], records
            shown[kind] += len(wanted[kind])
        assert edges(found.reads, found.units, WR) == wanted[WR]
        assert edges(found.reads, found.units, WW) == set()
    assert min(shown.values()) > HISTORIES / 4


@pytest.mark.parametrize(("both", "types"), [(True, ["G1c"]), (False, [])])
def test_a_cycle_of_reads_needs_no_order_of_a_log(both: bool, types: list[str]) -> None:
    records = [
        Record(1, True, True, 11, 1, 0),
        Record(2, True, True, 21, 2, 0),
        Record(1, False, True, 21, 2, 0),
        *[Record(2, False, True, 11, 1, 0)] * both,
    ]
    found = dependencies(rows(records, {1: (0, 0, 10), 2: (1, 0, 10)}), everything=False)
    assert [one.type for one in cycles(found.reads)] == types


def test_the_order_of_rows_does_not_matter() -> None:
    rng = random.Random(7)
    records, times = drawn(rng)
    one = dependencies(rows(records, times))
    other = dependencies(rows(records[::-1], times))
    for kind in (WR, WW, RW):
        assert edges(one.everything, one.units, kind) == edges(other.everything, other.units, kind)
