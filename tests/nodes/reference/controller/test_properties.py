"""The controller against an adversary: with all protections nothing breaks, without any one of them something does."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.reference.protections import Protection, Protections
from tests.nodes.reference.controller.model import ACTIONS, Model, settle, walk

WALKS, STEPS = 120, 250

DEFECTS = {
    Protection.BROKER_EPOCH_AT_CONTROLLER: "stale incarnation in an ISR",
    Protection.ISR_ELIGIBILITY_AT_CONTROLLER: "fenced or stopping in an ISR",
    Protection.COMMITTED_BEFORE_ANSWERED: "answered before it was committed",
    Protection.CONTROLLER_SIDE_FENCING: "silent and not fenced",
    Protection.STALE_EPOCH_IN_HEARTBEAT: "heartbeat of a stale process",
    Protection.ID_CONFLICT_RESOLVED: "two processes with one epoch",
    Protection.UNCLEAN_ELECTION_DISABLED: "unclean election",
}


def test_nothing_breaks() -> None:
    committed = accepted = elections = 0
    for seed in range(WALKS):
        model = walk(seed, STEPS)
        assert model.violations == [], f"walk {seed}"
        committed += model.committed
        accepted += model.accepted
        elections += len(model.judge.leaders)
    assert committed > 20 * WALKS, "the adversary lets hardly anything happen"
    assert accepted > WALKS
    assert elections > 3 * WALKS


@pytest.mark.parametrize("protection", DEFECTS, ids=lambda protection: protection.value)
def test_each_protection_is_missed(protection: Protection) -> None:
    """Within as many walks as nothing is found in with all of them on."""
    for seed in range(WALKS):
        model = walk(seed, STEPS, Protections([protection]))
        if model.violations:
            assert model.violations[0].startswith(DEFECTS[protection])
            return
    pytest.fail(f"{WALKS} walks without {protection.value}, and nothing happened")


steps = st.lists(st.tuples(st.sampled_from(ACTIONS + ("commit", "beat") * 4), st.integers(0, 255)), max_size=80)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_no_schedule_breaks_it(schedule: list[tuple[str, int]]) -> None:
    model = Model()
    settle(model)
    for action, choice in schedule:
        model.step(action, choice)
        assert model.violations == []
