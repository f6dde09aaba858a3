"""librdkafka against brokers in this process: it creates a topic, writes with idempotence, reads, and outlives a leader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.nodes.reference.broker.live import PATIENCE, Live, live

TOPIC = "orders"


def create(bootstrap: str, replication: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"min.insync.replicas": "1", "max.message.bytes": "100000"}
    for created in admin.create_topics([NewTopic(TOPIC, 1, replication, config=config)]).values():
        created.result(PATIENCE)
    described = admin.describe_configs([ConfigResource(ResourceType.TOPIC, TOPIC)])
    (settings,) = [found.result(PATIENCE) for found in described.values()]
    assert settings["max.message.bytes"].value == "100000"


def write(bootstrap: str, values: range, codec: str = "none") -> dict[int, bytes]:
    """Offset -> value of what was acknowledged; all of it, unless that fails."""
    acknowledged: dict[int, bytes] = {}
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.codec": codec, "linger.ms": 1}
    )

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged[message.offset()] = message.value()

    for number in values:
        producer.produce(TOPIC, b"%d" % number, partition=0, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    assert len(acknowledged) == len(values)
    return acknowledged


def read(bootstrap: str, count: int) -> dict[int, bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count, timeout=1):
            assert message.error() is None, message.error()
            found[message.offset()] = message.value()
    assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=PATIENCE) == (0, count)
    consumer.close()
    return found


async def _in_thread(call: Callable[..., dict[int, bytes]], *arguments: object) -> dict[int, bytes]:
    return await asyncio.to_thread(call, *arguments)


def test_what_librdkafka_writes_it_reads(tmp_path: Path) -> None:
    """With each of the four codecs, and with none."""

    async def main() -> None:
        async with live(tmp_path, brokers=1) as cluster:
            await asyncio.to_thread(create, cluster.bootstrap, 1)
            written: dict[int, bytes] = {}
            for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
                written |= await _in_thread(write, cluster.bootstrap, range(100 * number, 100 * number + 100), codec)
            assert await _in_thread(read, cluster.bootstrap, 500) == written

    asyncio.run(main())


def test_records_outlive_their_leader(tmp_path: Path) -> None:
    async def main() -> None:
        async with live(tmp_path, brokers=3) as cluster:
            await asyncio.to_thread(create, cluster.bootstrap, 3)
            written = await _in_thread(write, cluster.bootstrap, range(100))
            bootstrap = cluster.bootstrap
            await cluster.kill(leader(cluster))
            written |= await _in_thread(write, bootstrap, range(100, 200))
            assert await _in_thread(read, bootstrap, 200) == written

    asyncio.run(main())


def leader(cluster: Live) -> int:
    hosted = cluster.brokers[1].replicas.find(TOPIC, 0)
    assert hosted is not None
    assert hosted.partition.view is not None
    return hosted.partition.view.leader
