"""What transactions that read, consumer groups and deposed leaders show. As test_seeded_defects.py: each story is a clean
history with one defect, and each has a lawful neighbour.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.checker.conclude import Judged
from tests.harness.checker.registry import Registry
from tests.harness.checker.stories import SAFE, Story, clean

REGISTRY = Registry()
DEFECTS, FINE, defect, fine = REGISTRY.defects, REGISTRY.fine, REGISTRY.defect, REGISTRY.lawful
COMMITTED = {**SAFE, "isolation": "read_committed"}
RECORDS = [(offset, f"log/0/{offset}") for offset in range(20)]


def transactional(
    run: str, *records: tuple[int, int, str], checks: dict[str, Any] | None = None, **settings: Any
) -> Story:
    """A clean history, and records of transactions above it in log-0 that the final read finds: (transaction, offset, value).

    Transaction n is of client w1.t<n>, begins at 400 ms and is committed from 450 to 500 ms.
    """
    story = clean(run, workload=COMMITTED, checks=checks or {}, **settings)
    numbers: dict[int, int] = {}
    for which, offset, value in records:
        client, process = f"w1.t{which}", 50 + which
        if which not in numbers:
            numbers[which] = story.begin(at=400, client=client, process=process)
        at = (410 + offset, 430 + offset)
        story.send(value, offset, at=at, client=client, process=process, transaction=numbers[which])
    for which, number in numbers.items():
        story.end_transaction("commit", number, at=(460, 500), client=f"w1.t{which}", process=50 + which)
    above = sorted((offset, value) for _, offset, value in records)
    story.poll(above, at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    end = above[-1][0] + 1
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=end, read_to=end)
    return story


def numbered(story: Story) -> list[int]:
    return [op.op for op in story.ops if op.kind == "begin"]


# --- reads of what is not committed


@defect(precommitted_read=1)
def a_transaction_reads_itself(run: str) -> Story:
    story = transactional(run, (0, 20, "mine"))
    (number,) = numbered(story)
    story.poll([(20, "mine")], at=(440, 445), process=50, client="w1.t0", transaction=number)
    return story


@defect(precommitted_read=1)
def a_consumer_reads_before_the_commit(run: str) -> Story:
    story = transactional(run, (0, 20, "early"))
    story.poll([(20, "early")], at=(440, 445), process=150)
    return story


@fine
def a_consumer_reads_while_the_commit_is_under_way(run: str) -> Story:
    story = transactional(run, (0, 20, "early"))
    story.poll([(20, "early")], at=(440, 461), process=150)
    return story


@fine
def read_uncommitted_reads_at_once(run: str) -> Story:
    story = a_consumer_reads_before_the_commit(run)
    story.workload = dict(SAFE)
    return story


# --- order in transactions


@defect(int_nonmonotonic_send=1)
def a_transaction_was_reordered(run: str) -> Story:
    return transactional(run, (0, 21, "first"), (0, 20, "second"))


@defect(int_nonmonotonic_poll=1)
def a_transaction_reads_backwards(run: str) -> Story:
    story = transactional(run, (0, 20, "mine"))
    (number,) = numbered(story)
    for at, offset in ((440, 5), (445, 4)):
        story.poll([RECORDS[offset]], at=(at, at + 3), process=60, client="w1.t0", transaction=number)
    return story


@fine
def records_of_others_between(run: str) -> Story:
    return transactional(run, (0, 20, "a"), (1, 21, "b"), (0, 22, "c"))


def the_same_on_request(run: str) -> Story:
    story = records_of_others_between(run)
    story.checks = {"enabled": ["int-send-skip", "lost-write"]}
    return story


# --- cycles


def reading_each_other(run: str, *, both: bool) -> Story:
    story = transactional(run, (0, 20, "a"), (1, 21, "b"))
    one, other = numbered(story)
    story.poll([(21, "b")], at=(455, 465), process=50, client="w1.t0", transaction=one)
    if both:
        story.poll([(20, "a")], at=(455, 465), process=51, client="w1.t1", transaction=other)
    return story


@defect(G1c=1)
def two_transactions_read_each_other(run: str) -> Story:
    return reading_each_other(run, both=True)


@fine
def one_of_them_reads_the_other(run: str) -> Story:
    return reading_each_other(run, both=False)


# --- consumer groups


def grouped(run: str, *, read: Sequence[int] = range(20)) -> Story:
    """Member m0 is given log-0 from its beginning in generation 1, is handed all of it and commits 10, then 20."""
    story = clean(run)
    story.position("fetch-offsets", None, at=(390, 391))
    story.position("assign", None, at=(390, 392))
    for part, at in ((range(10), 400), (range(10, 20), 420)):
        handed = [RECORDS[offset] for offset in part if offset in read]
        story.poll(handed, at=(at, at + 5), client="w1.m0", process=300)
        story.position("commit-offsets", part[-1] + 1, at=(at + 6, at + 9))
    return story


def handed_on(run: str, start: int | None = 20, *, generation: int = 2, told: int | None = 20, **given: Any) -> Story:
    """The partition goes from m0 to m1."""
    story = grouped(run)
    story.position("revoke", 20, at=(430, 431))
    story.position("fetch-offsets", told, at=(440, 441), client="w1.m1", process=301, generation=generation)
    story.position("assign", start, at=(440, 442), client="w1.m1", process=301, generation=generation, **given)
    return story


@fine
def a_group_that_does_its_work(run: str) -> Story:
    return handed_on(run)


@defect(committed_offset_backwards=1)
def a_group_is_told_less_than_it_committed(run: str) -> Story:
    return handed_on(run, start=10, told=10)


@defect(committed_offset_backwards=1)
def a_group_has_forgotten_all(run: str) -> Story:
    return handed_on(run, start=None, told=None)


@defect(committed_offset_backwards=1)
def a_commit_below_the_last_is_accepted(run: str) -> Story:
    story = grouped(run)
    story.position("commit-offsets", 15, at=(430, 432))
    return story


@fine
def commits_at_one_time_have_no_order(run: str) -> Story:
    story = grouped(run)
    story.position("commit-offsets", 15, at=(427, 432))
    return story


@fine
def a_commit_of_unknown_outcome_may_have_failed(run: str) -> Story:
    story = grouped(run)
    story.positions[-1] = replace(story.positions[-1], outcome="info", completed_ns=None)
    story.position("fetch-offsets", 10, at=(440, 441), client="w1.m1", process=301)
    return story


@fine
def offsets_of_an_aborted_transaction_do_not_count(run: str) -> Story:
    story = grouped(run)
    number = story.begin(at=430)
    story.position("commit-offsets", 30, at=(431, 432), transaction=number)
    story.end_transaction("abort", number, at=(433, 434))
    story.position("fetch-offsets", 20, at=(440, 441), client="w1.m1", process=301)
    return story


@defect(committed_past_processed=1)
def a_group_is_told_more_than_anybody_committed(run: str) -> Story:
    return handed_on(run, told=25)


@defect(committed_past_processed=5)
def a_commit_beyond_what_was_handed_out(run: str) -> Story:
    return grouped(run, read=range(15))


@defect(group_skip=2, int_poll_skip=1)
def records_that_no_member_was_handed(run: str) -> Story:
    return grouped(run, read=[offset for offset in range(20) if offset not in (5, 6)])


@defect(group_skip=1)
def a_partition_is_taken_up_beyond_what_was_committed(run: str) -> Story:
    return handed_on(run, start=25)


@fine
def a_member_goes_on_where_it_is(run: str) -> Story:
    """An assign op names what it has, too: it has read more than it committed."""
    story = grouped(run)
    story.positions.pop()
    story.position("assign", 20, at=(440, 442), generation=2)
    return story


@defect(two_owners=1)
def two_members_in_one_generation(run: str) -> Story:
    return handed_on(run, generation=1)


@fine
def epochs_of_members_differ(run: str) -> Story:
    story = handed_on(run, generation=1)
    story.positions[:] = [replace(row, protocol="consumer") for row in story.positions]
    return story


@defect(two_owners=1)
def a_zombie_commits(run: str) -> Story:
    story = handed_on(run)
    story.position("commit-offsets", 20, at=(450, 451))
    return story


@fine
def a_zombie_is_refused(run: str) -> Story:
    story = handed_on(run)
    story.position("commit-offsets", 20, at=(450, 451), outcome="fail")
    return story


@fine
def a_member_that_has_the_partition_again(run: str) -> Story:
    story = handed_on(run)
    story.position("lost", None, at=(445, 446), client="w1.m1", process=301)
    story.position("assign", 20, at=(450, 451), generation=3)
    story.position("commit-offsets", 20, at=(452, 453), generation=3)
    return story


@fine
def a_member_that_was_paused_hears_of_its_assignment_too_late(run: str) -> Story:
    story = handed_on(run)
    story.position("assign", 20, at=(445, 446))
    story.position("commit-offsets", 20, at=(450, 451), client="w1.m1", process=301, generation=2)
    return story


def incarnations(run: str) -> Story:
    """Of one static member, both in the generation that there is."""
    story = handed_on(run, generation=1)
    ids = {"w1.m0": "i0-00112233-4455-6677-8899-aabbccddeeff", "w1.m1": "i0-ffeeddccbbaa99887766554433221100"}
    story.positions[:] = [replace(row, member=ids[row.client]) for row in story.positions]
    return story


@fine
def a_static_member_takes_its_own_place(run: str) -> Story:
    return incarnations(run)


@fine
def a_static_member_that_was_replaced_hears_of_its_assignment_too_late(run: str) -> Story:
    story = incarnations(run)
    first, second = (next(row.member for row in story.positions if row.client == name) for name in ("w1.m0", "w1.m1"))
    story.position("assign", 20, at=(445, 446), member=first)
    story.position("commit-offsets", 20, at=(450, 451), client="w1.m1", process=301, generation=1, member=second)
    return story


@defect(two_owners=1)
def a_static_member_goes_on_after_it_was_replaced(run: str) -> Story:
    story = incarnations(run)
    first, second = (next(row.member for row in story.positions if row.client == name) for name in ("w1.m0", "w1.m1"))
    story.position("commit-offsets", 20, at=(445, 446), client="w1.m1", process=301, generation=1, member=second)
    story.position("commit-offsets", 20, at=(450, 451), member=first)
    return story


# --- leaders


def epochs(run: str, of: Callable[[int], int]) -> Story:
    story = clean(run)
    for index, record in enumerate(story.records):
        if record.kind == "poll" and record.partition == 0 and record.offset is not None:
            story.records[index] = replace(record, leader_epoch=of(record.offset))
    return story


@defect(unfenced_leader=1)
def a_deposed_leader_went_on_writing(run: str) -> Story:
    return epochs(run, lambda offset: 3 if offset in (10, 11) else 2)


@fine
def leaders_change(run: str) -> Story:
    return epochs(run, lambda offset: offset // 7)


def stories() -> list[Story]:
    return [*REGISTRY.stories(), the_same_on_request("the_same_on_request")]


@pytest.mark.spark
@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_gives_exactly_its_anomaly(name: str, conclusions: dict[str, Judged]) -> None:
    verdict = conclusions[name].verdict
    found = {one.type: one.count for one in verdict.anomalies if one.severity == "violation"}
    assert found == DEFECTS[name][1], [one.sentence for one in verdict.anomalies]
    assert (verdict.verdict, verdict.status) == ("invalid", "judged")
    for one in verdict.anomalies:
        for witness in one.witnesses:
            assert "?" not in witness["sentence"], "a hole in the sentence"
            assert witness["ops"]
            json.loads(witness["detail"])


@pytest.mark.spark
@pytest.mark.parametrize("name", FINE)
def test_its_lawful_neighbour_gives_none(name: str, conclusions: dict[str, Judged]) -> None:
    verdict = conclusions[name].verdict
    assert [one.sentence for one in verdict.anomalies if one.severity != "information"] == []
    assert (verdict.verdict, verdict.reason) == ("valid", None)


@pytest.mark.spark
def test_what_kafka_does_not_promise_is_told_on_request(conclusions: dict[str, Judged]) -> None:
    (asked,) = conclusions["the_same_on_request"].verdict.anomalies
    assert (asked.type, asked.severity, asked.count) == ("int-send-skip", "information", 1)
    assert "1 records of others stand between them, at offsets 20 and 22" in asked.sentence
    assert conclusions["records_of_others_between"].verdict.anomalies == []


@pytest.mark.spark
def test_sentences(conclusions: dict[str, Judged]) -> None:
    def says(name: str) -> str:
        return str(conclusions[name].verdict.anomalies[0].sentence)

    assert says("two_transactions_read_each_other").startswith(
        "2 transactions come before each other: transaction 1 of w1.t0 wrote offset 20 of log-0, which transaction 1 of w1.t1 "
        "read; transaction 1 of w1.t1 wrote offset 21 of log-0, which transaction 1 of w1.t0 read."
    )
    assert says("a_transaction_reads_itself").startswith(
        'w1.t0 process 50 read "mine" at offset 20 of log-0 at 0.345 s, which the same transaction had written: it was not '
        "committed yet (transaction 1 of w1.t0)."
    )
    assert says("a_group_is_told_less_than_it_committed").startswith(
        "w1.m1 was told 10 for group g in log-0, after w1.m0 committed 20."
    )
    assert says("a_commit_beyond_what_was_handed_out").startswith(
        "w1.m0 committed 20 for group g in log-0 at 0.329 s, but the record at offset 15 was never handed to any member."
    )
    assert says("two_members_in_one_generation").startswith(
        "In generation 1 of group g, w1.m0 was given log-0, and w1.m1 was given it too."
    )
