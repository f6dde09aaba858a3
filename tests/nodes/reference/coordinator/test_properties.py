"""What holds for groups and transactions whatever happens; and each protection that is left out is found by it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.reference.protections import ALL_ON, Protection, Protections
from tests.nodes.reference.coordinator.group_world import GroupWorld, Violation
from tests.nodes.reference.coordinator.transaction_world import TransactionWorld

SCRIPTS = st.binary(min_size=50, max_size=400)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SEEDS = 120


@QUICK
@given(SCRIPTS)
def test_groups(script: bytes) -> None:
    """One owner in a generation, generations grow, acknowledged offsets stay and never go back."""
    GroupWorld(script, ALL_ON).run()


@QUICK
@given(SCRIPTS)
def test_transactions(script: bytes) -> None:
    """All or nothing, as the producer was told, over failovers at every record; nobody hangs, nobody fenced commits."""
    TransactionWorld(script, ALL_ON).run()


@pytest.mark.parametrize("world", [GroupWorld, TransactionWorld])
def test_many_seeds(world: type[GroupWorld] | type[TransactionWorld]) -> None:
    for seed in range(40):
        world(Random(seed).randbytes(600), ALL_ON).run()


@pytest.mark.parametrize(
    ("world", "protection"),
    [
        (GroupWorld, Protection.SYNC_WAITS_FOR_ASSIGNMENT),
        (GroupWorld, Protection.GENERATION_FENCED),
        (GroupWorld, Protection.OFFSET_COMMIT_WRITTEN),
        (TransactionWorld, Protection.DECISION_BEFORE_MARKERS),
        (TransactionWorld, Protection.MARKERS_TO_ALL_PARTITIONS),
        (TransactionWorld, Protection.PRODUCER_EPOCH_AT_COORDINATOR),
    ],
    ids=lambda given: given.value if isinstance(given, Protection) else "",
)
def test_what_is_left_out_is_found(world: type[GroupWorld] | type[TransactionWorld], protection: Protection) -> None:
    off = Protections([protection])
    for seed in range(SEEDS):
        try:
            world(Random(seed).randbytes(600), off).run()
        except Violation:
            return
    pytest.fail(f"{SEEDS} schedules without {protection.value}, and nothing was found")
