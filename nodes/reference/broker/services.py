"""The broker as its coordinators see it (`server/services.py`)."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.broker.administration import Administration
from nodes.reference.broker.hosted import Hosted
from nodes.reference.broker.markers import MarkerHandler
from nodes.reference.broker.peers import Peers, address_of
from nodes.reference.broker.producer_ids import ProducerIds
from nodes.reference.broker.serving import Serving
from nodes.reference.partition.requests import Acks
from nodes.reference.partition.view import NO_LEADER
from nodes.reference.server.services import LeadershipChanged, Marked, Read, Written


class BrokerServices:
    def __init__(
        self,
        serving: Serving,
        administration: Administration,
        producer_ids: ProducerIds,
        peers: Peers,
        markers: MarkerHandler,
    ) -> None:
        self._serving = serving
        self._administration = administration
        self._producer_ids = producer_ids
        self._peers = peers
        self._markers = markers
        self._watchers: list[tuple[str, LeadershipChanged, dict[int, int]]] = []
        serving.replicas.moved.append(self._moved)

    @property
    def broker_id(self) -> int:
        return self._serving.settings.node_id

    @property
    def may_serve(self) -> bool:
        return self._serving.may_serve

    def partition_count(self, topic: str) -> int | None:
        known = self._serving.image.topic(topic)
        return None if known is None else len(known.partitions)

    def leader_of(self, topic: str, partition: int) -> int | None:
        known = self._serving.image.topic(topic)
        there = None if known is None else known.partitions.get(partition)
        return None if there is None or there.leader == NO_LEADER else there.leader

    def host_and_port(self, broker: int) -> tuple[str, int] | None:
        known = self._serving.image.brokers.get(broker)
        return None if known is None or known.fenced else address_of(known)

    def leads(self, topic: str, partition: int) -> int | None:
        hosted = self._serving.replicas.find(topic, partition)
        leader = None if hosted is None else hosted.partition.leader
        return None if leader is None else leader.epoch

    def watch_leadership(self, topic: str, changed: LeadershipChanged) -> None:
        self._watchers.append((topic, changed, {}))
        self._moved()

    def watch_markers(self, topic: str, marked: Marked) -> None:
        def tell(of_topic: str, partition: int, producer_id: int, committed: bool) -> None:
            if of_topic == topic:
                marked(partition, producer_id, committed)

        self._markers.marked.append(tell)

    async def create_internal(self, topic: str) -> ErrorCode:
        settings = self._serving.settings
        if topic == "__transaction_state":
            return await self._administration.create(
                topic,
                settings.transaction_state_log_num_partitions,
                self._possible(settings.transaction_state_log_replication_factor),
                {"min.insync.replicas": str(settings.transaction_state_log_min_isr), "cleanup.policy": "compact"},
            )
        return await self._administration.create(
            topic,
            settings.offsets_topic_num_partitions,
            self._possible(settings.offsets_topic_replication_factor),
            {"cleanup.policy": "compact"},
        )

    def _possible(self, replication: int) -> int:
        """No more replicas than there are brokers, so that a cluster of one works without configuration."""
        return max(min(replication, len(self._serving.image.brokers)), 1)

    def read(self, topic: str, partition: int, offset: int, max_bytes: int = 1 << 20) -> Read:
        hosted = self._serving.replicas.find(topic, partition)
        if hosted is None or hosted.partition.leader is None:
            return Read(ErrorCode.not_leader_or_follower)
        log = hosted.partition.local.log
        try:
            records = log.read(max(offset, log.log_start_offset), upper_bound=log.log_end_offset, max_bytes=max_bytes)
        except OSError:
            return Read(ErrorCode.kafka_storage_error)
        return Read(ErrorCode.none, records, log.high_watermark, log.log_end_offset)

    async def append(self, topic: str, partition: int, batch: bytes, *, leader_epoch: int, deadline: int) -> Written:
        hosted = self._serving.replicas.find(topic, partition)
        if hosted is None or self.leads(topic, partition) != leader_epoch:
            return Written(ErrorCode.not_leader_or_follower)
        return await self._append(hosted, batch, deadline)

    async def _append(self, hosted: Hosted, batch: bytes, deadline: int) -> Written:
        answer = await self._serving.replicas.produce(
            hosted, batch, acks=Acks.ALL, deadline=deadline, of_coordinator=True
        )
        return Written(answer.error, answer.base_offset, answer.message)

    async def ask_broker(self, broker: int, request: object, *, deadline: int) -> Any:
        return await self._peers.ask(broker, request, deadline=deadline)

    async def producer_id(self, *, deadline: int) -> int | None:
        return await self._producer_ids.next(deadline=deadline)

    def _moved(self) -> None:
        for topic, changed, known in self._watchers:
            for partition, epoch in self._news(topic, known):
                changed(partition, epoch)

    def _news(self, topic: str, known: dict[int, int]) -> list[tuple[int, int | None]]:
        now = {
            hosted.id.number: leader.epoch
            for hosted in self._serving.replicas
            if hosted.topic == topic and (leader := hosted.partition.leader) is not None
        }
        news: list[tuple[int, int | None]] = [(each, None) for each, epoch in known.items() if now.get(each) != epoch]
        news += [(each, epoch) for each, epoch in now.items() if known.get(each) != epoch]
        known.clear()
        known.update(now)
        return news
