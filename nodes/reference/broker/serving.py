"""What every handler of the broker starts from, and what a client is told when it may not be served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.reference.broker.hosted import Hosted
from nodes.reference.broker.lifecycle import Lifecycle
from nodes.reference.broker.metadata import Metadata
from nodes.reference.broker.replicas import Replicas
from nodes.reference.broker.settings import BrokerSettings
from nodes.reference.environment import Clock
from nodes.reference.metadata.entities import PartitionId
from nodes.reference.metadata.image import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    clock: Clock
    settings: BrokerSettings
    lifecycle: Lifecycle
    metadata: Metadata
    replicas: Replicas

    @property
    def image(self) -> Image:
        return self.metadata.image

    @property
    def may_serve(self) -> bool:
        """KIP-631, Fencing: clients are served only while the lease lasts; and nobody any more once the disk has failed."""
        return not self.replicas.failure.done() and self.lifecycle.may_serve(self.clock.now())

    def client_partition(self, topic: str, index: int) -> Hosted | ErrorCode:
        """What a client wants to read or write, or why it may not."""
        if not self.may_serve:
            return ErrorCode.not_leader_or_follower
        return self.partition(topic, index)

    def partition(self, topic: str, index: int) -> Hosted | ErrorCode:
        hosted = self.replicas.find(topic, index)
        if hosted is not None:
            return hosted
        known = self.image.topic(topic)
        there = known is not None and index in known.partitions
        return ErrorCode.not_leader_or_follower if there else ErrorCode.unknown_topic_or_partition

    def partition_by_id(self, topic_id: UUID | None, index: int) -> Hosted | ErrorCode:
        """KIP-516: a topic by its id, which this broker may not have heard of yet."""
        topic = None if topic_id is None else self.image.topics.get(topic_id)
        if topic is None or topic_id is None:
            return ErrorCode.unknown_topic_id
        hosted = self.replicas.by_id(PartitionId(topic_id, index))
        if hosted is not None:
            return hosted
        return ErrorCode.not_leader_or_follower if index in topic.partitions else ErrorCode.unknown_topic_or_partition


def named(part: Any, request: Any) -> dict[str, Any]:
    """The name or the id of a topic, as its version of the message has it, for the answer."""
    return {field: getattr(part, field) for field in ("topic", "topic_id", "name") if hasattr(part, field)}
