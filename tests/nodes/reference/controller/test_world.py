"""Controllers and brokers in a simulated world under chaos, and the same seed twice."""

from __future__ import annotations

from nodes.reference.controller import wire
from nodes.reference.controller.messages import (
    Request,
    Response,
)
from nodes.reference.protections import Protection, Protections
from tests.nodes.reference.controller.test_wire import EXCHANGES, KEYS
from tests.nodes.reference.controller.world import run
from tests.nodes.reference.raft.test_wire import through_bytes
from tests.nodes.reference.simulation.test_quorum import through_kafka

SEEDS = 10


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


def test_on_kafkas_wire_it_is_the_same_run() -> None:
    """Every message is encoded as Kafka's and decoded again on its way."""
    assert run(5, record=True, translate=through_kafkas_wire) == run(5, record=True)


def through_kafkas_wire(message: object) -> object:
    if isinstance(message, Request):
        return wire.request_from_kafka(through_bytes(wire.request_to_kafka(message)))
    if isinstance(message, Response):
        key = next(KEYS[type(request)] for request, response in EXCHANGES if type(response) is type(message))
        return wire.response_from_kafka(through_bytes(wire.response_to_kafka(message, key, wire.APIS[key].sent)))
    return through_kafka(message)
