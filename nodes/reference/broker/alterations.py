"""Asking the controller for other ISRs (KIP-497): one request at a time, with every partition that wants something by then.

A partition has one change in flight (its core sees to that), and is answered once: by the controller, or with REQUEST_TIMED_OUT, which
says nothing about what became of it, so the core asks the very same again.

The version is what the cluster's metadata.version allows. Below 3.5-IV1 it has no broker epochs, so the controller cannot tell a follower
that was in sync from one that has lost its disk since (KAFKA-14139), whatever software runs; below 3.3-IV0 it names topics instead of ids.
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.reference.broker.controller_channel import ControllerChannel
from nodes.reference.broker.hosted import Hosted
from nodes.reference.broker.metadata import Metadata
from nodes.reference.broker.replicas import Replicas
from nodes.reference.controller import wire
from nodes.reference.controller.broker_messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ProposedIsr,
)
from nodes.reference.environment import SECOND, Clock, Disconnected
from nodes.reference.metadata.entities import PartitionId
from nodes.reference.metadata.features import alter_partition_version
from nodes.reference.partition.effects import AlterPartition, AlterPartitionAnswer

_DEADLINE: Final = 5 * SECOND
_FIRST_WITH_IDS: Final = 2


class Alterations:
    def __init__(
        self, broker: int, clock: Clock, channel: ControllerChannel, metadata: Metadata, replicas: Replicas
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._channel = channel
        self._metadata = metadata
        self._replicas = replicas
        self._wanted: dict[PartitionId, tuple[Hosted, AlterPartition]] = {}
        self._some = asyncio.Event()
        replicas.propose = self.propose

    def propose(self, hosted: Hosted, change: AlterPartition) -> None:
        """The newest of a partition counts: an older one belongs to an epoch that is over."""
        self._wanted[hosted.id] = hosted, change
        self._some.set()

    async def run(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            asked, self._wanted = self._wanted, {}
            if not asked:
                continue
            answers = await self._ask(asked)
            now = self._clock.now()
            for id, (hosted, change) in asked.items():
                answer = answers.get(id) or AlterPartitionAnswer(change, ErrorCode.request_timed_out)
                effects = hosted.partition.alter_partition_answered(answer, now)
                self._replicas.carry_out(hosted, effects)

    async def _ask(
        self, asked: dict[PartitionId, tuple[Hosted, AlterPartition]]
    ) -> dict[PartitionId, AlterPartitionAnswer]:
        """What is missing has no answer, because there was none or only one to the request as a whole."""
        version = alter_partition_version(self._metadata.image.metadata_version)
        topics = {id: self._topic(id, version) for id in sorted(asked)}
        gone = {
            id: AlterPartitionAnswer(asked[id][1], ErrorCode.unknown_topic_id)
            for id, topic in topics.items()
            if topic is None
        }
        known = {(topic, id.number): id for id, topic in topics.items() if topic is not None}
        if not known:
            return gone
        request = AlterPartitionRequest(
            version=version,
            broker_id=self._broker,
            broker_epoch=self._replicas.broker_epoch,
            partitions=tuple(_proposed(topic, number, asked[id][1]) for (topic, number), id in known.items()),
        )
        try:
            answer = await self._channel.ask(wire.request_to_kafka(request), deadline=self._clock.now() + _DEADLINE)
        except Disconnected:
            return gone
        response = wire.response_from_kafka(answer)
        assert isinstance(response, AlterPartitionResponse)
        if response.error is not ErrorCode.none:
            return gone
        return gone | {
            id: AlterPartitionAnswer(
                asked=asked[id][1],
                error=altered.error,
                leader=altered.leader,
                leader_epoch=altered.leader_epoch,
                isr=frozenset(altered.isr),
                partition_epoch=altered.partition_epoch,
            )
            for altered in response.partitions
            if (id := known.get((altered.topic, altered.index))) is not None
        }

    def _topic(self, id: PartitionId, version: int) -> UUID | str | None:
        """How this version names it; None if the metadata do not know it any more."""
        if version >= _FIRST_WITH_IDS:
            return id.topic_id
        topic = self._metadata.image.topics.get(id.topic_id)
        return None if topic is None else topic.name


def _proposed(topic: UUID | str, number: int, change: AlterPartition) -> ProposedIsr:
    """The wire leaves out the broker epochs of KIP-903 where the version has none."""
    return ProposedIsr(
        topic=topic,
        index=number,
        leader_epoch=change.leader_epoch,
        partition_epoch=change.partition_epoch,
        new_isr=change.new_isr,
    )
