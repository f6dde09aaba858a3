"""A run that is looked at slice by slice, beside one look at all of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.checker.glance.carried import edges, families, spans, together
from harness.checker.glance.columns import Unusual
from harness.checker.glance.logs import FLAGS, LOOKED, look, look_closely
from harness.checker.glance.plain import Plain
from harness.checker.glance.slices import HELD, Range, Slice, groups_of, records, slices, survey
from tests.harness.checker import test_client_defects, test_race_defects, test_seeded_defects
from tests.harness.checker.glance.at_a_glance import fates, plain_tables
from tests.harness.checker.stories import MS, Story, clean
from tests.harness.checker.test_against_oracle import messy
from workloads.op import BOUNDS, RECORDS

HISTORIES = 120
PARTS = 4
NUMBERS = [name for name in LOOKED.names if name not in FLAGS]


def cut(
    story: Story, folder: Path, *, wanted: int, group: int, files: int = 1
) -> tuple[list[str], list[Slice], pa.Table]:
    rows = pa.Table.from_pylist([asdict(row) for row in story.records], RECORDS)
    paths = [folder / f"{place}.parquet" for place in range(files)]
    for place, path in enumerate(paths):
        pq.write_table(rows.take(pa.array(range(place, rows.num_rows, files), pa.int64())), path, row_group_size=group)
    named = [str(path) for path in paths]
    there, nowhere = survey(named, groups_of(paths))
    found = slices(there, wanted=wanted, most=10**6)
    assert found is not None
    return named, found, nowhere


def sliced(
    story: Story, folder: Path, *, wanted: int, group: int, files: int = 1, foreign: bool = False
) -> tuple[int, list[dict[str, Any]]]:
    """How many slices there were, and LOOKED of them all."""
    named, found, nowhere = cut(story, folder, wanted=wanted, group=group, files=files)
    bounds = pa.Table.from_pylist([asdict(row) for row in story.bounds], BOUNDS)
    looks = []
    for one in found:
        looked, seen = look_closely(records(named, one, nowhere, most=10**6), bounds, fates([story]), foreign=foreign)
        looks.append((looked.to_pylist(), edges(seen).to_pylist(), spans(seen).to_pylist()))
    return len(found), together(looks)


def whole(story: Story, *, foreign: bool = False) -> list[dict[str, Any]]:
    rows = pa.Table.from_pylist([asdict(row) for row in story.records], RECORDS)
    bounds = pa.Table.from_pylist([asdict(row) for row in story.bounds], BOUNDS)
    looked = look(rows, bounds, fates([story]), foreign=foreign).to_pylist()
    return sorted(looked, key=lambda row: (row["topic"], row["partition"]))


@pytest.mark.parametrize(("wanted", "group", "files"), [(10, 2, 1), (20, 7, 2), (60, 30, 3), (10**6, 10, 1)])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_clean_run_looks_the_same_in_slices(
    tmp_path: Path, partitions: int, wanted: int, group: int, files: int
) -> None:
    story = clean(partitions=partitions, records=30)
    count, rows = sliced(story, tmp_path, wanted=wanted, group=group, files=files)
    assert rows == whole(story)
    assert (count == 1) == (wanted == 10**6)
    assert not any(row[flag] for row in rows for flag in FLAGS)


def test_logs_of_several_topics_are_told_apart(tmp_path: Path) -> None:
    """Log b/2 beside log/0, log/1 and log/2, with other records of the same offsets."""
    story = clean(partitions=4, records=20)
    story.records[:] = [replace(row, topic="b", partition=2) if row.partition == 3 else row for row in story.records]
    story.records.sort(key=lambda row: row.invoked_ns)  # so that row groups have records of both
    count, rows = sliced(story, tmp_path, wanted=40, group=20)
    assert count > 2
    assert rows == whole(story)
    assert [(row["topic"], row["partition"]) for row in rows] == [("b", 2), ("log", 0), ("log", 1), ("log", 2)]


def test_slices_have_each_record_once_and_those_without_an_offset_always(tmp_path: Path) -> None:
    story = clean(partitions=2, records=40)
    story.send("refused", at=(400, 410), outcome="fail", process=70)
    named, found, nowhere = cut(story, tmp_path, wanted=30, group=10)
    assert len(found) > 2
    given = [row for one in found for row in records(named, one, nowhere, most=10**6).to_pylist()]
    placed = Counter((row["op"], row["position"], row["partition"]) for row in given if row["offset"] is not None)
    assert placed == Counter((row.op, row.position, row.partition) for row in story.records if row.offset is not None)
    assert [row["value"] for row in given if row["offset"] is None] == ["refused"] * sum(
        ("log", 0) in one.ranges for one in found
    )


def stories(part: int) -> Iterator[Story]:
    """Random ones with anything wrong in them, and all of the checker's, most of which have one thing wrong: in `PARTS` parts."""
    for seed in range(part, HISTORIES, PARTS):
        chance = random.Random(seed)
        story = messy(f"m{seed}", chance)
        for place, row in enumerate(story.records):
            if row.kind == "poll":
                story.records[place] = replace(row, leader_epoch=chance.choice((1, 1, 1, 2)))
        yield story
    for file in (test_client_defects, test_race_defects, test_seeded_defects):
        yield from list(file.stories())[part::PARTS]


