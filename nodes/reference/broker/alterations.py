"""Asking the controller for other ISRs (KIP-497): one request at a time, with every partition that wants something by then.

A partition has one change in flight (its core sees to that), and is answered once: by the controller, or with REQUEST_TIMED_OUT, which
says nothing about what became of it, so the core asks the very same again.
"""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.reference.broker.controller_channel import ControllerChannel
from nodes.reference.broker.hosted import Hosted
from nodes.reference.broker.metadata import Metadata
from nodes.reference.broker.replicas import Replicas
from nodes.reference.environment import SECOND, Clock, Disconnected
from nodes.reference.metadata.entities import PartitionId
from nodes.reference.metadata.features import alter_partition_version
from nodes.reference.partition.effects import AlterPartition, AlterPartitionAnswer
from nodes.reference.server.handlers import Api
from nodes.reference.server.schema import fitted, request_module

_DEADLINE: Final = 5 * SECOND
_OLDEST: Final = 2  # that kio has; KIP-497's versions 0 and 1 name topics instead of ids


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
        """Empty if there was no answer, or one to the request as a whole."""
        try:
            answer = await self._channel.ask(self._request(asked), deadline=self._clock.now() + _DEADLINE)
        except Disconnected:
            return {}
        if answer.error_code is not ErrorCode.none:
            return {}
        return {
            id: AlterPartitionAnswer(
                asked=asked[id][1],
                error=partition.error_code,
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                isr=frozenset(partition.isr),
                partition_epoch=partition.partition_epoch,
            )
            for topic in answer.topics
            for partition in topic.partitions
            if (id := PartitionId(topic.topic_id, partition.partition_index)) in asked
        }

    def _request(self, asked: dict[PartitionId, tuple[Hosted, AlterPartition]]) -> Any:
        version = max(alter_partition_version(self._metadata.image.metadata_version), _OLDEST)
        form = request_module(Api.ALTER_PARTITION, version)
        topics = tuple(
            form.TopicData(topic_id=topic_id, partitions=tuple(_wanted(form, id, asked[id][1]) for id in ids))
            for topic_id, ids in groupby(sorted(asked), key=lambda id: id.topic_id)
        )
        return form.AlterPartitionRequest(
            broker_id=self._broker, broker_epoch=self._replicas.broker_epoch, topics=topics
        )


def _wanted(form: Any, id: PartitionId, change: AlterPartition) -> Any:
    """KIP-903, AlterPartition: version 3 has the epoch of each member; before, only ids."""
    members: dict[str, Any] = (
        {
            "new_isr_with_epochs": tuple(
                form.BrokerState(broker_id=broker, broker_epoch=epoch) for broker, epoch in change.new_isr
            )
        }
        if hasattr(form, "BrokerState")
        else {"new_isr": tuple(broker for broker, _ in change.new_isr)}
    )
    return fitted(
        form.PartitionData,
        partition_index=id.number,
        leader_epoch=change.leader_epoch,
        partition_epoch=change.partition_epoch,
        leader_recovery_state=0,
        **members,
    )
