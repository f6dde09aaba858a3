"""Checks by counting, against loops."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import numpy as np

from harness.checker.linearizability.counting import bank, long_fork, total_queue, unique_ids


def numbers(rng: random.Random, most: int) -> list[int]:
    return [rng.randrange(6) for _ in range(rng.randrange(most))]


def array(values: list[int]) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, np.int64)


def test_identifiers_that_were_handed_out_twice() -> None:
    for seed in range(2000):
        given = numbers(random.Random(seed), 6)
        wanted = {one: times for one, times in Counter(given).items() if times > 1}
        assert {given[one.rows[0]]: len(one.rows) for one in unique_ids(array(given))} == wanted


def test_a_queue_in_total() -> None:
    for seed in range(5000):
        rng = random.Random(seed)
        sure, unknown, out = (numbers(rng, 6) for _ in range(3))
        found = total_queue(array(sure + unknown), array(sure), array(out))
        tried = Counter(sure + unknown)
        came = Counter({one: times for one, times in Counter(out).items() if tried[one]})
        assert Counter(found.lost.tolist()) == Counter(sure) - Counter(out)
        assert set(found.unexpected.tolist()) == set(out) - set(tried)
        assert Counter(found.duplicated.tolist()) == came - tried
        assert Counter(found.recovered.tolist()) == (came & tried) - Counter(sure)


def test_totals_and_negative_balances() -> None:
    balances = np.array([[5, 5], [6, 5], [12, -2], [11, -1]])
    assert [(one.type, one.rows) for one in bank(balances, 10)] == [
        ("wrong-total", (1,)),
        ("negative-value", (2,)),
        ("negative-value", (3,)),
    ]
    assert [one.rows for one in bank(balances, 10, negative_allowed=True)] == [(1,)]
    assert bank(np.empty((0, 2), np.int64), 10) == []


def test_forks() -> None:
    forks = 0
    for seed in range(5000):
        rng = random.Random(seed)
        rows = [[rng.random() < 0.7 for _ in range(3)] for _ in range(rng.randrange(5))]
        found = long_fork(np.array(rows, bool).reshape(-1, 3))
        pairs = {
            frozenset((a, b))
            for a, b in combinations(range(len(rows)), 2)
            if any(x and not y for x, y in zip(rows[a], rows[b], strict=True))
            and any(y and not x for x, y in zip(rows[a], rows[b], strict=True))
        }
        assert bool(found) == bool(pairs)
        assert {frozenset(one.rows) for one in found} <= pairs
        forks += bool(pairs)
    assert 500 < forks < 4500
