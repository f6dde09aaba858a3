"""Each check must be able to fail: a clean history with one defect gives exactly that anomaly, and its neighbours that
look alike give none.

All stories are judged in one job, each as a run of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.checker.conclude import Judged
from harness.checker.facts import GONE_ERROR
from tests.harness.checker.registry import Registry
from tests.harness.checker.stories import SAFE, Story, clean

UNSAFE = {**SAFE, "idempotence": False}  # retries, several requests in flight
REGISTRY = Registry()
DEFECTS, FINE, defect, fine = REGISTRY.defects, REGISTRY.fine, REGISTRY.defect, REGISTRY.lawful


def drop(story: Story, which: Callable[[Any], bool]) -> int:
    """Remove records; returns how many."""
    before = len(story.records)
    story.records[:] = [record for record in story.records if not which(record)]
    return before - len(story.records)


def final(record: Any, partition: int = 0) -> bool:
    return bool(record.kind == "poll" and record.phase == "final" and record.partition == partition)


def main(record: Any, partition: int = 0) -> bool:
    return bool(record.kind == "poll" and record.phase == "main" and record.partition == partition)


# --- lost-write


@defect(lost_write=1)
def a_record_is_missing_from_the_final_read(run: str) -> Story:
    story = clean(run)
    assert drop(story, lambda r: final(r) and r.offset == 7) == 1
    return story


@defect(lost_write=5)
def the_tail_was_truncated(run: str) -> Story:
    story = clean(run)
    assert drop(story, lambda r: final(r) and r.offset >= 15) == 5
    assert story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=15, read_to=15) == 1
    return story


@defect(lost_write=20)
def the_whole_log_is_empty(run: str) -> Story:
    story = clean(run)
    drop(story, lambda r: final(r))
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=0, read_to=0)
    return story


@defect(lost_write=20)
def the_partition_is_gone(run: str) -> Story:
    story = clean(run)
    drop(story, lambda r: final(r, 1))
    story.bounds.pop()
    story.end(None, error=GONE_ERROR, at=(11_000, 11_001), partition=1)
    return story


@defect(lost_write=3)
def the_log_start_moved_although_nothing_may_expire(run: str) -> Story:
    story = clean(run, topic_config={"cleanup.policy": "delete"})
    drop(story, lambda r: final(r) and r.offset < 3)
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_start=3)
    return story


@defect(lost_write=1, inconsistent_offset=1)
def another_value_stands_at_the_offset(run: str) -> Story:
    """Two facts, two types: the offset has two values, and one acknowledged record is nowhere."""
    story = clean(run)
    story.send("x", None, at=(118, None), outcome="info", process=50, client="w1.p9")
    assert story.change(lambda r: getattr(r, "value", None) == "log/0/19" and r.kind == "poll", value="x") == 2
    return story


@defect(lost_write=1)
def a_lost_record_in_a_log_that_shrank_during_the_final_read(run: str) -> Story:
    """The first reading still saw it; the last one counts."""
    story = clean(run)
    story.poll([(0, "log/0/0")], at=(20_000, 20_001), phase="final", process=990, client="w1.d0")
    story.poll(
        [(i, f"log/0/{i}") for i in range(1, 20) if i != 4],
        at=(20_001, 20_002),
        phase="final",
        process=990,
        client="w1.d0",
    )
    return story


@defect(lost_write=1)
def a_lost_record_is_not_also_skipped_by_its_readers(run: str) -> Story:
    story = clean(run)
    assert drop(story, lambda r: r.kind == "poll" and r.partition == 0 and r.offset == 7) == 2
    return story


@fine
def records_expired_where_the_topic_lets_them(run: str) -> Story:
    story = clean(run, topic_config={"retention.ms": "1000"})
    drop(story, lambda r: final(r) and r.offset < 3)
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_start=3)
    return story


@fine
def records_were_deleted_on_request(run: str) -> Story:
    story = clean(run, more={"deleted": [{"topic": "log", "partition": 0, "before": 3}]})
    drop(story, lambda r: final(r) and r.offset < 3)
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_start=3)
    return story


@fine
def records_were_compacted(run: str) -> Story:
    story = clean(run, topic_config={"cleanup.policy": "compact"})
    assert drop(story, lambda r: final(r) and r.offset in (2, 7)) == 2
    return story


@fine
def the_topic_was_deleted_by_the_run(run: str) -> Story:
    story = clean(run, more={"deleted": [{"topic": "log", "partition": 1}]})
    drop(story, lambda r: final(r, 1))
    story.bounds.pop()
    story.end(None, error=GONE_ERROR, at=(11_000, 11_001), partition=1)
    return story


@fine
def a_gap_of_a_control_record(run: str) -> Story:
    """Nobody was ever told about offset 20, and 21 follows."""
    story = clean(run)
    story.send("late", 21, at=(500, 510), client="w1.p0", process=0, sequence=50)
    story.poll([(19, "log/0/19"), (21, "late")], at=(511, 520), process=200)
    story.poll([(21, "late")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=22, read_to=22)
    return story


@fine
def an_unknown_send_that_never_shows(run: str) -> Story:
    story = clean(run)
    story.send("perhaps", at=(300, None), outcome="info", process=60)
    return story


@fine
def an_unknown_send_that_shows(run: str) -> Story:
    story = clean(run)
    story.send("perhaps", at=(290, None), outcome="info", process=60, client="w1.p7")
    story.poll([(20, "perhaps")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=21, read_to=21)
    return story


# --- identity


@defect(duplicate=1)
def a_value_at_two_offsets(run: str) -> Story:
    story = clean(run)
    story.poll([(20, "log/0/6")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=21, read_to=21)
    return story


@defect(duplicate=1)
def a_value_in_two_partitions(run: str) -> Story:
    story = clean(run)
    story.poll([(20, "log/1/6")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=21, read_to=21)
    return story


@fine
def a_duplicate_that_the_settings_ask_for(run: str) -> Story:
    story = a_value_at_two_offsets(run)
    story.workload = UNSAFE
    return story


@defect(inconsistent_offset=1, read_then_vanished=1)
def two_reads_of_one_offset_differ(run: str) -> Story:
    """Nobody was told about offset 20, so nothing is lost that was promised; but "one" was read, and is gone."""
    story = clean(run)
    story.send("one", at=(290, None), outcome="info", process=60, client="w1.p7")
    story.send("two", at=(290, None), outcome="info", process=61, client="w1.p7")
    story.poll([(20, "one")], at=(310, 320), process=200)
    story.poll([(20, "two")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=21, read_to=21)
    return story


@defect(inconsistent_offset=1)
def a_record_stands_elsewhere_than_acknowledged(run: str) -> Story:
    """Offset 20 was told, 21 is where it stands; 20 is a gap."""
    story = clean(run)
    story.send("moved", 20, at=(290, 310), process=60, client="w1.p7")
    story.poll([(21, "moved")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=22, read_to=22)
    return story


@defect(phantom_value=1)
def a_value_that_nobody_sent(run: str) -> Story:
    story = clean(run)
    story.poll([(20, "ghost")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=21, read_to=21)
    return story


@defect(phantom_value=1)
def a_record_without_a_value(run: str) -> Story:
    story = clean(run)
    story.poll([(20, None)], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=21, read_to=21)
    return story


@defect(aborted_read=1)
def a_failed_send_is_read(run: str) -> Story:
    story = clean(run)
    story.send("refused", at=(290, 295), outcome="fail", process=60, client="w1.p7", error="NOT_ENOUGH_REPLICAS")
    story.poll([(20, "refused")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=21, read_to=21)
    return story


@fine
def a_failed_send_that_never_shows(run: str) -> Story:
    story = clean(run)
    story.send("refused", at=(290, 295), outcome="fail", process=60, client="w1.p7", error="NOT_ENOUGH_REPLICAS")
    return story


# --- polls


@defect(nonmonotonic_poll=1)
def a_reader_goes_back(run: str) -> Story:
    story = clean(run)
    story.poll([(18, "log/0/18")], at=(400, 410), process=100)
    return story


@defect(nonmonotonic_poll=1)
def a_reader_gets_a_record_twice(run: str) -> Story:
    story = clean(run)
    story.poll([(19, "log/0/19")], at=(400, 410), process=100)
    return story


@defect(int_nonmonotonic_poll=1)
def a_poll_returns_records_out_of_order(run: str) -> Story:
    story = clean(run)
    story.poll([(4, "log/0/4"), (5, "log/0/5"), (5, "log/0/5")], at=(400, 410), process=200)
    return story


@fine
def a_reader_that_was_moved(run: str) -> Story:
    story = clean(run)
    story.move(at=390, process=100)
    story.poll([(3, "log/0/3")], at=(400, 410), process=100)
    return story


@fine
def another_process_reads_again(run: str) -> Story:
    story = clean(run)
    story.poll([(3, "log/0/3"), (4, "log/0/4")], at=(400, 410), process=200)
    return story


@fine
def a_failed_poll_moves_nobody(run: str) -> Story:
    story = clean(run)
    for at, offset, outcome in ((400, 3, "ok"), (420, 4, "fail"), (440, 4, "ok")):
        story.poll([(offset, f"log/0/{offset}")], at=(at, at + 10), process=200, outcome=outcome)
    return story


@defect(nonmonotonic_poll=1)
def a_failed_poll_is_asked_where_its_process_stood(run: str) -> Story:
    story = clean(run)
    story.poll([(3, "log/0/3")], at=(400, 410), process=100, outcome="fail")
    return story


@defect(int_poll_skip=1)
def a_poll_passes_over_records(run: str) -> Story:
    story = clean(run)
    assert drop(story, lambda r: main(r) and r.offset in (6, 7)) == 2
    return story


@defect(poll_skip=1)
def a_reader_passes_over_records(run: str) -> Story:
    story = clean(run)
    assert drop(story, lambda r: main(r) and r.offset in (5, 6)) == 2
    return story


@fine
def a_reader_passes_over_compacted_records(run: str) -> Story:
    story = clean(run, topic_config={"cleanup.policy": "compact"})
    assert drop(story, lambda r: main(r) and r.offset in (6, 7)) == 2
    return story


@fine
def a_reader_passes_over_expired_records(run: str) -> Story:
    story = clean(run, topic_config={"retention.bytes": "1"})
    assert drop(story, lambda r: main(r) and r.offset in (6, 7)) == 2
    drop(story, lambda r: final(r) and r.offset < 9)
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_start=9)
    return story


# --- order


def overlapping_sends_swapped(run: str, **settings: Any) -> Story:
    """Two sends of one client whose intervals overlap stand the wrong way round."""
    story = clean(run, **settings)
    story.send("first", 21, at=(300, 320), client="w1.p0", process=70, sequence=50)
    story.send("second", 20, at=(301, 321), client="w1.p0", process=71, sequence=51)
    story.poll([(20, "second"), (21, "first")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=22, read_to=22)
    return story


@defect(producer_reorder=1)
def an_idempotent_producer_was_reordered(run: str) -> Story:
    return overlapping_sends_swapped(run)


@defect(producer_reorder=1)
def a_producer_with_one_request_in_flight_was_reordered(run: str) -> Story:
    return overlapping_sends_swapped(run, workload={**UNSAFE, "requests_in_flight": 1})


@fine
def a_reordering_that_the_settings_allow(run: str) -> Story:
    return overlapping_sends_swapped(run, workload=UNSAFE)


@fine
def two_clients_in_any_order(run: str) -> Story:
    story = overlapping_sends_swapped(run)
    assert story.change(lambda r: getattr(r, "value", None) == "second" and r.kind == "send", client="w1.p8") == 1
    return story


@defect(nonlinearizable_log=1)
def an_append_after_an_acknowledgement_stands_before_it(run: str) -> Story:
    story = clean(run)
    story.send("early", 21, at=(300, 310), client="w1.p5", process=70)
    story.send("late", 20, at=(311, 320), client="w1.p6", process=71)
    story.poll([(20, "late"), (21, "early")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=22, read_to=22)
    return story


@defect(nonlinearizable_log=1)
def an_unknown_append_stands_before_what_was_acknowledged_before_it(run: str) -> Story:
    story = an_append_after_an_acknowledgement_stands_before_it(run)
    assert (
        story.change(
            lambda r: getattr(r, "value", None) == "late" and r.kind == "send",
            outcome="info",
            offset=None,
            completed_ns=None,
        )
        == 1
    )
    return story


@defect(nonlinearizable_log=1)
def an_append_below_what_had_been_read(run: str) -> Story:
    """The higher record is of unknown outcome: only its read tells that it was there first."""
    story = clean(run)
    story.send("early", at=(290, None), outcome="info", client="w1.p5", process=70)
    story.poll([(21, "early")], at=(300, 310), process=200)
    story.send("late", 20, at=(311, 320), client="w1.p6", process=71)
    story.poll([(20, "late"), (21, "early")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=22, read_to=22)
    return story


@fine
def equal_times_are_concurrent(run: str) -> Story:
    story = clean(run)
    story.send("early", 21, at=(300, 310), client="w1.p5", process=70)
    story.send("late", 20, at=(310, 320), client="w1.p6", process=71)
    story.poll([(20, "late"), (21, "early")], at=(10_004, 10_005), phase="final", process=900, client="w1.d0")
    story.change(lambda r: getattr(r, "log_end", None) == 20 and r.partition == 0, log_end=22, read_to=22)
    return story


@defect(stale_end_offset=1)
def an_end_offset_below_an_acknowledgement(run: str) -> Story:
    story = clean(run, checks={"enabled": ["stale-end-offset", "lost-write"]})
    story.end(19, at=(400, 401), read_to=None, phase="main")
    return story


@fine
def an_end_offset_is_not_looked_at_unless_asked(run: str) -> Story:
    story = clean(run)
    story.end(19, at=(400, 401), read_to=None, phase="main")
    return story


@defect(unavailable=1)
def a_partition_took_too_long(run: str) -> Story:
    story = clean(run, checks={"unavailable_bound": 2})
    story.fault("kill", 400, 5_000)
    for partition, offset, at in ((0, 20, 500), (1, 20, 3_000)):
        story.send(
            f"after-{partition}", offset, at=(at, at + 10), partition=partition, process=80 + partition, client="w1.p5"
        )
        story.poll(
            [(offset, f"after-{partition}")],
            at=(10_004, 10_005),
            phase="final",
            process=900 + partition,
            client="w1.d0",
            partition=partition,
        )
    story.change(lambda r: getattr(r, "log_end", None) == 20, log_end=21, read_to=21)
    return story


@fine
def the_run_ended_before_the_bound_had_passed(run: str) -> Story:
    story = clean(run, checks={"unavailable_bound": 2})
    story.fault("kill", 400, 5_000)
    return story


def stories() -> list[Story]:
    return [clean("clean"), *REGISTRY.stories()]


@pytest.mark.spark
@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_gives_exactly_its_anomaly(name: str, conclusions: dict[str, Judged]) -> None:
    verdict = conclusions[name].verdict
    found = {one.type: one.count for one in verdict.anomalies if one.severity == "violation"}
    assert found == DEFECTS[name][1], [one.sentence for one in verdict.anomalies]
    assert (verdict.verdict, verdict.status) == ("invalid", "judged")
    assert {check.name for check in verdict.checks if check.verdict == "invalid"} == set(found)
    for one in verdict.anomalies:
        for witness in one.witnesses:
            assert "?" not in witness["sentence"], "a hole in the sentence"
            assert witness["ops"] or one.type == "unavailable"
            json.loads(witness["detail"])


@pytest.mark.spark
@pytest.mark.parametrize("name", ["clean", *FINE])
def test_its_lawful_neighbour_gives_none(name: str, conclusions: dict[str, Judged]) -> None:
    verdict = conclusions[name].verdict
    assert [one.sentence for one in verdict.anomalies if one.severity != "information"] == []
    assert (verdict.verdict, verdict.reason) == ("valid", None)


def _only(judged: Judged) -> dict[str, Any]:
    rows = judged.anomalies.to_pylist()
    assert len(rows) == 1
    return dict(rows[0])


@pytest.mark.spark
def test_sentences_say_who_was_told_what_and_what_is_there(conclusions: dict[str, Judged]) -> None:
    assert _only(conclusions["a_record_is_missing_from_the_final_read"])["sentence"] == (
        'w1.p1 process 1 was told at 0.085 s that "log/0/7" is stored in log-0 at offset 7, '
        "and after all faults had healed nothing was there. "
        "Faults at work: pause of b1 (fault 1)."
    )
    tail = conclusions["the_tail_was_truncated"].anomalies.to_pylist()
    assert {row["offset"] for row in tail} == {15, 16, 17, 18, 19}
    assert tail[0]["sentence"].startswith(
        'w1.p1 process 1 was told at 0.165 s that "log/0/15" is stored in log-0 at offset 15, '
        "and after all faults had healed log-0 ended at offset 15."
    )
    assert (
        "log-1 was gone, although the run never deleted it"
        in conclusions["the_partition_is_gone"].anomalies["sentence"][0].as_py()
    )
    assert "log-0 started at offset 3, although nothing lets its records expire" in (
        conclusions["the_log_start_moved_although_nothing_may_expire"].anomalies["sentence"][0].as_py()
    )
    assert _only(conclusions["a_failed_send_is_read"])["sentence"].startswith(
        'w1.d0 process 900 read "refused" at offset 20 of log-0 at 9.905 s, '
        "although w1.p7 process 60 had been told (NOT_ENOUGH_REPLICAS) that it was not stored."
    )
    assert _only(conclusions["a_value_at_two_offsets"])["sentence"].startswith(
        '"log/0/6" stands more than once: offset 6 of log-0, offset 20 of log-0. w1.p0 process 0 sent it once.'
    )
    assert "passed over 2 of the log's records" in _only(conclusions["a_reader_passes_over_records"])["sentence"]
    assert _only(conclusions["an_append_after_an_acknowledgement_stands_before_it"])["sentence"].startswith(
        'w1.p6 process 71 sent "late" at 0.211 s, when "early" had been acknowledged to w1.p5 process 70 '
        "at offset 21 of log-0 (done at 0.210 s), "
        "but it stands before that, at offset 20."
    )
    assert _only(conclusions["a_partition_took_too_long"])["sentence"].startswith(
        "After kill took effect at 0.300 s, log-1 took no write for 2.6 s; the spec allows 2 s."
    )


@pytest.mark.spark
def test_witnesses_are_the_acknowledgement_and_the_reads(conclusions: dict[str, Judged]) -> None:
    lost = _only(conclusions["a_record_is_missing_from_the_final_read"])
    assert lost["ops"][0] == 8, "the send that was acknowledged"
    assert len(lost["ops"]) == 2, "and the last read that saw it"
    swapped = _only(conclusions["an_idempotent_producer_was_reordered"])
    assert len(swapped["ops"]) == 2


@pytest.mark.spark
def test_what_the_settings_allow_is_information(conclusions: dict[str, Judged]) -> None:
    for name, kind in (
        ("a_duplicate_that_the_settings_ask_for", "duplicate"),
        ("a_reordering_that_the_settings_allow", "producer-reorder"),
    ):
        (summary,) = conclusions[name].verdict.anomalies
        assert (summary.type, summary.severity, summary.expected, summary.count) == (kind, "information", True, 1)
