"""kafka-python and aiokafka, unmodified, against a real node: all codecs, groups, transactions, and administration."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import Iterator
from typing import Any

import aiokafka
import kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import ProducerFencedError, UnknownTopicOrPartitionError

from tests.nodes.reference.process.standing import PATIENCE, Standing

pytestmark = pytest.mark.reference
CODECS = (None, "gzip", "snappy", "lz4", "zstd")
MS = int(PATIENCE * 1_000)


def values(count: int, codec: str | None) -> list[bytes]:
    return [b"%s %d" % (str(codec).encode(), number) for number in range(count)]


@pytest.fixture(autouse=True)
def leftovers() -> Iterator[None]:
    """kafka-python forgets sockets that it was still connecting when it was closed; later tests would be blamed for them."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def admin(node: Standing) -> Iterator[Any]:
    admin = kafka.KafkaAdminClient(bootstrap_servers=node.bootstrap, request_timeout_ms=MS)
    yield admin
    admin.close()


def consume(node: Standing, topic: str, count: int, **settings: Any) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=node.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, **settings
    )
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count:
        assert time.monotonic() < deadline, found
        for records in consumer.poll(timeout_ms=500).values():
            found += [record.value for record in records]
    if "group_id" in settings:
        consumer.commit()
    consumer.close()
    return found


class TestKafkaPython:
    @pytest.mark.parametrize("codec", CODECS)
    def test_codecs(self, node: Standing, admin: Any, codec: str | None) -> None:
        topic = f"python-{codec}"
        admin.create_topics([NewTopic(topic, 1, 1)])
        producer = kafka.KafkaProducer(bootstrap_servers=node.bootstrap, compression_type=codec, linger_ms=20)
        sent = [producer.send(topic, value) for value in values(50, codec)]
        assert [each.get(PATIENCE).offset for each in sent] == list(range(50))
        producer.close()
        assert consume(node, topic, 50) == values(50, codec)

    def test_groups(self, node: Standing, admin: Any) -> None:
        admin.create_topics([NewTopic("python-group", 1, 1)])
        producer = kafka.KafkaProducer(bootstrap_servers=node.bootstrap)
        for round in (1, 2):
            producer.send("python-group", b"%d" % round).get(PATIENCE)
            assert consume(node, "python-group", 1, group_id="python") == [b"%d" % round]
        producer.close()
        partition = kafka.TopicPartition("python-group", 0)
        reader = kafka.KafkaConsumer(bootstrap_servers=node.bootstrap, group_id="python")
        assert reader.committed(partition) == 2
        reader.close()

    def test_transactions(self, node: Standing, admin: Any) -> None:
        admin.create_topics([NewTopic("python-transactions", 1, 1)])
        first, second = (
            kafka.KafkaProducer(bootstrap_servers=node.bootstrap, transactional_id="python") for _ in range(2)
        )
        first.init_transactions()
        for value, end in (
            (b"a", first.commit_transaction),
            (b"x", first.abort_transaction),
            (b"b", first.commit_transaction),
        ):
            first.begin_transaction()
            first.send("python-transactions", value).get(PATIENCE)
            end()
        committed = consume(node, "python-transactions", 2, isolation_level="read_committed")
        assert committed == [b"a", b"b"]
        assert consume(node, "python-transactions", 3) == [b"a", b"x", b"b"]
        second.init_transactions()
        first.begin_transaction()
        with pytest.raises(ProducerFencedError):
            first.send("python-transactions", b"zombie").get(PATIENCE)
        second.close()
        first.close(timeout=0)

    def test_administration(self, admin: Any) -> None:
        admin.create_topics([NewTopic("python-admin", 2, 1, topic_configs={"max.message.bytes": "10000"})])
        (described,) = admin.describe_topics(["python-admin"])
        assert len(described["partitions"]) == 2
        assert "10000" in str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "python-admin")]))
        admin.delete_topics(["python-admin"])
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics(["python-admin"])
        assert len(admin.describe_cluster()["brokers"]) == 1


class TestAiokafka:
    async def _create(self, node: Standing, *topics: AioNewTopic) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=node.bootstrap)
        await admin.start()
        await admin.create_topics(list(topics))
        await admin.close()

    async def _consume(self, node: Standing, topic: str, count: int, **settings: Any) -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(
            topic, bootstrap_servers=node.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, **settings
        )
        await consumer.start()
        async with asyncio.timeout(PATIENCE):
            found = [(await consumer.getone()).value for _ in range(count)]
        if "group_id" in settings:
            await consumer.commit()
        await consumer.stop()
        return found

    def test_codecs(self, node: Standing) -> None:
        async def main() -> None:
            await self._create(node, *(AioNewTopic(f"aio-{codec}", 1, 1) for codec in CODECS))
            for codec in CODECS:
                producer = aiokafka.AIOKafkaProducer(
                    bootstrap_servers=node.bootstrap, compression_type=codec, linger_ms=20, enable_idempotence=True
                )
                await producer.start()
                sent = [await producer.send(f"aio-{codec}", value) for value in values(50, codec)]
                assert [(await each).offset for each in sent] == list(range(50))
                await producer.stop()
                assert await self._consume(node, f"aio-{codec}", 50) == values(50, codec)

        asyncio.run(main())

    def test_groups_and_transactions(self, node: Standing) -> None:
        async def main() -> None:
            await self._create(node, AioNewTopic("aio-transactions", 1, 1))
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=node.bootstrap, transactional_id="aio")
            await producer.start()
            partition = aiokafka.TopicPartition("aio-transactions", 0)
            async with producer.transaction():
                await producer.send_and_wait("aio-transactions", b"a")
            await producer.begin_transaction()
            await producer.send_and_wait("aio-transactions", b"x")
            await producer.abort_transaction()
            group = {"group_id": "aio", "isolation_level": "read_committed"}
            assert await self._consume(node, "aio-transactions", 1, **group) == [b"a"]
            async with producer.transaction():
                await producer.send_and_wait("aio-transactions", b"b")
            assert await self._consume(node, "aio-transactions", 1, **group) == [b"b"]
            async with producer.transaction():
                await producer.send_offsets_to_transaction({partition: 0}, "aio")
            assert await self._consume(node, "aio-transactions", 2, **group) == [b"a", b"b"]
            await producer.stop()

        asyncio.run(main())

    def test_administration(self, node: Standing) -> None:
        async def main() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=node.bootstrap)
            await admin.start()
            await admin.create_topics([AioNewTopic("aio-admin", 2, 1)])
            (described,) = await admin.describe_topics(["aio-admin"])
            assert len(described["partitions"]) == 2
            await admin.delete_topics(["aio-admin"])
            assert "aio-admin" not in await admin.list_topics()
            await admin.close()

        asyncio.run(main())
