"""The sweep of epochs against brute force over a monotone register."""

from __future__ import annotations

import random

import numpy as np

from harness.checker.linearizability.epochs import ACCEPTED, ELECTED, epochs
from tests.harness.checker.linearizability.brute_force import linearizable
from tests.harness.checker.linearizability.epoch_histories import judge_epochs, random_epochs, step_of_epochs


def test_they_agree_with_the_definition() -> None:
    legal = 0
    for seed in range(10_000):
        ops = random_epochs(random.Random(seed))
        found, wanted = judge_epochs(ops), linearizable(ops, 0, step_of_epochs)
        assert found.verdict == ("legal" if wanted else "illegal"), (seed, ops, found)
        if found.evidence is not None:
            blamed = [ops[row] for row in found.evidence.operations]
            known = [op for op in ops if op.kind == "elected" and op not in blamed]
            assert not linearizable(
                [*blamed, *(op._replace(certain=False, completed=None) for op in known)], 0, step_of_epochs
            )
        legal += wanted
    assert 1000 < legal < 9000


def test_two_leaders_of_one_epoch_and_an_epoch_that_nobody_elected_are_named() -> None:
    zeros = np.zeros(2, np.int64)
    found = epochs(np.array([ELECTED, ELECTED]), np.array([4, 4]), np.array([1, 2]), zeros, zeros)
    assert found.evidence is not None
    assert found.evidence.sentence == "epoch 4 has two leaders, 1 and 2"
    found = epochs(np.array([ELECTED, ACCEPTED]), np.array([4, 5]), np.array([1, 1]), zeros, zeros)
    assert found.evidence is not None
    assert found.evidence.operations == (1,)


def test_a_stale_leader_is_named() -> None:
    found = epochs(
        np.array([ELECTED, ELECTED, ACCEPTED]),
        np.array([1, 2, 1]),
        np.array([1, 2, 1]),
        np.array([0, 2, 5]),
        np.array([1, 3, 6]),
    )
    assert found.evidence is not None
    assert found.evidence.operations == (2, 1)
    assert found.evidence.sentence.startswith("unfenced stale leader")
