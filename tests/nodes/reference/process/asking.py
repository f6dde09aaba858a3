"""What tests ask of a real node by hand, without a client in between: one topic with one partition."""

from __future__ import annotations

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11 import request as fetch
from kio.schema.produce.v9 import request as produce
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import Records, i8, i16, i32, i64

from nodes.protocol.connection import Connection
from nodes.reference.environment import Address
from nodes.reference.server.schema import milliseconds
from tests.nodes.reference.process.standing import PATIENCE
from tests.nodes.reference.producing import produced

TOPIC = "orders"


async def create(address: Address, name: str = TOPIC) -> None:
    topic = CreatableTopic(
        name=TopicName(name), num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=()
    )
    request = CreateTopicsRequest(topics=(topic,), timeout=milliseconds(30_000))
    async with await Connection.open(*address, timeout=PATIENCE) as connection:
        answer = await connection.ask(request, CreateTopicsResponse, timeout=PATIENCE)
        assert answer.topics[0].error_code is ErrorCode.none


def one_record(value: bytes) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(index=i32(0), records=Records(produced(value)))
    return produce.ProduceRequest(
        acks=i16(-1),
        timeout=milliseconds(30_000),
        topic_data=(produce.TopicProduceData(name=TopicName(TOPIC), partition_data=(partition,)),),
    )


def everything(offset: int = 0) -> fetch.FetchRequest:
    """All records from an offset on, as a consumer asks for them that gives them much room."""
    partition = fetch.FetchPartition(partition=i32(0), fetch_offset=i64(offset), partition_max_bytes=i32(50 << 20))
    return fetch.FetchRequest(
        replica_id=BrokerId(-1),
        max_wait=milliseconds(0),
        min_bytes=i32(0),
        isolation_level=i8(0),
        topics=(fetch.FetchTopic(topic=TopicName(TOPIC), partitions=(partition,)),),
        forgotten_topics_data=(),
    )
