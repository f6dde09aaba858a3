"""Controllers and brokers in a simulated world under chaos, and the same seed twice."""

from __future__ import annotations

from nodes.reference.protections import Protection, Protections
from tests.nodes.reference.controller.world import run

SEEDS = 12


def test_nothing_breaks_under_chaos() -> None:
    committed = terms = snapshots = changes = 0
    for seed in range(SEEDS):
        outcome = run(seed)
        assert outcome.violations == [], f"seed {seed}"
        committed += outcome.committed
        terms += outcome.terms
        snapshots += outcome.snapshots
        changes += outcome.changes
    assert committed > 60 * SEEDS
    assert terms > 3 * SEEDS
    assert snapshots > SEEDS
    assert changes > 20 * SEEDS


def test_the_same_seed_gives_the_same_history() -> None:
    first, second, other = run(5, record=True), run(5, record=True), run(6, record=True)
    assert len(first.history) > 100_000
    assert first == second
    assert first.history != other.history


def test_an_answer_before_its_commit_is_noticed() -> None:
    without = Protections([Protection.COMMITTED_BEFORE_ANSWERED])
    assert run(0, without).violations[0].startswith("answered before it was committed")
