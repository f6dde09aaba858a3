"""What races ask of single brokers, on the oldest protocol and on the newest."""

from __future__ import annotations

import asyncio

import pytest

from nodes.cluster import Cluster
from nodes.network import Cut
from nodes.protocol import brokers, logs, partitions, transactions
from nodes.protocol.connection import Connection, Unreachable
from nodes.protocol.logs import Writer
from nodes.protocol.partitions import At
from nodes.topology import Topic, separate
from tests.kafka.conftest import Lab

TOPIC = Topic(name="t", partitions=1, replication=2, assignment={0: (1, 2)}, config={"min.insync.replicas": "1"})
SOON = 20.0


async def added(connection: Connection, writer: Writer) -> None:
    """Asked again while the markers of the transaction before are being written."""
    async with asyncio.timeout(SOON):
        while (error := await transactions.add_partitions(connection, writer, [("t", 0)], timeout=SOON)) != "NONE":
            assert error == "CONCURRENT_TRANSACTIONS"


async def reached(cluster: Cluster, transactional_id: str, state: str) -> transactions.Transaction:
    async with asyncio.timeout(SOON):
        while (told := await cluster.transaction_state(transactional_id)).state != state:
            assert told.error == "NONE"
    return told


@pytest.mark.parametrize("version", ["3.4.1", "4.3.1"])
async def test_offsets_transactions_and_elections_are_told_as_the_broker_tells_them(lab: Lab, version: str) -> None:
    cluster = await lab.deploy(separate(system="kafka", version=version, controllers=1, brokers=2, topics=(TOPIC,)))
    leader, follower = await cluster.connect("b1"), await cluster.connect("b2")

    sent = await logs.produce(leader, "t", 0, [b"a", b"b"], timeout=SOON)
    assert (sent.error, sent.base_offset) == ("NONE", 0)
    refused = await logs.produce(follower, "t", 0, [b"x"], acks=1, timeout=SOON)
    assert (refused.error, refused.base_offset) == ("NOT_LEADER_OR_FOLLOWER", -1)
    read = await logs.fetch(leader, "t", 0, 1, timeout=SOON)
    assert (read.error, read.high_watermark, read.last_stable_offset) == ("NONE", 2, 2)
    assert [(record.offset, record.value) for record in read.records] == [(1, b"b")]
    assert [await cluster.log_end("t", 0, on=name) for name in ("b1", "b2")] == [2, 2]
    assert (await cluster.offset("t", 0, on="b2")).error == "NOT_LEADER_OR_FOLLOWER"
    assert await cluster.log_end("nothing", 0, on="b1") is None
    told = await brokers.describe(leader, timeout=SOON)
    assert (told.error, told.brokers) == ("NONE", {1, 2})

    home = await cluster.coordinator_of("tx")
    coordinator = await cluster.connect(home)
    writer = await transactions.begin(coordinator, "tx", timeout=SOON)
    assert (await cluster.transaction_state("tx")).state == "Empty"
    await added(coordinator, writer)
    assert (await logs.produce(leader, "t", 0, [b"c"], writer=writer, base_sequence=0, timeout=SOON)).error == "NONE"
    assert (await cluster.transaction_state("tx")).partitions == {("t", 0)}
    assert [(await cluster.offset("t", 0, at)).offset for at in (At.LATEST, At.STABLE)] == [3, 2]
    error, known = await partitions.producers(leader, "t", 0, timeout=SOON)
    assert (error, [(one.producer_id, one.open_since) for one in known]) == ("NONE", [(writer.producer_id, 2)])
    assert (await transactions.end(coordinator, writer, commit=False, timeout=SOON)).error == "NONE"
    assert (await reached(cluster, "tx", "CompleteAbort")).producer_id == writer.producer_id
    aborted = await logs.fetch(leader, "t", 0, 2, committed=True, timeout=SOON)
    assert aborted.aborted == ((writer.producer_id, 2),)
    assert [record.control for record in aborted.records] == [False, True]
    assert (await cluster.offset("t", 0, At.STABLE)).offset == 4

    if version == "4.3.1":
        await the_second_version(cluster, leader)

    await out_of_a_client_s_network(cluster)
    assert await cluster.elect("t", 0) == "ELECTION_NOT_NEEDED"
    assert await cluster.elect("nothing", 0) == "UNKNOWN_TOPIC_OR_PARTITION"
    await cluster.kill("b1")
    await cluster.wait(lambda view: view.partitions["t", 0].leader == 2, deadline=60, what="b2 leads")
    assert await cluster.elect("t", 0) == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert await partitions.reassign(follower, "t", 0, [2], timeout=SOON) == "NONE"
    await cluster.wait_metadata(lambda log: log.partitions["t", 0].replicas == (2,), deadline=30, what="b1 is replaced")
    assert await partitions.reassign(follower, "t", 0, [9], timeout=SOON) == "INVALID_REPLICA_ASSIGNMENT"
    assert await brokers.unregister(follower, 1, timeout=SOON) == "NONE"
    await cluster.wait_metadata(lambda log: set(log.brokers) == {2}, deadline=30, what="b1 is forgotten")
    voted = await cluster.quorum_state("c1")
    assert voted is not None
    assert voted.leader == 101
    assert (await cluster.meta("b2"))["node.id"] == "2"


async def the_second_version(cluster: Cluster, leader: Connection) -> None:
    """Adds partitions by itself, and bumps the epoch with every transaction, so that a late end hits nothing."""
    coordinator = await cluster.connect(await cluster.coordinator_of("tv2"))
    first = await transactions.begin(coordinator, "tv2", timeout=SOON)
    sent = await logs.produce(
        leader, "t", 0, [b"a"], writer=first, base_sequence=0, version=logs.IMPLICIT, timeout=SOON
    )
    assert sent.error == "NONE"
    assert (await cluster.transaction_state("tv2")).partitions == {("t", 0)}
    ended = await transactions.end(coordinator, first, commit=True, version=transactions.BUMPS_EPOCH, timeout=SOON)
    assert (ended.error, ended.writer.epoch) == ("NONE", first.epoch + 1)
    await reached(cluster, "tv2", "CompleteCommit")
    again = await logs.produce(
        leader, "t", 0, [b"b"], writer=ended.writer, base_sequence=0, version=logs.IMPLICIT, timeout=SOON
    )
    assert again.error == "NONE"
    late = await transactions.end(coordinator, first, commit=False, version=transactions.BUMPS_EPOCH, timeout=SOON)
    assert late.error == "PRODUCER_FENCED"


async def out_of_a_client_s_network(cluster: Cluster) -> None:
    (await cluster.connect("b1", via="w1", timeout=SOON)).close()
    await cluster.network.cut([Cut(id="w1", at="b1", sources=("w1",))])
    with pytest.raises(Unreachable):
        await cluster.connect("b1", via="w1", timeout=0.5)
    (await cluster.connect("b1", timeout=SOON)).close()
    await cluster.network.heal(["w1"])