@pytest.mark.parametrize("part", range(PARTS))
def test_what_one_look_doubts_slices_doubt_too(tmp_path: Path, part: int) -> None:
    chance = random.Random(part)
    seen: Counter[Plain] = Counter()
    for number, story in enumerate(stories(part)):
        folder = tmp_path / str(number)
        folder.mkdir()
        group, files = chance.randrange(1, 15), chance.randrange(1, 4)
        wanted, foreign = chance.randrange(1, 40), chance.random() < 0.3
        count, rows = sliced(story, folder, wanted=wanted, group=group, files=files, foreign=foreign)
        for one, other in zip(rows, whole(story, foreign=foreign), strict=True):
            assert [one[name] for name in NUMBERS] == [other[name] for name in NUMBERS], story.run
            doubts = set(Plain) - plain_tables(story, [other])
            assert not doubts & plain_tables(story, [one]), story.run
            seen.update(doubts if count > 1 else ())
    assert seen.keys() == set(Plain)


def between(story: Story, tmp_path: Path, *, low: int, high: int, foreign: bool = False) -> set[Plain]:
    """What is doubted in a log that is cut at `low` and `high`, and in none of its slices by itself."""
    named, found, nowhere = cut(story, tmp_path, wanted=10**6, group=10**6)
    bounds = pa.Table.from_pylist([asdict(row) for row in story.bounds], BOUNDS)
    ends = [found[0].ranges["log", 0].low, low, high, found[0].ranges["log", 0].high]
    looks = []
    for one in pairwise(ends):
        part = Slice(ranges={("log", 0): Range(*one)}, groups=found[0].groups)
        looked, seen = look_closely(records(named, part, nowhere, most=10**6), bounds, fates([story]), foreign=foreign)
        assert not any(row[flag] for row in looked.to_pylist() for flag in FLAGS)
        looks.append((looked.to_pylist(), edges(seen).to_pylist(), spans(seen).to_pylist()))
    return set(Plain) - plain_tables(story, together(looks))


def changed(kind: str, offsets: Sequence[int], phase: str = "main", **change: Any) -> Callable[[Story], None]:
    def change_it(story: Story) -> None:
        for place, row in enumerate(story.records):
            if (row.kind, row.phase) == (kind, phase) and row.offset in offsets:
                story.records[place] = replace(row, **change)

    return change_it


def left_out(offsets: Sequence[int], phase: str = "main") -> Callable[[Story], None]:
    """Never read, or not in the end."""

    def leave_out(story: Story) -> None:
        for row in [row for row in story.records if (row.kind, row.phase) == ("poll", phase) and row.offset in offsets]:
            story.records.remove(row)

    return leave_out


def late_append(story: Story) -> None:
    """Offset 4 is the last of its slice, and was sent after 5 had been acknowledged; nobody had read it then."""
    changed("send", [4], invoked_ns=300 * MS, completed_ns=310 * MS)(story)
    changed("poll", range(5), completed_ns=400 * MS)(story)


def two_families(story: Story) -> None:
    """Their numbers overlap, and they are not the same."""
    for offset in range(20):
        for kind, phase in (("send", "main"), ("poll", "main"), ("poll", "final")):
            changed(kind, [offset], phase, value=f"log/0/{offset // 7}/{offset % 7}")(story)


def moved_value(story: Story) -> None:
    for kind, phase in (("send", "main"), ("poll", "main"), ("poll", "final")):
        changed(kind, [15], phase, value="log/0/3")(story)


@pytest.mark.parametrize(
    ("change", "doubted"),
    [
        (lambda story: None, set()),
        (two_families, set()),
        (changed("send", [3], sequence=50), {Plain.OVERTAKEN}),
        (changed("send", [11], sequence=1), {Plain.OVERTAKEN}),
        (moved_value, {Plain.VALUES, Plain.INVERSIONS}),
        (late_append, {Plain.INVERSIONS}),
        (changed("poll", range(5), "final", leader_epoch=5), {Plain.OVERLAPS}),
        (changed("poll", range(5, 20), "final", leader_epoch=5), set()),
        (changed("poll", range(5), invoked_ns=9000 * MS, completed_ns=9001 * MS), {Plain.STEPS, Plain.SKIPS}),
        (left_out(range(5, 10)), {Plain.SKIPS}),
        (left_out([4]), {Plain.SKIPS}),
        (left_out([10]), {Plain.SKIPS}),
        (left_out(range(15, 20)), set()),
        (left_out(range(5, 10), "final"), {Plain.OFFSETS, Plain.OVERTAKEN, Plain.INVERSIONS}),
        (changed("poll", range(5, 10), outcome="fail"), {Plain.SKIPS}),
    ],
)
def test_what_shows_only_between_slices(tmp_path: Path, change: Callable[[Story], None], doubted: set[Plain]) -> None:
    story = clean(partitions=1)
    changed("poll", range(5), "final", leader_epoch=3)(story)
    changed("poll", range(5, 20), "final", leader_epoch=4)(story)
    change(story)
    assert between(story, tmp_path, low=5, high=10) == doubted


