"""The checker against worlds that have an isolation, and against brute force, for as many histories as wanted.

KRASH_HISTORIES=1000000 python -m pytest tests/harness/checker/serializability
"""

from __future__ import annotations

import os
import random

from harness.checker.models.model import Judgement, Question
from harness.checker.models.transactions import LIST_APPEND, RW_REGISTER, Transactional
from harness.checker.serializability.consistency import MODELS
from harness.history.formats.pairing import Paired
from reports.verdict import Validity
from tests.harness.checker.serializability.brute_force import (
    in_no_time,
    in_real_time,
    in_session,
    list_cycles,
    serializable,
)
from tests.harness.checker.serializability.worlds import PREFIX, Forgotten, broken, play

HISTORIES = int(os.environ.get("KRASH_HISTORIES", "0"))  # instead of the few of a unit test
WORLDS = ("serializable", "snapshot-isolation", "read-committed", "read-uncommitted")
ORDERS = {
    "strong-serializable": in_real_time,
    "strong-session-serializable": in_session,
    "serializable": in_no_time,
}
_CYCLES = ("G0", "G1c", "G-single", "G-nonadjacent", "G2")


def model_of(write: str) -> Transactional:
    return LIST_APPEND if write == "append" else RW_REGISTER


def types(judgement: Judgement) -> set[str]:
    return {found.type for found in judgement.found}


def violated(found: set[str]) -> set[str]:
    return {name for name, anomalies in MODELS.items() if anomalies & found}


def assert_isolated(seed: int, write: str, isolation: str, forgotten: Forgotten) -> Judgement:
    """A world that has an isolation is never told not to have it."""
    rng = random.Random(seed)
    history = play(rng, write, isolation, forgotten, keys=rng.choice([1, 2, 4]), transactions=rng.randint(2, 14))
    name = PREFIX[forgotten] + isolation
    judgement = model_of(write).judge(history, Question(consistency=(name,)))
    assert judgement.verdict != Validity.INVALID, (seed, name, judgement, history.operations)
    return judgement


def random_history(seed: int, write: str) -> Paired:
    rng = random.Random(seed)
    isolation = rng.choice(["serializable", "snapshot-isolation", "read-committed", "chaos"])
    history = play(
        rng,
        write,
        isolation,
        rng.choice(list(Forgotten)),
        transactions=rng.randint(2, 5),
        keys=rng.choice([1, 2, 2]),
        unknown=rng.choice([0, 0.2]),
        aborted=rng.choice([0, 0.2]),
        final_reads=rng.random() < 0.6,
    )
    return broken(rng, history) if rng.random() < 0.4 else history


def assert_agreement(seed: int, write: str) -> bool:
    """With brute force; whether it is strictly serializable."""
    history = random_history(seed, write)
    judgement = model_of(write).judge(history, Question())
    found = types(judgement)
    contradicted = violated(found)
    orders = {name: serializable(history, before, write == "append") for name, before in ORDERS.items()}
    for name, possible in orders.items():
        assert not (possible and name in contradicted), (seed, name, judgement, history.operations)
    if write != "append":
        return orders["strong-serializable"]
    named = list_cycles(history)
    if named is not None:
        cycles = {name for name in found if name.startswith(_CYCLES)}
        assert violated(named) == violated(cycles), (seed, named, cycles, history.operations)
        assert cycles <= named, (seed, named, cycles, history.operations)
    if _complete(history):
        for name, possible in orders.items():
            assert possible or name in contradicted, (seed, name, judgement, history.operations)
    return orders["strong-serializable"]


def _complete(history: Paired) -> bool:
    """Every append that may have happened was read by somebody, so that nothing is left to guess."""
    appended = {m[1:] for o in history.operations if o.outcome != "fail" for m in o.value if m[0] == "append"}
    read = {(m[1], e) for o in history.operations if o.outcome == "ok" for m in o.result if m[0] == "r" for e in m[2]}
    return appended <= read
