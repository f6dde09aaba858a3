"""What one look calls plain has nothing in it, by the definitions; and what has nothing in it is mostly plain."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
import pytest

from harness.checker.glance.columns import Unusual
from harness.checker.glance.logs import look
from harness.checker.glance.plain import Plain
from harness.checker.transactions import FATES
from tests.harness.checker.glance.at_a_glance import TABLES, fates, looked, plain_tables
from tests.harness.checker.oracle import Oracle
from tests.harness.checker.stories import MS, Story, clean
from tests.harness.checker.test_against_oracle import messy
from workloads.op import BOUNDS, RECORDS

HISTORIES = 1000
NOT_IN_THE_ORACLE = ("stale-end-offset", "unfenced-leader")


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_a_clean_history_is_plain(partitions: int) -> None:
    story = clean(partitions=partitions, records=40)
    assert plain_tables(story, looked([story])["r"]) == set(Plain)


def test_offsets_that_lie_far_apart_are_told_apart_by_sorting() -> None:
    story = clean(partitions=1)
    for offset in range(20):
        story.change(lambda row, offset=offset: getattr(row, "offset", None) == offset, offset=offset * 10**12)
    story.change(lambda row: getattr(row, "log_end", None) == 20, log_end=20 * 10**12, read_to=20 * 10**12)
    (row,) = looked([story])["r"]
    assert plain_tables(story, [row]) == set(Plain)
    assert (row["offsets_read"], row["last_place"]) == (20, 19 * 10**12)


def test_a_log_need_not_begin_at_its_beginning() -> None:
    story = clean(partitions=2)
    for offset in reversed(range(20)):
        story.change(
            lambda row, offset=offset: row.partition == 1 and getattr(row, "offset", None) == offset,
            offset=offset + 100,
        )
    story.change(
        lambda row: row.partition == 1 and getattr(row, "log_end", None) == 20, log_start=100, log_end=120, read_to=120
    )
    rows = looked([story])["r"]
    assert [(row["first_place"], row["last_place"]) for row in rows] == [(0, 19), (100, 119)]
    assert plain_tables(story, rows) == set(Plain)


@pytest.mark.parametrize("partition", [-1, 1])
def test_a_log_in_which_nothing_came_to_stand_is_plain(partition: int) -> None:
    """Be it the first or the last."""
    story = clean(partitions=1)
    story.send("refused", at=(400, 410), outcome="fail", partition=partition, process=70)
    assert plain_tables(story, looked([story])["r"]) == set(Plain)


def test_of_histories_of_others_sends_of_unknown_outcome_have_their_place_in_the_order() -> None:
    story = clean(partitions=1)
    story.change(
        lambda row: getattr(row, "kind", "") == "send" and getattr(row, "offset", None) == 4, offset=1, outcome="info"
    )
    tables = story.tables()
    for foreign in (False, True):
        (row,) = look(tables["records"], tables["bounds"], FATES.empty_table(), foreign=foreign).to_pylist()
        assert row["overtaken"] == foreign
    story.change(lambda row: getattr(row, "outcome", "") == "info", outcome="fail")
    (row,) = look(story.tables()["records"], tables["bounds"], FATES.empty_table(), foreign=True).to_pylist()
    assert not row["overtaken"]


def test_nothing_at_all_is_plain() -> None:
    assert look(RECORDS.empty_table(), BOUNDS.empty_table(), FATES.empty_table(), foreign=False).num_rows == 0


def test_records_of_several_files_are_looked_at_together() -> None:
    story = clean()
    tables = story.tables()
    in_pieces = pa.concat_tables([tables["records"].slice(at, 7) for at in range(0, tables["records"].num_rows, 7)])
    shuffled = in_pieces.take(random.Random(1).sample(range(in_pieces.num_rows), in_pieces.num_rows))
    whole = look(tables["records"], tables["bounds"], FATES.empty_table(), foreign=False)
    assert look(in_pieces, tables["bounds"], FATES.empty_table(), foreign=False).equals(whole)
    assert look(shuffled, tables["bounds"], FATES.empty_table(), foreign=False).sort_by("partition").equals(whole)


def test_an_end_below_what_was_there_is_not_plain() -> None:
    """Record i is acknowledged at 115 + 10 i ms and read, five at a time, from 170 ms on: before 400 ms there are 29."""
    story = clean(records=40)
    story.end(29, at=(400, 401), read_to=None, phase="main")
    assert Plain.EARLY_ENDS in plain_tables(story, looked([story])["r"])
    story.end(28, at=(395, 396), read_to=None, phase="main")  # just when it was acknowledged
    assert Plain.EARLY_ENDS in plain_tables(story, looked([story])["r"])
    story.end(28, at=(400, 401), read_to=None, phase="main", partition=1)
    assert set(Plain) - plain_tables(story, looked([story])["r"]) == {Plain.EARLY_ENDS}


@pytest.mark.parametrize(
    ("epochs", "fine"),
    [([3] * 20, True), ([3] * 9 + [4] * 11, True), ([3] * 9 + [4] + [3] * 10, False), ([4] + [None] * 18 + [3], False)],
)
def test_leader_epochs_only_grow_along_a_log(epochs: list[int | None], fine: bool) -> None:
    story = clean(partitions=1)
    for place, row in enumerate(story.records):
        if row.phase == "final" and row.offset is not None:
            story.records[place] = replace(row, leader_epoch=epochs[row.offset])
        elif row.kind == "poll":
            story.records[place] = replace(row, leader_epoch=1)  # only what is there in the end counts
    tables = plain_tables(story, looked([story])["r"])
    assert tables == (set(Plain) if fine else set(Plain) - {Plain.OVERLAPS})


def in_a_transaction(end: str | None) -> Story:
    """Two records, of which a consumer reads the first: before the end of the transaction, if it has any."""
    story = clean(partitions=1)
    number = story.begin(at=400)
    for offset in (20, 21):
        story.send(f"t/{offset}", offset, at=(401, 402), client="w1.t0", process=50, transaction=number)
    if end is not None:
        story.end_transaction(end, number, at=(500, 510))
    story.poll([(20, "t/20")], at=(520, 530), process=77)
    return story


@pytest.mark.parametrize(("end", "fine"), [("commit", True), ("abort", False), (None, False)])
def test_what_was_not_committed_is_not_acknowledged(end: str | None, fine: bool) -> None:
    story = in_a_transaction(end)
    story.workload["isolation"] = "read_committed"
    (row,) = looked([story])["r"]
    assert row["acknowledged"] == (22 if fine else 20)
    assert row["strange"] != fine


@pytest.mark.parametrize(("runs", "usual"), [(8191, True), (8192, False)])
def test_more_runs_than_numbers_are_left_to_the_screens(runs: int, usual: bool) -> None:
    """Thirteen bits beside a transaction's fifty."""
    story = in_a_transaction("commit")
    (first, *_) = story.records
    others = [replace(first, run=f"other{number}", transaction=None) for number in range(runs - 1)]
    records = pa.Table.from_pylist([asdict(row) for row in [*story.records, *others]], RECORDS)
    if usual:
        assert look(records, BOUNDS.empty_table(), fates([story]), foreign=False).num_rows > runs - 1
    else:
        with pytest.raises(Unusual):
            look(records, BOUNDS.empty_table(), fates([story]), foreign=False)


