"""Metadata and DescribeCluster: what clients are told of brokers, topics and leaders, by the newest metadata that this broker has.

A topic that is asked for by name and does not exist is created, if the request and the broker's configuration allow it; the answer to that
very request is LEADER_NOT_AVAILABLE or, soon after, the topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.reference.broker.peers import address_of
from nodes.reference.broker.serving import Serving
from nodes.reference.environment import Caller, Refused
from nodes.reference.metadata.entities import Broker, Partition, Topic
from nodes.reference.partition.view import NO_LEADER
from nodes.reference.server.schema import NO_TIME, fitted, response_module

BROKERS, CONTROLLERS = 1, 2  # endpoint types (KIP-919)
UNKNOWN_OPERATIONS: Final = -(1 << 31)  # of authorization, which there is none of here
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
NAMELESS: Final = 12  # the version of Metadata from which on topics go by id; 10 and 11 have the field, and Kafka refuses it (KIP-516)
CreateTopic = Callable[[str], Awaitable[ErrorCode]]


class ClusterViewHandlers:
    def __init__(self, serving: Serving, create: CreateTopic) -> None:
        self._serving = serving
        self._create = create

    async def metadata(self, caller: Caller, request: Any) -> object:
        """Refused while fenced: others know better."""
        if not self._serving.may_serve:
            raise Refused("this broker is fenced")
        reply = response_module(request)
        topics = await self._topics(request, reply)
        return fitted(
            reply.MetadataResponse,
            throttle_time=NO_TIME,
            brokers=self._brokers(reply.MetadataResponseBroker),
            cluster_id=self._serving.settings.cluster_id,
            controller_id=self._controller(),
            topics=topics,
            cluster_authorized_operations=UNKNOWN_OPERATIONS,
            error_code=ErrorCode.none,
        )

    async def describe_cluster(self, caller: Caller, request: Any) -> object:
        if not self._serving.may_serve:
            raise Refused("this broker is fenced")
        reply = response_module(request)
        error = _endpoint_error(getattr(request, "endpoint_type", BROKERS))
        fenced_too: bool = getattr(request, "include_fenced_brokers", False)
        return fitted(
            reply.DescribeClusterResponse,
            throttle_time=NO_TIME,
            error_code=error,
            endpoint_type=BROKERS,
            cluster_id=self._serving.settings.cluster_id,
            controller_id=self._controller(),
            brokers=self._brokers(reply.DescribeClusterBroker, fenced_too) if error is ErrorCode.none else (),
            cluster_authorized_operations=UNKNOWN_OPERATIONS,
        )

    def _alive(self, fenced_too: bool = False) -> list[tuple[int, Broker]]:
        """Those that are not fenced, as Kafka tells; and this one, which serves, though its image may not have heard of it yet.

        A client that is told of no broker and no controller asks again after minutes (librdkafka: `topic.metadata.refresh.interval.ms`).
        """
        own = self._serving.settings.node_id
        brokers = sorted(self._serving.image.brokers.items())
        return [(id, broker) for id, broker in brokers if id == own or fenced_too or not broker.fenced]

    def _brokers(self, entity: Any, fenced_too: bool = False) -> tuple[Any, ...]:
        found = []
        for id, broker in self._alive(fenced_too):
            address = address_of(broker)
            if address is not None:
                host, port = address
                fenced = broker.fenced and id != self._serving.settings.node_id
                found.append(
                    fitted(entity, node_id=id, broker_id=id, host=host, port=port, rack=broker.rack, is_fenced=fenced)
                )
        return tuple(found)

    def _controller(self) -> int:
        """KIP-590: clients need not know the active controller, and cannot reach it; any broker forwards. This one, then."""
        own, alive = self._serving.settings.node_id, [id for id, _ in self._alive()]
        return own if own in alive else alive[0] if alive else -1

    async def _topics(self, request: Any, reply: Any) -> tuple[Any, ...]:
        image = self._serving.image
        if request.topics is None or (not request.topics and request.__version__ == 0):
            return tuple(self._topic(reply, topic) for _, topic in sorted(image.topics.items()))
        found = []
        for asked in request.topics:
            topic_id = getattr(asked, "topic_id", None)
            if request.__version__ < NAMELESS and (asked.name is None or topic_id is not None):
                found.append(_no_topic(reply, ErrorCode.invalid_request, asked.name or "", topic_id))
                continue
            if asked.name is None and topic_id is None:
                continue  # asks for nothing, and is told nothing
            topic = image.topics.get(topic_id) if topic_id is not None else image.topic(asked.name)
            if topic is not None:
                found.append(self._topic(reply, topic))
            elif topic_id is not None:
                found.append(_no_topic(reply, ErrorCode.unknown_topic_id, None, topic_id))
            else:
                found.append(_no_topic(reply, await self._missing(request, asked.name), asked.name, None))
        return tuple(found)

    async def _missing(self, request: Any, name: str) -> ErrorCode:
        allowed = getattr(request, "allow_auto_topic_creation", True)
        if not allowed or not self._serving.settings.auto_create_topics_enable or name in INTERNAL_TOPICS:
            return ErrorCode.unknown_topic_or_partition
        error = await self._create(name)
        return ErrorCode.leader_not_available if error in (ErrorCode.none, ErrorCode.topic_already_exists) else error

    def _topic(self, reply: Any, topic: Topic) -> Any:
        return fitted(
            reply.MetadataResponseTopic,
            error_code=ErrorCode.none,
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(self._partition(reply, index, each) for index, each in sorted(topic.partitions.items())),
            topic_authorized_operations=UNKNOWN_OPERATIONS,
        )

    def _partition(self, reply: Any, index: int, partition: Partition) -> Any:
        brokers = self._serving.image.brokers
        offline = tuple(id for id in partition.replicas if id not in brokers or brokers[id].fenced)
        return fitted(
            reply.MetadataResponsePartition,
            error_code=ErrorCode.leader_not_available if partition.leader == NO_LEADER else ErrorCode.none,
            partition_index=index,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=offline,
        )


def _no_topic(reply: Any, error: ErrorCode, name: str | None, topic_id: Any) -> Any:
    return fitted(
        reply.MetadataResponseTopic,
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=False,
        partitions=(),
        topic_authorized_operations=UNKNOWN_OPERATIONS,
    )


def _endpoint_error(asked: int) -> ErrorCode:
    """KIP-919, DescribeCluster: who wants to hear of controllers is to ask one."""
    if asked == BROKERS:
        return ErrorCode.none
    return ErrorCode.mismatched_endpoint_type if asked == CONTROLLERS else ErrorCode.unsupported_endpoint_type
