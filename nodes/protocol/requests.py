"""The few requests that krash itself makes, in versions that every supported release speaks (3.3 to 4.4), as functions on a connection."""

from __future__ import annotations

import base64
import datetime
import uuid
from typing import Final

from kio.schema.create_topics.v7 import CreateTopicsRequest, CreateTopicsResponse
from kio.schema.create_topics.v7.request import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from kio.schema.delete_topics.v6 import DeleteTopicsRequest, DeleteTopicsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.describe_quorum.v0 import DescribeQuorumRequest, DescribeQuorumResponse
from kio.schema.describe_quorum.v0.request import PartitionData as QuorumPartition
from kio.schema.describe_quorum.v0.request import TopicData as QuorumTopic
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4 import InitProducerIdRequest, InitProducerIdResponse
from kio.schema.metadata.v12 import MetadataRequest, MetadataResponse
from kio.schema.types import BrokerId, TopicName
from kio.schema.update_features.v1 import UpdateFeaturesRequest, UpdateFeaturesResponse
from kio.schema.update_features.v1.request import FeatureUpdateKey
from kio.static.primitive import i8, i16, i32, i32Timedelta

from nodes.protocol.connection import Connection
from nodes.topology import Topic

METADATA_TOPIC: Final = "__cluster_metadata"
UPGRADE, SAFE_DOWNGRADE = 1, 2
_EVERYTHING: Final = MetadataRequest(
    topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
)

_PRODUCER_ID: Final = InitProducerIdRequest(
    transactional_id=None, transaction_timeout=i32Timedelta.parse(datetime.timedelta(minutes=1))
)


class Declined(Exception):
    """The server answered with an error; `code` is Kafka's name of it."""

    def __init__(self, what: str, code: ErrorCode, message: str | None) -> None:
        super().__init__(f"{what}: {code.name}{f' ({message})' if message else ''}")
        self.code = code


def error_name(code: ErrorCode) -> str:
    """Kafka's own name of an error: NOT_CONTROLLER; NONE of none."""
    return code.name.upper()


def milliseconds(seconds: float) -> i32Timedelta:
    return i32Timedelta.parse(datetime.timedelta(milliseconds=round(seconds * 1000)))


def text(identifier: uuid.UUID) -> str:
    """A UUID as Kafka writes it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(identifier.bytes).decode().rstrip("=")


async def metadata(connection: Connection, *, timeout: float) -> MetadataResponse:
    """Everything this server knows of brokers and topics."""
    return await connection.ask(_EVERYTHING, MetadataResponse, timeout=timeout)


async def quorum(connection: Connection, *, timeout: float) -> DescribeQuorumResponse:
    """Only the active controller answers without error (top-level or of the partition)."""
    topic = QuorumTopic(topic_name=TopicName(METADATA_TOPIC), partitions=(QuorumPartition(partition_index=i32(0)),))
    return await connection.ask(DescribeQuorumRequest(topics=(topic,)), DescribeQuorumResponse, timeout=timeout)


async def create_topic(connection: Connection, topic: Topic, *, timeout: float) -> None:
    """Declined when it was not created; topic_already_exists is the caller's to judge."""
    wanted = CreatableTopic(
        name=TopicName(topic.name),
        num_partitions=i32(-1 if topic.assignment else topic.partitions),
        replication_factor=i16(-1 if topic.assignment else topic.replication),
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=i32(partition), broker_ids=tuple(BrokerId(i) for i in replicas))
            for partition, replicas in sorted((topic.assignment or {}).items())
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in topic.config.items()),
    )
    request = CreateTopicsRequest(topics=(wanted,), timeout=milliseconds(timeout))
    for result in (await connection.ask(request, CreateTopicsResponse, timeout=timeout)).topics:
        if result.error_code is not ErrorCode.none:
            raise Declined(f"topic {topic.name} was not created", result.error_code, result.error_message)


async def delete_topic(connection: Connection, name: str, *, timeout: float) -> None:
    topic = DeleteTopicState(name=TopicName(name), topic_id=None)
    request = DeleteTopicsRequest(topics=(topic,), timeout=milliseconds(timeout))
    for result in (await connection.ask(request, DeleteTopicsResponse, timeout=timeout)).responses:
        if result.error_code is not ErrorCode.none:
            raise Declined(f"topic {name} was not deleted", result.error_code, result.error_message)


async def producer_id(connection: Connection, *, timeout: float) -> None:
    """Have a broker hand out a producer id; Declined while it has none to give."""
    answer = await connection.ask(_PRODUCER_ID, InitProducerIdResponse, timeout=timeout)
    if answer.error_code is not ErrorCode.none:
        raise Declined("no producer id", answer.error_code, None)


async def update_feature(
    connection: Connection, feature: str, level: int, *, kind: int = UPGRADE, timeout: float
) -> None:
    """Finalize a feature at a level, e.g. metadata.version at 21 (KIP-584, KIP-778)."""
    update = FeatureUpdateKey(feature=feature, max_version_level=i16(level), upgrade_type=i8(kind))
    request = UpdateFeaturesRequest(feature_updates=(update,), timeout=milliseconds(timeout))
    answer = await connection.ask(request, UpdateFeaturesResponse, timeout=timeout)
    what = f"{feature} was not set to {level}"
    if answer.error_code is not ErrorCode.none:
        raise Declined(what, answer.error_code, answer.error_message)
    for result in answer.results:
        if result.error_code is not ErrorCode.none:
            raise Declined(what, result.error_code, result.error_message)