@pytest.mark.parametrize(("number", "usual"), [((1 << 50) - 1, True), (1 << 50, False), (-1, False)])
def test_numbers_that_no_workload_gives_are_left_to_the_screens(number: int, usual: bool) -> None:
    story = in_a_transaction("commit")
    (begun,) = [op.op for op in story.ops if op.kind == "begin"]
    story.change(lambda row: getattr(row, "transaction", None) == begun, transaction=number)
    if usual:
        assert looked([story])["r"][0]["acknowledged"] == 22
    else:
        with pytest.raises(Unusual):
            looked([story])


def test_a_read_before_anybody_asked_to_commit_is_not_plain() -> None:
    story = in_a_transaction("commit")
    story.poll([(21, "t/21")], at=(440, 450), process=78)
    assert set(Plain) - plain_tables(story, looked([story])["r"]) >= {Plain.VALUES}


@pytest.mark.parametrize(("end", "fine"), [("commit", False), ("abort", True)])
def test_a_poll_of_a_transaction_that_was_aborted_moves_nobody(end: str, fine: bool) -> None:
    story = clean(partitions=1)
    number = story.begin(at=300, process=100)
    story.poll([(0, "log/0/0")], at=(400, 410), process=600)
    story.poll([(1, "log/0/1")], at=(420, 430), process=600, transaction=number)
    story.end_transaction(end, number, at=(431, 432))
    story.poll([(1, "log/0/1")], at=(440, 450), process=600)
    assert (Plain.STEPS in plain_tables(story, looked([story])["r"])) == fine


