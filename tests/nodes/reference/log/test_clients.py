"""Real batches: librdkafka makes them, the log takes and gives them, librdkafka reads them again. With every codec.

librdkafka's own mock broker stands on both sides, because it keeps and hands out batches as they were sent.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11 import FetchRequest, FetchResponse
from kio.schema.fetch.v11.request import FetchPartition, FetchTopic
from kio.schema.produce.v7.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v7.response import ProduceResponse
from kio.schema.types import TopicName
from kio.static.primitive import Records, i8, i16, i32, i64
from kio.static.protocol import RequestPayload, ResponsePayload

from nodes.protocol.framing import decode_response, encode_request
from nodes.protocol.requests import milliseconds
from nodes.reference.log.batch import Codec, batches, check_produced, intact
from nodes.reference.log.log import Log, LogSettings
from nodes.reference.protections import ALL_ON
from tests.nodes.reference.lone_disk import LoneDisk

VALUES = [b"%d" % number * 50 for number in range(20)]
DEADLINE = 30.0
ALL = 1 << 20
R = TypeVar("R", bound=ResponsePayload)


@contextlib.contextmanager
def mock_cluster(**settings: object) -> Iterator[tuple[Producer, str]]:
    """A producer with a mock broker inside, and where that listens."""
    producer = Producer({"test.mock.num.brokers": 1, "linger.ms": 50, **settings})
    try:
        (broker,) = producer.list_topics(timeout=DEADLINE).brokers.values()
        yield producer, f"{broker.host}:{broker.port}"
    finally:
        producer.flush(DEADLINE)


def ask(address: str, request: RequestPayload, expect: type[R]) -> R:
    """One request on a connection of its own; the mock's ApiVersions is not quite Kafka's, so nobody asks for it."""
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=DEADLINE) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(encode_request(request, correlation_id=1, client_id="krash"))
        (size,) = struct.unpack(">i", stream.read(4))
        _, answer = decode_response(stream.read(size), expect)
        return answer


def fetched(address: str, topic: str) -> bytes:
    wanted = FetchPartition(partition=i32(0), fetch_offset=i64(0), partition_max_bytes=i32(ALL))
    request = FetchRequest(
        max_wait=milliseconds(1.0),
        min_bytes=i32(1),
        max_bytes=i32(ALL),
        isolation_level=i8(0),
        topics=(FetchTopic(topic=TopicName(topic), partitions=(wanted,)),),
        forgotten_topics_data=(),
        rack_id="",
    )
    return bytes(ask(address, request, FetchResponse).responses[0].partitions[0].records or b"")


def stored(address: str, topic: str, content: bytes) -> None:
    for position, header in batches(content):
        data = PartitionProduceData(index=i32(0), records=Records(content[position : position + header.size]))
        request = ProduceRequest(
            transactional_id=None,
            acks=i16(-1),
            timeout=milliseconds(DEADLINE),
            topic_data=(TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
        )
        (answer,) = ask(address, request, ProduceResponse).responses[0].partition_responses
        assert answer.error_code is ErrorCode.none


def consumed(address: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "check.crcs": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes | None] = []
        while len(found) < count:
            messages = consumer.consume(count, timeout=DEADLINE)
            assert messages, f"only {len(found)} of {count} records came"
            for message in messages:
                assert message.error() is None, message.error()
                found.append(message.value())
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_what_librdkafka_writes_it_reads_again(codec: Codec) -> None:
    with mock_cluster(**{"compression.type": codec.name.lower(), "enable.idempotence": True}) as (producer, address):
        for value in VALUES:
            producer.produce("sent", value, partition=0)
        assert producer.flush(DEADLINE) == 0
        log = Log.open(LoneDisk(), "t-0", LogSettings(), ALL_ON)
        log.begin_epoch(3)
        content = fetched(address, "sent")
        for position, header in batches(content):
            one = content[position : position + header.size]
            check_produced(one, header, max_size=ALL)
            assert header.codec == codec
            log.append_as_leader(one, leader_epoch=3, now=0)
        assert log.log_end_offset == len(VALUES)
        assert log.append_as_leader(one, leader_epoch=3, now=0).duplicate
        kept = log.read(0, upper_bound=len(VALUES), max_bytes=ALL)
        assert all(intact(kept, position, header) for position, header in batches(kept))
        producer.list_topics("kept", timeout=DEADLINE)  # which makes the topic
        stored(address, "kept", kept)
        assert consumed(address, "kept", len(VALUES)) == VALUES
