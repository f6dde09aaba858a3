"""CreateTopics, DeleteTopics, CreatePartitions. Each topic of a request by itself."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.reference.controller import placement
from nodes.reference.controller.broker_messages import OK
from nodes.reference.controller.client_messages import (
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    MorePartitions,
    NamedError,
    NewTopic,
)
from nodes.reference.controller.config_rules import invalid_topic_config
from nodes.reference.controller.draft import Draft
from nodes.reference.metadata.entities import Topic
from nodes.reference.metadata.image import TOPIC
from nodes.reference.metadata.schema import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord

MAX_PARTITIONS: Final = 10_000  # in one request, as Kafka limits it
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_DEFAULT: Final = -1


class Refused(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def create_topics(draft: Draft, request: CreateTopicsRequest) -> CreateTopicsResponse:
    draft = draft.trial() if request.validate_only else draft
    times = Counter(topic.name for topic in request.topics)
    created = []
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise Refused(ErrorCode.invalid_request, f"{topic.name} is named {times[topic.name]} times")
            created.append(_create(draft, topic))
        except Refused as refused:
            created.append(CreatedTopic(name=topic.name, error=refused.error, message=str(refused)))
    return CreateTopicsResponse(topics=tuple(created))


def delete_topics(draft: Draft, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    deleted = []
    for named in request.topics:
        topic = draft.image.topics.get(named) if isinstance(named, UUID) else draft.image.topic(named)
        if topic is not None:
            draft.write(RemoveTopicRecord(topic_id=topic.id))
            deleted.append(DeletedTopic(name=topic.name, topic_id=topic.id, error=OK))
        elif isinstance(named, UUID):
            deleted.append(DeletedTopic(name=None, topic_id=named, error=ErrorCode.unknown_topic_id))
        else:
            deleted.append(DeletedTopic(name=named, topic_id=None, error=ErrorCode.unknown_topic_or_partition))
    return DeleteTopicsResponse(topics=tuple(deleted))


def create_partitions(draft: Draft, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    draft = draft.trial() if request.validate_only else draft
    times = Counter(topic.name for topic in request.topics)
    done = []
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise Refused(ErrorCode.invalid_request, f"{topic.name} is named {times[topic.name]} times")
            _add_partitions(draft, topic)
            done.append(NamedError(name=topic.name, error=OK))
        except Refused as refused:
            done.append(NamedError(name=topic.name, error=refused.error, message=str(refused)))
    return CreatePartitionsResponse(topics=tuple(done))


def _create(draft: Draft, asked: NewTopic) -> CreatedTopic:
    _check_name(draft, asked.name)
    configs = {name: value for name, value in asked.configs if value is not None}
    for name, value in configs.items():
        if (complaint := invalid_topic_config(name, value)) is not None:
            raise Refused(ErrorCode.invalid_config, complaint)
    replicas = _assignments(draft, asked)
    topic_id = UUID(int=draft.moment.random.getrandbits(128), version=4)
    draft.write(TopicRecord(name=asked.name, topic_id=topic_id))
    for name, value in configs.items():
        draft.write(ConfigRecord(resource_type=TOPIC, resource_name=asked.name, name=name, value=value))
    for number, assigned in enumerate(replicas):
        _write_partition(draft, topic_id, number, assigned)
    return CreatedTopic(
        name=asked.name,
        error=OK,
        topic_id=topic_id,
        partition_count=len(replicas),
        replication_factor=len(replicas[0]),
        configs=tuple(configs.items()),
    )


def _check_name(draft: Draft, name: str) -> None:
    if not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise Refused(
            ErrorCode.invalid_topic_exception,
            f"{name!r} is not a topic's name: 1 to 249 of a-z A-Z 0-9 . _ - and neither '.' nor '..'",
        )
    if name in draft.image.topic_ids:
        raise Refused(ErrorCode.topic_already_exists, f"topic {name} already exists")
    for other in draft.image.topic_ids:
        if other.replace(".", "_") == name.replace(".", "_"):
            raise Refused(
                ErrorCode.invalid_topic_exception, f"{name} collides with {other}: in metrics . and _ are one"
            )


def _assignments(draft: Draft, asked: NewTopic) -> tuple[tuple[int, ...], ...]:
    if asked.assignments:
        if (asked.partition_count, asked.replication_factor) != (_DEFAULT, _DEFAULT):
            raise Refused(
                ErrorCode.invalid_request, "with assignments, partition count and replication factor must be -1"
            )
        by_number = dict(asked.assignments)
        if sorted(by_number) != list(range(len(asked.assignments))):
            raise Refused(ErrorCode.invalid_replica_assignment, "partitions must be numbered 0, 1, 2 ... once each")
        assigned = tuple(by_number[number] for number in range(len(by_number)))
        _check_assignments(draft, assigned, len(assigned[0]))
        return assigned
    settings = draft.moment.settings
    count = settings.num_partitions if asked.partition_count == _DEFAULT else asked.partition_count
    factor = asked.replication_factor
    return _placed(draft, count, settings.default_replication_factor if factor == _DEFAULT else factor)


def _placed(draft: Draft, count: int, replication_factor: int) -> tuple[tuple[int, ...], ...]:
    if not 0 < count <= MAX_PARTITIONS:
        raise Refused(ErrorCode.invalid_partitions, f"{count} partitions: between 1 and {MAX_PARTITIONS} are possible")
    brokers = list(draft.image.brokers.values())
    if not 0 < replication_factor <= len(brokers):
        raise Refused(
            ErrorCode.invalid_replication_factor,
            f"replication factor {replication_factor}, and {len(brokers)} brokers are registered",
        )
    if not any(broker.active for broker in brokers):
        raise Refused(ErrorCode.invalid_replication_factor, "all brokers are fenced or shutting down")
    return placement.place(brokers, count, replication_factor, draft.moment.random)


def _check_assignments(draft: Draft, assigned: tuple[tuple[int, ...], ...], replication_factor: int) -> None:
    """Every partition on so many different registered brokers, one of which can lead."""
    for replicas in assigned:
        if not replicas or len(set(replicas)) < len(replicas) or len(replicas) != replication_factor:
            raise Refused(
                ErrorCode.invalid_replica_assignment, f"{replicas} are not {replication_factor} different brokers"
            )
        unknown = [replica for replica in replicas if replica not in draft.image.brokers]
        if unknown:
            raise Refused(ErrorCode.invalid_replica_assignment, f"brokers {unknown} are not registered")
        if not any(draft.image.active(replica) for replica in replicas):
            raise Refused(ErrorCode.invalid_replica_assignment, f"all of {replicas} are fenced or shutting down")


def _write_partition(draft: Draft, topic_id: UUID, number: int, replicas: tuple[int, ...]) -> None:
    """The ISR begins with the replicas that are active; the first of them leads."""
    isr = tuple(replica for replica in replicas if draft.image.active(replica))
    draft.write(
        PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=replicas,
            isr=isr,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
        )
    )


def _add_partitions(draft: Draft, asked: MorePartitions) -> None:
    topic = draft.image.topic(asked.name)
    if topic is None:
        raise Refused(ErrorCode.unknown_topic_or_partition, f"there is no topic {asked.name}")
    present = len(topic.partitions)
    if asked.count <= present:
        raise Refused(ErrorCode.invalid_partitions, f"{asked.name} has {present} partitions already")
    for number, replicas in enumerate(_more(draft, asked, topic), start=present):
        _write_partition(draft, topic.id, number, replicas)


def _more(draft: Draft, asked: MorePartitions, topic: Topic) -> tuple[tuple[int, ...], ...]:
    missing = asked.count - len(topic.partitions)
    replication_factor = len(topic.partitions[0].replicas)
    if asked.assignments is None:
        return _placed(draft, missing, replication_factor)
    if len(asked.assignments) != missing:
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            f"{len(asked.assignments)} assignments for {missing} new partitions",
        )
    _check_assignments(draft, asked.assignments, replication_factor)
    return asked.assignments
