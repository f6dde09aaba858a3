"""The polynomial engines of sets, queues, counters and mutexes against brute force."""

from __future__ import annotations

import pytest

from harness.checker.linearizability.counters import sequencer, unit_counter
from harness.checker.linearizability.mutexes import mutex
from harness.checker.linearizability.queues import fifo_queue
from harness.checker.linearizability.sets import grow_only_set
from tests.harness.checker.linearizability.agreement import assert_agreement


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("grow-only-set", grow_only_set),
        ("unique-queue", fifo_queue),
        ("unit-counter", unit_counter),
        ("sequencer", sequencer),
        ("held-mutex", mutex),
    ],
)
def test_they_agree_with_the_definition(name: str, engine, part: int) -> None:  # type: ignore[no-untyped-def]
    share = 0.35 if engine is mutex else 0.6  # a broken history may have a holder do two things at once
    assert_agreement(name, engine, range(5000 * part, 5000 * (part + 1)), share)