def test_of_histories_of_others_every_read_counts(tmp_path: Path) -> None:
    """None of them is a final read, which may leave out what is lost; nor is what is read only there."""
    story = clean(partitions=1)
    left_out(range(20))(story)
    left_out(range(5, 10), "final")(story)
    lost = {Plain.OFFSETS, Plain.OVERTAKEN, Plain.INVERSIONS}
    assert between(story, tmp_path, low=5, high=10) == lost
    assert between(story, tmp_path, low=5, high=10, foreign=True) == {Plain.SKIPS, *lost}


def test_values_without_numbers_are_left_to_the_screens() -> None:
    named, family, number = families(pa.array(["log/0/3/12", "log/0/3/7", None, "9", "ghost", "log/0/3/", "007"]))
    told = [(named[one].as_py(), count) for one, count in zip(family.tolist(), number.tolist(), strict=True)]
    assert told == [("log/0/3/", 12), ("log/0/3/", 7), ("", 0), ("", 9), ("ghost", 0), ("log/0/3/", 0), ("", 7)]
    assert families(pa.array(["x", "a" + "9" * 18]).slice(1))[2].tolist() == [10**18 - 1]
    for texts in (["a" + "9" * 19], [f"{one}x" for one in range(10_001)]):
        with pytest.raises(Unusual):
            families(pa.array(texts))


def held(ranges: Sequence[tuple[int, int]], logs: int = 1) -> pa.Table:
    """HELD of logs with so many row groups of ten records, of the offsets from ... to, one log after the other."""
    rows = [
        {
            "file": 0,
            "group": place,
            "started_ns": place,
            "topic": "log",
            "partition": place % logs,
            "rows": 10,
            "lowest": low,
            "highest": high,
        }
        for place, (low, high) in enumerate(ranges)
    ]
    return pa.Table.from_pylist(rows, HELD)


def test_a_slice_that_no_worker_can_hold_is_left_to_the_screens() -> None:
    blocks = held([(low, low + 9) for low in range(0, 400, 10)])
    found = slices(blocks, wanted=20, most=20)
    assert found is not None
    assert [tuple(one.ranges["log", 0])[1] for one in found[:-1]] == list(range(20, 400, 20))
    assert [len(one.groups) for one in found] == [2] * 20
    assert slices(blocks, wanted=20, most=19) is None


def test_a_slice_with_more_records_than_its_row_groups_told_is_left_to_the_screens(tmp_path: Path) -> None:
    story = clean(partitions=1, records=40)
    story.send("refused", at=(400, 410), outcome="fail", process=70)
    named, found, nowhere = cut(story, tmp_path, wanted=10**6, group=10)
    (one,) = found
    assert records(named, one, nowhere, most=121).num_rows == 121
    with pytest.raises(Unusual):
        records(named, one, nowhere, most=120)


def test_what_overlaps_counts_in_part() -> None:
    """Up to 1010 there are ten records and half of the next ten."""
    overlapping = held([(low, low + 9) for low in range(1000, 1400, 5)])
    assert slices(overlapping, wanted=12, most=15) is not None
    assert slices(overlapping, wanted=12, most=14) is None


def test_offsets_that_no_log_has_are_left_to_the_screens() -> None:
    assert slices(held([(0, 9), (10, 2**62 - 1)]), wanted=10, most=20) is not None
    assert slices(held([(0, 9), (10, 2**62)]), wanted=10, most=20) is None


def test_a_run_that_would_be_read_again_and_again_is_left_to_the_screens() -> None:
    from_the_beginning = [(0, low + 9) for low in range(0, 400, 10)]
    assert slices(held(from_the_beginning), wanted=100, most=1000) is not None
    assert slices(held(from_the_beginning), wanted=1, most=1000) is None


def test_a_slice_reads_nothing_of_logs_that_are_not_in_it() -> None:
    """Offsets of one row group lie between those of the next, as when sends overlap."""
    found = slices(
        held([(low - 3, low + 12) for low in range(10, 400, 10) for _ in range(2)], logs=2), wanted=10, most=100
    )
    assert found is not None
    assert {len(one.ranges) for one in found[:-1]} == {1}
    assert max(len(one.groups) for one in found) == 2
