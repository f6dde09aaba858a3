"""What races show: transactions, controllers, replicas and records that were read and vanish. As test_seeded_defects.py:
each story is a clean history with one defect, and each has a lawful neighbour.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.checker.conclude import Judged
from nodes.event import EventKind
from tests.harness.checker.registry import Registry
from tests.harness.checker.stories import SAFE, Story, clean

REGISTRY = Registry()
DEFECTS, FINE, defect, fine = REGISTRY.defects, REGISTRY.fine, REGISTRY.defect, REGISTRY.lawful
COMMITTED = {**SAFE, "isolation": "read_committed"}
WITHOUT_OPS = {"two-active-controllers", "under-replicated", "fenced-replica"}  # nodes did it, no client


def transactional(
    run: str,
    *,
    end: str | None = "commit",
    outcome: str = "ok",
    visible: range = range(20, 26),
    log_end: int = 27,
    stable_end: int | None = 27,
    workload: dict[str, Any] = COMMITTED,
    asked_at: int = 30_000,
) -> Story:
    """A clean history, and a transaction of six records at offsets 20 .. 25 of log-0, with its marker at 26."""
    story = clean(run, workload=dict(workload))
    transaction = story.begin(at=400)
    for number in range(6):
        at = (410 + number, 430 + number)
        story.send(f"t{number}", 20 + number, at=at, client="w1.t0", process=50, transaction=transaction)
    if end is not None:
        done = None if outcome == "info" else 500
        story.end_transaction(end, transaction, at=(450, done), outcome=outcome)
    story.bounds.pop()
    story.bounds.pop()
    read = [(offset, f"t{offset - 20}") for offset in visible]
    story.poll(read, at=(asked_at, asked_at + 5), phase="final", process=900, client="w1.d0")
    reached = log_end if stable_end is None else stable_end
    story.end(log_end, at=(asked_at + 6, asked_at + 7), stable_end=stable_end, read_to=reached)
    story.end(20, at=(asked_at + 6, asked_at + 7), stable_end=20, partition=1)
    return story


# --- transactions


@fine
def a_committed_transaction_is_there(run: str) -> Story:
    return transactional(run)


@fine
def an_aborted_transaction_is_not_there(run: str) -> Story:
    return transactional(run, end="abort", visible=range(0))


@fine
def a_transaction_that_nobody_ended_is_not_there(run: str) -> Story:
    return transactional(run, end=None, visible=range(0), asked_at=90_000)


@fine
def an_unknown_commit_may_have_happened(run: str) -> Story:
    return transactional(run, outcome="info")


@fine
def an_unknown_commit_may_have_failed(run: str) -> Story:
    return transactional(run, outcome="info", visible=range(0))


@fine
def read_uncommitted_shows_aborted_records(run: str) -> Story:
    return transactional(run, end="abort", workload=SAFE, stable_end=None)


@defect(lost_write=3, torn_transaction=1)
def half_of_a_committed_transaction_is_gone(run: str) -> Story:
    return transactional(run, visible=range(20, 23))


@defect(lost_write=6)
def all_of_a_committed_transaction_is_gone(run: str) -> Story:
    return transactional(run, visible=range(0))


@defect(aborted_read=2, torn_transaction=1)
def a_part_of_an_aborted_transaction_is_there(run: str) -> Story:
    return transactional(run, end="abort", visible=range(24, 26))


@defect(aborted_read=6)
def all_of_an_aborted_transaction_is_there(run: str) -> Story:
    return transactional(run, end="abort")


@defect(aborted_read=6)
def a_commit_that_was_refused_happened_all_the_same(run: str) -> Story:
    return transactional(run, outcome="fail")


@defect(lost_write=2, torn_transaction=1)
def an_unknown_commit_happened_by_half(run: str) -> Story:
    return transactional(run, outcome="info", visible=range(22, 26))


@defect(hanging_transaction=1)
def a_transaction_that_ended_is_still_open(run: str) -> Story:
    return transactional(run, end="abort", visible=range(0), log_end=26, stable_end=20)


@defect(hanging_transaction=1)
def a_transaction_is_open_long_after_its_timeout(run: str) -> Story:
    return transactional(run, end=None, visible=range(0), log_end=26, stable_end=20, asked_at=90_000)


@defect(hanging_transaction=1, torn_transaction=1)
def the_second_half_of_a_commit_is_behind_a_transaction_that_hangs(run: str) -> Story:
    return transactional(run, visible=range(20, 23), log_end=27, stable_end=23)


# --- records that were read and vanished


def unacknowledged(run: str, *, outcome: str = "info", error: str | None = "NOT_ENOUGH_REPLICAS_AFTER_APPEND") -> Story:
    story = clean(run)
    story.send("refused", None, at=(400, 410), client="w1.p7", process=60, outcome=outcome, error=error)
    story.poll([(20, "refused")], at=(420, 430), process=150)
    return story


@defect(read_then_vanished=1)
def a_record_that_was_read_is_beyond_the_end(run: str) -> Story:
    return unacknowledged(run)


@defect(read_then_vanished=1, inconsistent_offset=1, nonlinearizable_log=1)
def another_record_took_the_place_of_one_that_was_read(run: str) -> Story:
    story = unacknowledged(run)
    story.send("later", 20, at=(500, 510), client="w1.p7", process=61)
    story.poll([(20, "later")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=21, read_to=21)
    return story


@fine
def a_record_that_was_read_is_still_there(run: str) -> Story:
    story = unacknowledged(run)
    story.poll([(20, "refused")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=21, read_to=21)
    return story


@fine
def an_aborted_record_may_be_read_uncommitted_and_vanish_with_its_log(run: str) -> Story:
    story = transactional(run, end="abort", workload=SAFE, visible=range(0), log_end=20, stable_end=None)
    story.poll([(20, "t0")], at=(460, 470), process=150)
    return story


# --- controllers


def claimed(run: str, *claims: tuple[str, int, int, int], **settings: Any) -> Story:
    story = clean(run, **settings)
    for node, epoch, since, until in claims:
        story.claim(node, epoch, since, until)
    return story


@defect(two_active_controllers=1)
def two_controllers_for_half_a_minute(run: str) -> Story:
    return claimed(run, ("c1", 4, 100, 40_000), ("c2", 7, 10_000, 60_000))


@fine
def two_controllers_for_a_moment(run: str) -> Story:
    return claimed(run, ("c1", 4, 100, 10_400), ("c2", 5, 10_000, 60_000))


@fine
def a_controller_that_was_paused_claims_once_more(run: str) -> Story:
    return claimed(run, ("c1", 4, 100, 5_000), ("c2", 5, 8_000, 60_000), ("c1", 4, 40_000, 40_200))


@fine
def a_bound_of_the_spec(run: str) -> Story:
    return claimed(run, ("c1", 4, 100, 16_000), ("c2", 7, 10_000, 60_000), checks={"two_controllers_bound": 10})


@defect(two_active_controllers=1)
def two_controllers_of_one_epoch(run: str) -> Story:
    return claimed(run, ("c1", 4, 100, 900), ("c2", 4, 5_000, 5_200))


@fine
def one_controller_claims_its_epoch_again(run: str) -> Story:
    return claimed(run, ("c1", 4, 100, 900), ("c1", 4, 5_000, 60_000))


# --- replicas


def replicated(run: str, isr: tuple[int, ...], *, ready: int = 5_000, final: int = 60_000) -> Story:
    story = clean(run)
    story.leads(50, 1, (1, 2, 3))
    story.event(EventKind.EXITED, 1_000, "b3")
    story.event(EventKind.FENCED, 2_000, "b3")
    story.event(EventKind.STARTED, 4_000, "b3")
    story.event(EventKind.READY, ready, "b3")
    story.event(EventKind.UNFENCED, ready, "b3")
    story.leads(ready + 500, 1, isr)
    story.event(EventKind.EXITED, final + 10_000, "b1")  # the run is over
    story.leads(final + 11_000, -1, ())
    story.final_read({}, since=final)
    story.end(20, at=(final, final + 1))
    return story


@defect(under_replicated=1)
def a_replica_never_came_back(run: str) -> Story:
    return replicated(run, (1, 2))


@fine
def every_replica_came_back(run: str) -> Story:
    return replicated(run, (1, 2, 3))


@fine
def a_replica_had_no_time_to_come_back(run: str) -> Story:
    return replicated(run, (1, 2), ready=50_000)


def fencing(run: str, *, released_while: bool) -> Story:
    story = clean(run)
    story.metadata_record("register-broker", broker=2, fenced=True)
    story.metadata_record("broker-registration-change", broker=2, fenced=False)
    story.metadata_record("partition", partition=0, isr=(1, 2), replicas=(1, 2), leader=1)
    story.metadata_record("partition-change", partition=0, isr=(1,))
    story.metadata_record("broker-registration-change", broker=2, fenced=True)
    if not released_while:
        story.metadata_record("broker-registration-change", broker=2, fenced=False)
    story.metadata_record("partition-change", partition=0, isr=(1, 2))
    for row in list(story.metadata):
        story.metadata.append(type(row)(**{**{name: getattr(row, name) for name in row.__slots__}, "node": "b1"}))
    return story


@defect(fenced_replica=1)
def a_fenced_broker_joins_the_isr(run: str) -> Story:
    return fencing(run, released_while=True)


@fine
def an_unfenced_broker_joins_the_isr(run: str) -> Story:
    return fencing(run, released_while=False)


@fine
def what_a_controller_wrote_without_its_quorum_was_truncated(run: str) -> Story:
    """Offsets 2 to 4 were written twice in the old leader's copy; only epoch 3 was agreed on."""
    story = clean(run)
    story.metadata_record("register-broker", broker=1, fenced=False)
    story.metadata_record("partition", partition=0, isr=(1, 2), replicas=(1, 2), leader=1)
    story.metadata_record("leader-change", epoch=3, offset=2)
    story.metadata_record("partition-change", epoch=1, offset=2, partition=0, isr=(1, 2), leader=1)
    story.metadata_record("broker-registration-change", epoch=3, offset=3, broker=1, fenced=True)
    story.metadata_record("partition-change", epoch=3, offset=4, partition=0, isr=(2,), leader=2)
    story.metadata_record("partition-change", epoch=1, offset=5, partition=0, isr=(1,), leader=1)
    return story


