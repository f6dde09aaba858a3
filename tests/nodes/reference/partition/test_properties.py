"""Whatever happens to three replicas, nothing that was promised breaks; and without any one protection something does."""

from __future__ import annotations

import itertools
import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.reference.protections import ALL_ON, Protection, Protections
from tests.nodes.reference.partition.cluster import Cluster
from tests.nodes.reference.partition.observer import Violation

SCRIPT = 600  # bytes, one for each decision
PATIENCE = 3_000  # schedules until a protection that is off must have been missed

LOST = r"leads without|^offset \d+ was|replicas differ"
WITHOUT = {
    Protection.APPEND_BEFORE_ACKNOWLEDGE: LOST,
    Protection.REPLICATE_BEFORE_ACKNOWLEDGE: LOST,
    Protection.TRUNCATE_BY_EPOCH: LOST,
    Protection.MAXIMAL_ISR: LOST,
    Protection.ISR_COMMITTED_FIRST: LOST,
    Protection.FSYNC_ON_PRODUCE: LOST,
    Protection.END_OFFSET_AFTER_EPOCH_START: r"^end offset \d+ in epoch \d+ after",
    Protection.BROKER_EPOCH_AT_LEADER: r"proposes epoch",
    Protection.ISR_ELIGIBILITY_AT_LEADER: r"knows to be fenced or stopping",
    Protection.SEQUENCES_AFTER_FAILOVER: r"has a batch twice",
    Protection.PRODUCER_EPOCH_FENCED: r"a zombie of producer",
    Protection.STABLE_OFFSET: r"^read_committed shows",
    Protection.CHECKSUM_AFTER_TORN_WRITE: r"is not what was written|replicas differ|is not in it",
}


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=50, max_size=SCRIPT), st.booleans())
def test_nothing_breaks_in_schedules_that_hypothesis_makes(script: bytes, flush: bool) -> None:
    Cluster(script, ALL_ON, flush=flush).run()


@pytest.mark.parametrize("flush", [True, False])
def test_nothing_breaks_in_random_schedules(flush: bool) -> None:
    for seed in range(800):
        Cluster(Random(seed).randbytes(SCRIPT), ALL_ON, flush=flush).run()


@pytest.mark.parametrize("protection", WITHOUT, ids=lambda protection: protection.value)
def test_the_named_invariant_breaks_without(protection: Protection) -> None:
    """And in the very same schedule with the protection restored nothing does."""
    flush = protection is not Protection.CHECKSUM_AFTER_TORN_WRITE
    script = first_to_break(protection, flush=flush)
    Cluster(script, ALL_ON, flush=flush).run()


def first_to_break(protection: Protection, *, flush: bool) -> bytes:
    for seed in range(PATIENCE):
        script = Random(seed).randbytes(SCRIPT)
        try:
            Cluster(script, Protections([protection]), flush=flush).run()
        except Violation as violation:
            if re.search(WITHOUT[protection], str(violation).splitlines()[0]):
                return script
    raise AssertionError(f"{PATIENCE} schedules without {protection.value}, and what it prevents never came")


def test_the_same_script_makes_the_same_run() -> None:
    for seed in (3, 4):
        runs = [Cluster(Random(seed).randbytes(SCRIPT), ALL_ON) for _ in range(2)]
        for run in runs:
            run.run()
        assert runs[0].trace == runs[1].trace


def test_schedules_are_worth_something() -> None:
    """Among a hundred: acknowledged records, failovers, ISRs that grew and shrank, logs that were cut."""
    traces = []
    for seed in range(100):
        cluster = Cluster(Random(seed).randbytes(SCRIPT), ALL_ON)
        cluster.run()
        traces.append(cluster.trace)
    notes = list(itertools.chain.from_iterable(traces))
    seen = {what: sum(what in note for note in notes) for what in ("acknowledged", "leader", "none", "truncated")}
    assert min(seen.values()) > 30, seen