def nearly_clean(run: str, rng: random.Random) -> Story:
    """A clean history with one or two rows changed in any way, or none."""
    story = clean(run, records=rng.randrange(3, 9), partitions=rng.randrange(1, 3))
    for _ in range(rng.choice((0, 1, 1, 2))):
        place = rng.randrange(len(story.records))
        row = story.records[place]
        other = rng.choice(story.records)
        change: dict[str, Any] = rng.choice(
            (
                {"offset": rng.randrange(10)},
                {"offset": None, "outcome": "info"} if row.kind == "send" else {"offset": other.offset},
                {"value": other.value},
                {"value": rng.choice((None, "ghost"))},
                {"outcome": rng.choice(("ok", "info", "fail"))},
                {"invoked_ns": row.invoked_ns + 40 * MS, "completed_ns": row.invoked_ns + 60 * MS},
                {"sequence": rng.randrange(9)} if row.kind == "send" else {"position": rng.randrange(9)},
                {"partition": 1 - row.partition},
            )
        )
        story.records[place] = replace(row, **change)
        if rng.random() < 0.2:
            story.records.remove(rng.choice(story.records))
    return story


def beside_the_definitions(stories: Sequence[Story]) -> tuple[Counter[str], Counter[Plain], Counter[Plain]]:
    """How often each type was found, each table was plain, and each was not although nothing at all was found."""
    rows = looked(stories)
    found, plainly, in_vain = Counter[str](), Counter[Plain](), Counter[Plain]()
    for story in stories:
        tables = plain_tables(story, rows.get(story.run, []))
        types = {kind for kind, *_ in Oracle(story).findings()}
        for kind in types:
            assert not tables >= TABLES[kind], f"{story.run}: {kind} although {TABLES[kind]} are plain: {story.records}"
        found.update(types)
        plainly.update(tables)
        in_vain.update(set() if types else set(Plain) - tables)
    return found, plainly, in_vain


def test_what_is_plain_has_no_finding_in_messy_histories() -> None:
    rng = random.Random(20261123)
    found, *_ = beside_the_definitions([messy(f"m{number}", rng) for number in range(HISTORIES)])
    assert all(found[kind] > 10 for kind in TABLES if kind not in NOT_IN_THE_ORACLE), found


def test_what_is_plain_has_no_finding_in_histories_that_are_nearly_clean() -> None:
    rng = random.Random(20261124)
    found, plainly, in_vain = beside_the_definitions([nearly_clean(f"n{number}", rng) for number in range(HISTORIES)])
    assert all(found[kind] for kind in TABLES if kind not in (*NOT_IN_THE_ORACLE, "int-poll-skip")), found
    assert all(plainly[table] > HISTORIES / 3 for table in Plain), plainly
    assert all(in_vain[table] < HISTORIES / 20 for table in Plain), in_vain