@fine
def the_last_member_of_an_isr_is_fenced(run: str) -> Story:
    story = clean(run)
    story.metadata_record("partition", partition=0, isr=(2,), replicas=(1, 2), leader=2)
    story.metadata_record("broker-registration-change", broker=2, fenced=True)
    story.metadata_record("partition-change", partition=0, isr=(2,), leader=-1)
    return story


# --- information, and what nobody can say


def deposed(run: str) -> Story:
    return claimed(run, ("c1", 4, 100, 10_000), ("c2", 7, 12_000, 60_000))


def deposed_in_a_partition(run: str) -> Story:
    story = deposed(run)
    story.step("cut", 5_000, "c1", "c2", "c3", text="cut c1 ↔ c2 c3")
    return story


def deposed_by_one_that_was_cut_off(run: str) -> Story:
    story = deposed(run)
    story.step("cut", 5_000, "c2", "c1", "c3", text="cut c2 ↔ c1 c3")
    return story


def open_transaction(run: str) -> Story:
    return transactional(run, end=None, visible=range(0), log_end=26, stable_end=20)


def leaderless(run: str) -> Story:
    story = clean(run)
    story.records[:] = [r for r in story.records if not (r.phase == "final" and r.partition == 1)]
    story.bounds.pop()
    story.leads(9_000, -1, (2,), partition=1)
    story.end(None, error="_TIMED_OUT", at=(11_000, 11_001), partition=1)
    return story


