"""Brokers as coroutines in a simulated world: registration, replication, failover, leases; what was acknowledged is still there."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.environment import SECOND
from nodes.reference.protections import ALL_ON, Protection, Protections
from tests.nodes.reference.broker.cluster import BROKERS
from tests.nodes.reference.broker.conftest import Make

SELF_FENCING_OFF = Protections(off=[Protection.BROKER_SELF_FENCING])


def test_records_are_replicated_and_read(make: Make) -> None:
    cluster = make()
    cluster.ready()
    cluster.write(5)
    assert list(cluster.acknowledged.values()) == [b"0", b"1", b"2", b"3", b"4"]
    cluster.until(lambda: cluster.committed() == cluster.acknowledged)
    assert cluster.errors == [ErrorCode.none] * 5


@pytest.mark.parametrize("seed", range(8))
def test_what_is_acknowledged_survives_the_death_of_its_leader(make: Make, seed: int) -> None:
    cluster = make(seed)
    cluster.ready()
    first = cluster.leader
    assert first is not None
    cluster.world.after((20 + 3 * seed) * 1_000_000, lambda: cluster.world.kill(cluster.machines[first]))
    cluster.write(12)
    assert cluster.leader != first
    assert len(cluster.acknowledged) == 12
    cluster.until(lambda: cluster.acknowledged.items() <= cluster.committed().items())
    cluster.start(first)
    cluster.until(lambda: len(cluster.isr) == 3)
    assert cluster.acknowledged.items() <= cluster.committed().items()


def test_a_broker_that_starts_again_has_what_it_had_and_joins_the_isr(make: Make) -> None:
    cluster = make()
    cluster.ready()
    cluster.write(3)
    for id in BROKERS:
        cluster.world.kill(cluster.machines[id])
    cluster.world.run_for(10 * SECOND)
    for id in BROKERS:
        cluster.start(id)
    cluster.until(lambda: cluster.leader is not None and len(cluster.isr) == 3)
    cluster.write(1)
    cluster.until(lambda: set(cluster.committed().values()) == {b"0", b"1", b"2"})
    assert len(cluster.committed()) == 4


@pytest.mark.parametrize(
    ("protections", "answered"), [(ALL_ON, ErrorCode.not_leader_or_follower), (SELF_FENCING_OFF, ErrorCode.none)]
)
def test_a_broker_whose_lease_is_over_serves_no_client(
    make: Make, protections: Protections, answered: ErrorCode
) -> None:
    """KIP-631, Fencing; without the protection it goes on as if nothing had happened."""
    cluster = make(protections=protections)
    cluster.ready()
    old = cluster.leader
    assert old is not None
    for controller in cluster.quorum.values():
        cluster.world.network.cut(f"b{old}", controller.name)
        cluster.world.network.cut(controller.name, f"b{old}")
    cluster.until(lambda: cluster.leader != old)
    cluster.world.run_for(5 * SECOND)
    cluster.write(1, acks=1, to=old)
    assert cluster.errors[-1] is answered


@pytest.mark.parametrize(
    ("level", "asked"),
    [
        (1, "AlterIsrRequest(broker_id={leader}, broker_epoch={epoch}, topics=(AskedTopic(name='orders'"),
        (3, "AlterPartitionRequest(broker_id={leader}, broker_epoch={epoch}, topics=(RequestedTopic(name='orders'"),
        (9, "AlterPartitionRequest(broker_id={leader}, broker_epoch={epoch}, topics=(TopicData(topic_id="),
    ],
    ids=["3.0-IV1", "3.2-IV0", "3.5-IV0"],
)
def test_an_isr_shrinks_and_grows_at_every_level(make: Make, level: int, asked: str) -> None:
    """KIP-497, before KIP-903 gave members their broker epochs: what a leader sends is what the Kafka of that level sent."""
    cluster = make(level=level, record=True)
    cluster.ready()
    leader = cluster.leader
    assert leader is not None
    follower = next(id for id in BROKERS if id != leader)
    epoch = cluster.brokers[leader].lifecycle.broker_epoch
    cluster.world.pause(cluster.machines[follower])
    cluster.write(1)
    cluster.until(lambda: follower not in cluster.isr)
    cluster.world.resume(cluster.machines[follower])
    cluster.until(lambda: len(cluster.isr) == 3)
    assert asked.format(leader=leader, epoch=epoch) in cluster.world.history().decode()
    assert "new_isr_with_epochs" not in cluster.world.history().decode()


def test_controlled_shutdown_moves_leaders_first(make: Make) -> None:
    cluster = make()
    cluster.ready()
    cluster.write(2)
    old = cluster.leader
    assert old is not None
    cluster.brokers[old].stop()
    cluster.until(lambda: cluster.machines[old].process is None)
    assert cluster.leader not in (None, old)
    assert cluster.world.failures == []
    cluster.write(2)
    assert cluster.errors[-2:] == [ErrorCode.none] * 2


def test_no_partition_is_taken_up_from_metadata_that_are_older_than_the_registration(make: Make) -> None:
    """KIP-903: a new process must not lead on account of its predecessor's registration."""
    cluster = make()
    cluster.ready()
    first = cluster.leader
    assert first is not None
    cluster.world.kill(cluster.machines[first])
    dead = cluster.brokers[first]
    cluster.start(first)
    stale = 0

    def taken_up() -> bool:
        nonlocal stale
        broker = cluster.brokers[first]
        if broker is dead:
            return False
        registration = broker.metadata.image.brokers.get(first)
        if registration is not None and registration.epoch != broker.lifecycle.broker_epoch:
            stale += 1
            assert not list(broker.replicas)
        return broker.replicas.taken_up

    cluster.until(taken_up)
    assert stale, "metadata were never older than the registration: this test has shown nothing"


def test_brokers_outlive_the_active_controller(make: Make) -> None:
    cluster = make()
    cluster.ready()
    active = cluster.active
    assert active is not None
    cluster.world.kill(cluster.quorum[active.node_id])
    cluster.write(5)
    cluster.until(lambda: cluster.active is not None)
    first = cluster.leader
    assert first is not None
    cluster.world.kill(cluster.machines[first])
    cluster.write(5)
    assert cluster.leader != first
    cluster.until(lambda: cluster.acknowledged.items() <= cluster.committed().items())


def test_the_same_seed_gives_the_same_history(make: Make) -> None:
    histories = []
    for _ in range(2):
        cluster = make(7, record=True)
        cluster.ready()
        cluster.write(2)
        histories.append(cluster.world.history())
    assert histories[0] == histories[1] != b""
