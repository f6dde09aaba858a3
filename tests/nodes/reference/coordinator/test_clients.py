"""librdkafka's consumer groups and transactional producers against brokers in this process, and what outlives a coordinator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.coordinator.partitioning import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from nodes.reference.coordinator.settings import CoordinatorSettings
from tests.nodes.reference.broker.live import PATIENCE, live

TOPIC = "orders"
GROUP, TRANSACTIONAL_ID = "readers", "writer"
AFTER_FIRST = [TopicPartition(TOPIC, 0, 1), TopicPartition(TOPIC, 1, 1)]
BOTH = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
QUICK = {
    "offsets_topic_num_partitions": 1,
    "transaction_state_log_num_partitions": 1,
    "transaction_state_log_min_isr": 1,
    "coordinators": CoordinatorSettings(groups=GroupSettings(group_initial_rebalance_delay_ms=0)),
}


def create(bootstrap: str, replication: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, 2, replication)]).values():
        created.result(PATIENCE)


def led_by(bootstrap: str, broker: int, *topics: str) -> None:
    """One partition each, which that broker leads."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    replicas = [[broker, *({1, 2, 3} - {broker})]]
    for created in admin.create_topics([NewTopic(topic, 1, replica_assignment=replicas) for topic in topics]).values():
        created.result(PATIENCE)


def consumer(bootstrap: str, **more: Any) -> Consumer:
    configuration = {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 200,
        "isolation.level": "read_committed",
    }
    return Consumer({**configuration, **more})


def producer(bootstrap: str) -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": TRANSACTIONAL_ID, "linger.ms": 0})
    made.init_transactions(PATIENCE)
    return made


def transaction(writer: Producer, *values: bytes, commit: bool = True) -> None:
    """One value to each partition in turn."""
    writer.begin_transaction()
    for number, value in enumerate(values):
        writer.produce(TOPIC, value, partition=number % 2)
    if commit:
        writer.commit_transaction(PATIENCE)
    else:
        writer.flush(PATIENCE)  # so that the records are there before they are aborted
        writer.abort_transaction(PATIENCE)


def poll(reader: Consumer, until: Callable[[list[Message]], bool]) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE
    while not until(found):
        assert time.monotonic() < deadline, [message.value() for message in found]
        message = reader.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message)
    return found


def values(messages: list[Message]) -> set[bytes]:
    return {message.value() for message in messages}


def read_and_write(bootstrap: str) -> None:
    create(bootstrap, 1)
    writer = producer(bootstrap)
    transaction(writer, b"a0", b"a1")
    transaction(writer, b"x0", b"x1", commit=False)
    transaction(writer, b"b0", b"b1")
    first = consumer(bootstrap)
    first.subscribe([TOPIC])
    read = poll(first, lambda found: len(found) == 4)
    assert values(read) == {b"a0", b"a1", b"b0", b"b1"}
    first.commit(asynchronous=False)

    second = consumer(bootstrap)
    second.subscribe([TOPIC])
    poll(second, lambda found: first.poll(0) is None and len(second.assignment()) == 1)
    assert {one.partition for one in first.assignment() + second.assignment()} == {0, 1}
    offsets = {one.partition: one.offset for one in second.committed(BOTH, PATIENCE)}

    # the group's offsets are part of a transaction: they count when it commits
    for commit in (False, True):
        writer.begin_transaction()
        writer.send_offsets_to_transaction(
            [TopicPartition(TOPIC, 0, offsets[0] + 100)], second.consumer_group_metadata(), PATIENCE
        )
        (writer.commit_transaction if commit else writer.abort_transaction)(PATIENCE)
        expected = offsets[0] + (100 if commit else 0)
        assert second.committed(BOTH[:1], PATIENCE)[0].offset == expected
    first.close()
    second.close()

    replacement = producer(bootstrap)
    transaction(replacement, b"c0", b"c1")
    with pytest.raises(KafkaException, match="_FENCED"):
        transaction(writer, b"zombie")

    admin = AdminClient({"bootstrap.servers": bootstrap})
    (deleted,) = admin.delete_consumer_groups([GROUP]).values()
    deleted.result(PATIENCE)
    assert [group.group_id for group in admin.list_consumer_groups().result(PATIENCE).valid] == []


def test_groups_and_transactions_of_librdkafka(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, brokers=1, **QUICK) as cluster:
            await asyncio.to_thread(read_and_write, cluster.bootstrap)

    asyncio.run(main())


def test_groups_and_transactions_outlive_their_coordinators(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, brokers=3, **QUICK) as cluster:
            bootstrap = cluster.bootstrap
            await asyncio.to_thread(create, bootstrap, 3)
            await asyncio.to_thread(led_by, bootstrap, 1, GROUPS_TOPIC, TRANSACTIONS_TOPIC)
            writer = await asyncio.to_thread(producer, bootstrap)
            await asyncio.to_thread(transaction, writer, b"a0", b"a1")
            reader = consumer(bootstrap)
            reader.subscribe([TOPIC])
            first = await asyncio.to_thread(poll, reader, lambda found: len(found) == 2)
            await asyncio.to_thread(reader.commit, offsets=AFTER_FIRST, asynchronous=False)
            writer.begin_transaction()
            for number in (0, 1):
                writer.produce(TOPIC, b"b%d" % number, partition=number)
            await asyncio.to_thread(writer.flush, PATIENCE)

            await cluster.kill(1)
            await asyncio.to_thread(writer.commit_transaction, PATIENCE)
            second = await asyncio.to_thread(poll, reader, lambda found: len(found) == 2)
            assert (values(first), values(second)) == ({b"a0", b"a1"}, {b"b0", b"b1"})
            there = await asyncio.to_thread(reader.committed, BOTH, PATIENCE)
            assert [one.offset for one in there] == [1, 1]
            await asyncio.to_thread(reader.commit, asynchronous=False)
            await asyncio.to_thread(reader.close)

    asyncio.run(main())