OTHERS = (deposed, deposed_in_a_partition, deposed_by_one_that_was_cut_off, open_transaction, leaderless)


def stories() -> list[Story]:
    return [*REGISTRY.stories(), *[make(make.__name__) for make in OTHERS]]


@pytest.mark.spark
@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_gives_exactly_its_anomaly(name: str, conclusions: dict[str, Judged]) -> None:
    verdict = conclusions[name].verdict
    found = {one.type: one.count for one in verdict.anomalies if one.severity == "violation"}
    assert found == DEFECTS[name][1], [one.sentence for one in verdict.anomalies]
    assert (verdict.verdict, verdict.status) == ("invalid", "judged")
    for one in (one for one in verdict.anomalies if one.severity == "violation"):
        for witness in one.witnesses:
            assert "?" not in witness["sentence"], "a hole in the sentence"
            assert witness["ops"] or one.type in WITHOUT_OPS
            json.loads(witness["detail"])


@pytest.mark.spark
@pytest.mark.parametrize("name", FINE)
def test_its_lawful_neighbour_gives_none(name: str, conclusions: dict[str, Judged]) -> None:
    verdict = conclusions[name].verdict
    assert [one.sentence for one in verdict.anomalies if one.severity != "information"] == []
    assert (verdict.verdict, verdict.reason) == ("valid", None)


def _sentences(judged: Judged) -> dict[str, str]:
    """Type -> what was found, without the faults that the judge adds."""
    return {
        one.type: one.sentence.partition(" Faults at work")[0]
        for one in judged.verdict.anomalies
        if one.severity != "unjudged"
    }


