"""Raft's pure core against an adversary: with all protections nothing breaks, without any one of them something does."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.reference.protections import Protection, Protections
from nodes.reference.simulation.lockstep import ACTIONS, Lockstep, walk

WALKS, STEPS = 300, 400

DEFECTS = {
    Protection.VOTE_PERSISTED: ("one leader in an epoch", "log matching"),
    Protection.ONE_VOTE_IN_AN_EPOCH: ("one leader in an epoch", "log matching"),
    Protection.COMMIT_IN_OWN_EPOCH: ("leader completeness", "committed entries never change"),
    Protection.FSYNC_ON_VOTE: ("one leader in an epoch", "log matching", "a node stops"),
    Protection.FSYNC_ON_APPEND: (
        "leader completeness",
        "committed entries never change",
        "log matching",
        "a node stops",
    ),
}


def test_nothing_breaks() -> None:
    committed = elections = 0
    for seed in range(WALKS):
        world = walk(seed, STEPS, observers=(4,))
        assert world.invariants.violations == [], f"walk {seed}"
        committed += world.invariants.committed_end[0]
        elections += len(world.invariants.leaders)
    assert committed > 5 * WALKS, "the adversary lets hardly anything happen"
    assert elections > 5 * WALKS


@pytest.mark.parametrize("protection", DEFECTS, ids=lambda protection: protection.value)
def test_each_protection_is_missed(protection: Protection) -> None:
    """Within as many walks as nothing is found in with all of them on."""
    for seed in range(WALKS):
        world = walk(seed, STEPS, protections=Protections([protection]))
        if world.invariants.violations:
            assert world.invariants.violations[0].startswith(DEFECTS[protection])
            return
    pytest.fail(f"{WALKS} walks without {protection.value}, and nothing happened")


def test_the_same_seed_walks_the_same_way() -> None:
    first, second = walk(5, STEPS), walk(5, STEPS)
    assert [node.raft.log for node in first.nodes.values()] == [node.raft.log for node in second.nodes.values()]
    assert first.messages == second.messages


steps = st.lists(st.tuples(st.sampled_from(ACTIONS + ("deliver",) * 5), st.integers(0, 63)), max_size=120)


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps, st.sampled_from([((1,), ()), ((1, 2), ()), ((1, 2, 3), ()), ((1, 2, 3), (7,)), ((1, 2, 3, 4, 5), ())]))
def test_no_schedule_breaks_it(schedule: list[tuple[str, int]], nodes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    world = Lockstep(*nodes)
    for action, choice in schedule:
        world.step(action, choice)
        assert world.invariants.violations == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 30))
def test_it_recovers_from_whatever_was_done_to_it(seed: int) -> None:
    """When messages arrive and one node's timers come first, a leader is found and what it appends is committed."""
    world = walk(seed, 150)
    committed = world.invariants.committed_end[0]
    for _ in range(40):
        for node_id in range(3):
            world.step("wake", node_id)
            for _ in range(60):
                world.step("deliver", 0)
            world.step("append", node_id)
    assert world.invariants.violations == []
    assert world.invariants.committed_end[0] > committed
