"""Random small histories of leader epochs, and what they mean: a monotone register."""

from __future__ import annotations

import random

import numpy as np

from harness.checker.linearizability.epochs import ACCEPTED, ELECTED, FENCED, epochs
from harness.checker.linearizability.operations import OPEN, Answer
from tests.harness.checker.linearizability.brute_force import Op

_KINDS = {"elected": ELECTED, "accepted": ACCEPTED, "fenced": FENCED}


def step_of_epochs(op: Op, newest: int) -> tuple[bool, int]:
    match op.kind:
        case "elected":
            return op.argument > newest, op.argument
        case "accepted":
            return op.argument == newest, newest
    return op.argument <= newest, newest


def random_epochs(rng: random.Random) -> list[Op]:
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


def judge_epochs(ops: list[Op]) -> Answer:
    return epochs(
        np.array([_KINDS[op.kind] for op in ops]),
        np.array([op.argument for op in ops]),
        np.array([1 for _ in ops]),
        np.array([op.invoked for op in ops]),
        np.array([OPEN if op.completed is None else op.completed for op in ops]),
    )