@pytest.mark.spark
def test_sentences_about_transactions(conclusions: dict[str, Judged]) -> None:
    assert _sentences(conclusions["a_part_of_an_aborted_transaction_is_there"]) == {
        "aborted-read": 'w1.d0 process 900 read "t4" at offset 24 of log-0 at 29.905 s, although transaction 1 of w1.t0, '
        "which wrote it, was not committed.",
        "torn-transaction": 'Of the 6 records that transaction 1 of w1.t0 wrote, 2 can be read and 4 cannot: "t4" is at '
        'offset 24 of log-0, "t0" is not at offset 20 of log-0. w1.t0 was told at 0.400 s that it is aborted.',
    }
    assert (
        "w1.t0 never learned whether it was committed."
        in (_sentences(conclusions["an_unknown_commit_happened_by_half"])["torn-transaction"])
    )
    assert _sentences(conclusions["a_transaction_that_ended_is_still_open"]) == {
        "hanging-transaction": "At the final read, consumers with read_committed could read log-0 up to offset 20 only, of "
        "26, although every transaction of the run had been committed, aborted, or had timed out long before: what follows "
        "cannot be read by them any more.",
    }


@pytest.mark.spark
def test_sentences_about_nodes(conclusions: dict[str, Judged]) -> None:
    assert _sentences(conclusions["a_record_that_was_read_is_beyond_the_end"])["read-then-vanished"].startswith(
        'w1.c0 process 150 read "refused" at offset 20 of log-0 at 0.330 s, and after all faults had healed log-0 ended at '
        "offset 20. w1.p7 process 60 had been told NOT_ENOUGH_REPLICAS_AFTER_APPEND."
    )
    assert _sentences(conclusions["two_controllers_for_half_a_minute"])["two-active-controllers"].startswith(
        "c1 went on claiming to be the active controller, in epoch 4, for 30.0 s (from 9.900 s to 39.900 s) after c2 had "
        "claimed it in epoch 7; 5 s are allowed."
    )
    assert _sentences(conclusions["a_replica_never_came_back"])["under-replicated"].startswith(
        "At the end log-0 had 2 of its 3 replicas in the ISR ([1, 2]); 1 of them had not come back, although every broker "
        "had been up and left alone for 55 s."
    )
    assert _sentences(conclusions["a_fenced_broker_joins_the_isr"]) == {
        "fenced-replica": "Record 5 of the metadata log put broker 2 into the ISR of log-0 ([1, 2]) while broker 2 was fenced."
    }


@pytest.mark.spark
def test_a_healthy_controller_that_was_deposed_is_information(conclusions: dict[str, Judged]) -> None:
    for name, told in (("deposed", True), ("deposed_by_one_that_was_cut_off", True), ("deposed_in_a_partition", False)):
        verdict = conclusions[name].verdict
        assert (verdict.verdict, verdict.reason) == ("valid", None)
        assert [(one.type, one.severity) for one in verdict.anomalies] == [("epoch-inflation", "information")] * told
    assert (
        conclusions["deposed"]
        .verdict.anomalies[0]
        .sentence.startswith(
            "c1 was deposed as active controller (epoch 4) at 9.900 s, although it was up and no fault cut it off from most "
            "controllers; c2 leads since 11.900 s, in epoch 7."
        )
    )


@pytest.mark.spark
def test_what_cannot_be_said_makes_a_verdict_unknown(conclusions: dict[str, Judged]) -> None:
    waiting = conclusions["open_transaction"].verdict
    assert waiting.verdict == "unknown"
    assert "transaction 1 of w1.t0 may still have been open, so nobody can say" in waiting.unjudged[-1]
    lost = conclusions["leaderless"].verdict
    assert (lost.verdict, lost.unjudged) == (
        "unknown",
        ["log-1 was not read after the faults, because it had no leader: 20 acknowledged records could not be judged."],
    )


@pytest.mark.spark
def test_checks_without_rows_of_theirs_are_not_told(conclusions: dict[str, Judged]) -> None:
    plain = {check.name for check in conclusions["a_record_that_was_read_is_still_there"].verdict.checks}
    assert plain.isdisjoint({"torn-transaction", "hanging-transaction", "two-active-controllers", "fenced-replica"})
    assert "torn-transaction" in {
        check.name for check in conclusions["a_committed_transaction_is_there"].verdict.checks
    }
