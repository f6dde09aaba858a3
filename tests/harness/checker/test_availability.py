"""Waits, by hand."""

from __future__ import annotations

import numpy as np

from harness.checker.availability import Successes, Wait, beyond, longest, waits

S = 10**9


def side(write: bool, *ops: tuple[float, float]) -> Successes:
    return Successes(
        write=write,
        grain_ns=1,
        invoked=np.array([round(begin * S) for begin, _ in ops]),
        completed=np.array([round(end * S) for _, end in ops]),
    )


FAULTS = [{"fault": 1, "name": "kill", "proved_ns": 10 * S}, {"fault": 2, "name": "wipe", "proved_ns": None}]


def test_the_first_success_of_what_was_invoked_after_the_proof_counts() -> None:
    logs = {7: [side(True, (9, 11), (12, 20), (13, 14))]}
    assert list(waits(FAULTS, logs)) == [Wait(1, "kill", 7, True, 10 * S, 4.0)]


def test_the_partition_that_waited_longest_counts() -> None:
    logs = {7: [side(True, (10.1, 10.2)), side(False, (10.5, 11))], 8: [side(True, (13, 13.5))]}
    assert longest(waits(FAULTS, logs)) == {1: (3.5, 1.0)}


def test_a_partition_that_never_came_back_is_none() -> None:
    assert longest(waits(FAULTS, {7: [side(True, (11, 12))], 8: [side(True, (1, 2))]})) == {1: (None, None)}


def test_the_bound_counts_writes_of_those_who_went_on_trying() -> None:
    logs = {
        log: {"run": "r", "topic": "log", "partition": log, "origin_ns": 0, "last_send_ns": last * S}
        for log, last in ((7, 30), (8, 11))
    }
    found = [
        Wait(1, "kill", 7, True, 10 * S, 4.0),
        Wait(1, "kill", 7, False, 10 * S, 9.0),
        Wait(2, "kill", 7, True, 10 * S, None),
        Wait(3, "kill", 8, True, 10 * S, None),
    ]
    assert [row["sentence"] for row in beyond(3.0, found, logs)] == [
        "After kill took effect at 10.000 s, log-7 took no write for 4.0 s; the spec allows 3 s.",
        "After kill took effect at 10.000 s, log-7 took no write any more; the spec allows 3 s.",
    ]
    assert beyond(None, found, logs) == []
