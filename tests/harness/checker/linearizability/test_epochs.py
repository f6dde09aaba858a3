"""The sweep of epochs against brute force over a monotone register."""

from __future__ import annotations

import random

import numpy as np

from harness.checker.linearizability.epochs import ACCEPTED, ELECTED, FENCED, epochs
from harness.checker.linearizability.operations import OPEN, Answer
from tests.harness.checker.linearizability.brute_force import Op, linearizable

_KINDS = {"elected": ELECTED, "accepted": ACCEPTED, "fenced": FENCED}


def _apply(op: Op, newest: int) -> tuple[bool, int]:
    match op.kind:
        case "elected":
            return op.argument > newest, op.argument
        case "accepted":
            return op.argument == newest, newest
    return op.argument <= newest, newest


def _random(rng: random.Random) -> list[Op]:
    ops, newest = [], 0
    for number in range(rng.randint(2, 8)):
        kind = rng.choice(["elected", "accepted", "accepted", "fenced"]) if newest else "elected"
        newest += rng.randint(1, 2) if kind == "elected" else 0
        epoch = rng.choice([op.argument for op in ops]) if kind == "fenced" else newest
        width = rng.choice([0, 3, 6])
        begin, end = 3 * number - rng.randint(0, width), 3 * number + rng.randint(0, width)
        ops.append(Op(kind, epoch, invoked=begin, completed=None if rng.random() < 0.1 else end))
    elected = [op.argument for op in ops if op.kind == "elected"]
    for _ in range(rng.choice([0, 1, 2])):
        where = rng.randrange(len(ops))
        op = ops[where]
        shift = rng.randint(-9, 9)
        moved = None if op.completed is None else op.completed + shift
        epoch = op.argument if op.kind == "elected" else rng.choice(elected)
        ops[where] = op._replace(argument=epoch, invoked=op.invoked + shift, completed=moved)
    rng.shuffle(ops)
    return ops


def _judge(ops: list[Op]) -> Answer:
    return epochs(
        np.array([_KINDS[op.kind] for op in ops]),
        np.array([op.argument for op in ops]),
        np.array([1 for _ in ops]),
        np.array([op.invoked for op in ops]),
        np.array([OPEN if op.completed is None else op.completed for op in ops]),
    )


def test_they_agree_with_the_definition() -> None:
    legal = 0
    for seed in range(10_000):
        ops = _random(random.Random(seed))
        found, wanted = _judge(ops), linearizable(ops, 0, _apply)
        assert found.verdict == ("legal" if wanted else "illegal"), (seed, ops, found)
        if found.evidence is not None:
            blamed = [ops[row] for row in found.evidence.operations]
            known = [op for op in ops if op.kind == "elected" and op not in blamed]
            assert not linearizable([*blamed, *(op._replace(certain=False, completed=None) for op in known)], 0, _apply)
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
