"""An engine against brute force on random small histories; what it blames must be contradictory by itself."""

from __future__ import annotations

import random
from collections.abc import Callable

from harness.checker.linearizability.operations import Answer, Operations, Refused
from tests.harness.checker.linearizability.brute_force import Op, linearizable
from tests.strategies import OBJECTS, encode, initial_code, random_history

_ANSWERS_ONLY = ("read", "failed-cas", "contains", "empty")


def assert_agreement(
    name: str, engine: Callable[[Operations, int], Answer | Refused], seeds: range, share: float = 0.6
) -> None:
    """On every history of these seeds that it does not refuse; `share` must be decided, and neither answer may be rare."""
    legal = refused = 0
    start = OBJECTS[name].initial
    for seed in seeds:
        ops = random_history(random.Random(seed), name)
        found = engine(encode(ops), initial_code(name))
        if isinstance(found, Refused):
            refused += 1
            continue
        wanted = linearizable(ops, start)
        assert found.verdict == ("legal" if wanted else "illegal"), (seed, ops, found)
        legal += wanted
        if not wanted:
            assert_contradictory(ops, start, found)
    decided = len(seeds) - refused
    assert decided > share * len(seeds), "it refuses too much"
    assert 0.05 * decided < legal < 0.95 * decided, "the histories are too much alike"


def assert_contradictory(ops: list[Op], start: object, found: Answer) -> None:
    assert found.evidence is not None
    assert found.evidence.sentence
    blamed = set(found.evidence.operations)
    assert not linearizable([ops[row] for row in sorted(blamed)], start), (ops, found)
    rest = [
        op._replace(completed=None, certain=False)
        for row, op in enumerate(ops)
        if row not in blamed and op.kind not in _ANSWERS_ONLY
    ]
    assert not linearizable([ops[row] for row in sorted(blamed)] + rest, start), (
        "what the others may have done would explain it",
        ops,
        found,
    )
