"""Three voters and an observer in a simulated world, a thousand times, each with other faults."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.protections import Protection, Protections
from nodes.reference.raft.messages import Request, Response
from nodes.reference.raft.wire import request_from_kafka, request_to_kafka, response_from_kafka, response_to_kafka
from nodes.reference.simulation.quorum import Mix, Quorum, Scenario, live, run
from tests.nodes.reference.raft.test_wire import through_bytes

SEEDS = 1_000
CUTS: Mix = {"isolate": 1}
POWER: Mix = {"power-loss": 4, "all-power-loss": 6, "kill": 2, "isolate": 2}
SNAPSHOTS: Mix = {"snapshot": 30, "isolate": 3, "power-loss": 2, "slow": 2, "deafen": 2}

DEFECTS = {
    Protection.CHECK_QUORUM: ("no zombie leader", Scenario(mix=CUTS, fault_every=SECOND)),
    Protection.FSYNC_ON_APPEND: ("leader completeness", Scenario(mix=POWER)),
    Protection.SNAPSHOT_HAS_ALL_COMMITTED: (
        "same offset, same state",
        Scenario(mix=SNAPSHOTS, fault_every=40 * MILLISECOND, append_every=15 * MILLISECOND),
    ),
    Protection.ONE_VOTE_IN_AN_EPOCH: (("one leader in an epoch", "log matching"), Scenario()),
}


@pytest.mark.timeout(900)
def test_a_thousand_seeds() -> None:
    """8 simulated seconds each, 2 of them calm; after those, everyone agrees."""
    began = time.process_time()
    committed = elections = 0
    for seed in range(SEEDS):
        outcome = run(seed)
        assert outcome.violations == [], f"seed {seed}"
        committed += outcome.committed
        elections += outcome.elections
    assert committed > 50 * SEEDS
    assert elections > 3 * SEEDS
    used = time.process_time() - began
    print(f"{SEEDS} seeds x 8 s: {used:.1f} s of CPU, {SEEDS * 8 / used:.0f} x real time")


@pytest.mark.parametrize(("voters", "observers"), [((1,), (2,)), ((1, 2), ()), ((1, 2, 3, 4, 5), (6, 7))])
def test_other_quorums(voters: tuple[int, ...], observers: tuple[int, ...]) -> None:
    for seed in range(20):
        outcome = run(seed, Scenario(voters=voters, observers=observers))
        assert outcome.violations == [], f"seed {seed}"
        assert outcome.committed > 10


def test_the_same_seed_gives_the_same_history() -> None:
    first, second, other = run(7, record=True), run(7, record=True), run(8, record=True)
    assert len(first.history) > 100_000
    assert first == second
    assert first.history != other.history


def test_the_order_of_sets_is_not_in_it() -> None:
    """Python orders sets of strings anew in each process."""
    program = f"import hashlib; from {run.__module__} import run; print(hashlib.sha256(run(7, record=True).history).hexdigest())"
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(seen) == 1


def test_a_recorded_run_is_the_same_run() -> None:
    recorded, plain = run(7, record=True), run(7)
    assert recorded._replace(history=b"") == plain


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_on_kafkas_wire_it_is_the_same_run(seed: int) -> None:
    """Every message is encoded as Kafka's and decoded again on its way."""
    quorum = Quorum(seed, Scenario(), record=True)
    quorum.world.network.translate = through_kafka
    assert live(quorum) == run(seed, record=True)


def through_kafka(message: object) -> object:
    if isinstance(message, Request):
        return request_from_kafka(through_bytes(request_to_kafka(message)))
    assert isinstance(message, Response)
    return response_from_kafka(through_bytes(response_to_kafka(message, cluster_id="simulated")))


@pytest.mark.parametrize("protection", DEFECTS, ids=lambda protection: protection.value)
def test_each_protection_is_missed(protection: Protection) -> None:
    """Found within as many seeds as find nothing when it is on."""
    anomaly, scenario = DEFECTS[protection]
    without = Scenario(
        mix=scenario.mix,
        fault_every=scenario.fault_every,
        append_every=scenario.append_every,
        protections=Protections([protection]),
    )
    for seed in range(40):
        found = run(seed, without).violations
        if found:
            assert found[0].startswith(anomaly)
            for healthy in range(seed + 1):
                assert run(healthy, scenario).violations == []
            return
    pytest.fail(f"40 seeds without {protection.value}, and nothing happened")
