"""When librdkafka gets a partition's records, and when they wait."""

from __future__ import annotations

import math

from workloads.lane import MOST_UNANSWERED, Lane


def with_unanswered(count: int, *, patience_s: float) -> Lane:
    """The first was handed over at 0 s."""
    lane = Lane(patience_s)
    for slot in range(count):
        lane.waiting.append((slot, str(slot)))
        assert lane.ready(0.0) == [(slot, str(slot))]
        lane.handed_over(0.0)
    return lane


def test_a_sixth_record_waits_for_an_answer_and_takes_all_that_came_after_it_along() -> None:
    lane = with_unanswered(MOST_UNANSWERED, patience_s=0.0)
    lane.waiting.extend([(5, "five"), (6, "six")])
    assert lane.ready(1.0) == []
    assert lane.in_the_air == 7
    lane.answered(2.0)
    assert lane.ready(2.0) == [(5, "five"), (6, "six")]
    assert not lane.waiting


def test_with_patience_a_partition_gets_more_for_as_long_as_it_said_something_lately() -> None:
    lane = with_unanswered(MOST_UNANSWERED + 1, patience_s=0.1)
    lane.waiting.append((9, "nine"))
    assert lane.ready(0.2) == []
    lane.answered(0.3)
    assert lane.ready(0.35) == [(9, "nine")]


def test_silence_begins_with_the_first_record_that_is_not_answered() -> None:
    lane = with_unanswered(1, patience_s=0.1)
    lane.answered(0.05)
    for slot in range(MOST_UNANSWERED):
        lane.handed_over(7.0 + slot / 100)
    lane.waiting.append((9, "nine"))
    assert lane.ready(7.09) == [(9, "nine")]
    lane.waiting.append((9, "nine"))
    assert lane.ready(7.11) == []


def test_a_producer_that_does_not_spin_never_waits() -> None:
    lane = with_unanswered(100, patience_s=math.inf)
    assert lane.in_the_air == 100
