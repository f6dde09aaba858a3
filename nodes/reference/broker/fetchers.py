"""Replica fetchers: for each leader that this broker follows one long poll, with all partitions that it leads (KIP-903: with the epoch
of this registration, from metadata.version 3.5-IV1 on).

A partition that comes or goes ends the poll at once and begins another, so a new follower does not wait for the old poll to end.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7 import request as list_offsets
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from nodes.reference.broker.hosted import Hosted
from nodes.reference.broker.metadata import Metadata
from nodes.reference.broker.peers import Peers
from nodes.reference.broker.replicas import Replicas
from nodes.reference.broker.settings import BrokerSettings
from nodes.reference.environment import MILLISECOND, SECOND, Disconnected, Environment
from nodes.reference.log.epochs import EpochEnd
from nodes.reference.metadata.entities import PartitionId
from nodes.reference.metadata.features import fetch_version
from nodes.reference.partition.effects import AskLeaderOffsets, FetchAnswer
from nodes.reference.partition.requests import ReplicaFetch, Timestamp
from nodes.reference.server.handlers import Api
from nodes.reference.server.schema import fitted, milliseconds, request_module

_ANSWER_AFTER_WAIT: Final = 5 * SECOND
_WITH_EPOCHS: Final = 15
Asked = dict[PartitionId, tuple[Hosted, ReplicaFetch]]


class Fetchers:
    def __init__(
        self, environment: Environment, settings: BrokerSettings, metadata: Metadata, replicas: Replicas
    ) -> None:
        self._environment = environment
        self._clock = environment.clock
        self._settings = settings
        self._metadata = metadata
        self._replicas = replicas
        self._tasks: dict[int, _Fetcher] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._offsets = Peers(environment, metadata, f"broker-{settings.node_id}-offsets")
        replicas.moved.append(self._moved)
        replicas.ask_offsets = self._ask_offsets

    def close(self) -> None:
        for fetcher in self._tasks.values():
            fetcher.close()
        for task in self._background:
            task.cancel()
        self._offsets.close()

    def _moved(self) -> None:
        """Metadata have changed: who follows whom?"""
        following: dict[int, set[PartitionId]] = defaultdict(set)
        for hosted in self._replicas:
            fetch = hosted.partition.next_fetch()
            if fetch is not None:
                following[fetch.leader].add(hosted.id)
        for leader in sorted(set(self._tasks) - set(following)):
            self._tasks.pop(leader).close()
        for leader, partitions in following.items():
            if leader not in self._tasks:
                self._tasks[leader] = _Fetcher(
                    self._environment, self._settings, self._metadata, self._replicas, leader
                )
            self._tasks[leader].follow(partitions)

    def _ask_offsets(self, hosted: Hosted, asked: AskLeaderOffsets) -> None:
        task = asyncio.get_running_loop().create_task(self._leader_offsets(hosted, asked))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _leader_offsets(self, hosted: Hosted, asked: AskLeaderOffsets) -> None:
        """Where the leader's log begins and ends. No answer: the next fetch brings the question up again."""
        hosted.fetch_after = self._clock.now() + self._settings.replica_fetch_backoff_ms * MILLISECOND
        ends = []
        try:
            for timestamp in (Timestamp.EARLIEST, Timestamp.LATEST):
                answer = await self._offsets.ask(
                    asked.leader, self._list_offsets(hosted, asked, timestamp), deadline=self._clock.now() + 2 * SECOND
                )
                ends.append(answer.topics[0].partitions[0])
        except Disconnected:
            return
        if all(end.error_code is ErrorCode.none for end in ends):
            earliest, latest = (end.offset for end in ends)
            self._replicas.carry_out(hosted, hosted.partition.leader_offsets(asked.leader_epoch, earliest, latest))

    def _list_offsets(self, hosted: Hosted, asked: AskLeaderOffsets, timestamp: int) -> list_offsets.ListOffsetsRequest:
        partition = list_offsets.ListOffsetsPartition(
            partition_index=i32(hosted.id.number),
            current_leader_epoch=i32(asked.leader_epoch),
            timestamp=i64(timestamp),
        )
        topic = list_offsets.ListOffsetsTopic(name=TopicName(hosted.topic), partitions=(partition,))
        return list_offsets.ListOffsetsRequest(
            replica_id=BrokerId(i32(self._settings.node_id)), isolation_level=i8(0), topics=(topic,)
        )


class _Fetcher:
    """Follows one leader."""

    def __init__(
        self, environment: Environment, settings: BrokerSettings, metadata: Metadata, replicas: Replicas, leader: int
    ) -> None:
        self._clock = environment.clock
        self._settings = settings
        self._metadata = metadata
        self._replicas = replicas
        self._leader = leader
        self._partitions: frozenset[PartitionId] = frozenset()
        self._peers = Peers(environment, metadata, f"broker-{settings.node_id}-fetcher")
        self._pause: asyncio.Event | None = None
        self._polling = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    def follow(self, partitions: set[PartitionId]) -> None:
        if partitions == self._partitions:
            return
        news = partitions - self._partitions
        self._partitions = frozenset(partitions)
        if self._polling and news:
            self._peers.drop(self._leader)
        if self._pause is not None:
            self._pause.set()

    def close(self) -> None:
        self._task.cancel()
        self._peers.close()

    async def _run(self) -> None:
        while True:
            asked = self._ask()
            if not asked or not await self._poll(asked):
                await self._wait()

    async def _wait(self) -> None:
        self._pause = waiting = asyncio.Event()
        timer = self._clock.call_at(
            self._clock.now() + self._settings.replica_fetch_backoff_ms * MILLISECOND, waiting.set
        )
        await waiting.wait()
        timer.cancel()
        self._pause = None

    def _ask(self) -> Asked:
        asked: Asked = {}
        now = self._clock.now()
        for id in sorted(self._partitions):
            hosted = self._replicas.by_id(id)
            fetch = None if hosted is None or hosted.fetch_after > now else hosted.partition.next_fetch()
            if hosted is not None and fetch is not None and fetch.leader == self._leader:
                asked[id] = hosted, fetch.request
        return asked

    async def _poll(self, asked: Asked) -> bool:
        """True: the leader answered, and the next poll may begin at once."""
        wait = self._settings.replica_fetch_wait_max_ms
        deadline = self._clock.now() + wait * MILLISECOND + _ANSWER_AFTER_WAIT
        partitions = self._partitions
        self._polling = True
        try:
            answer = await self._peers.ask(self._leader, self._request(asked), deadline=deadline)
        except Disconnected:
            return partitions != self._partitions
        finally:
            self._polling = False
        if answer.error_code is not ErrorCode.none:
            return False
        self._fetched(asked, answer)
        return True

    def _fetched(self, asked: Asked, answer: Any) -> None:
        now = self._clock.now()
        for topic in answer.responses:
            topic_id = topic.topic_id if hasattr(topic, "topic_id") else self._metadata.image.topic_ids.get(topic.topic)
            for partition in topic.partitions:
                known = asked.get(PartitionId(topic_id, partition.partition_index))  # type: ignore[arg-type]
                if known is None:
                    continue
                hosted, request = known
                if partition.error_code is not ErrorCode.none:
                    hosted.fetch_after = now + self._settings.replica_fetch_backoff_ms * MILLISECOND
                self._replicas.carry_out(hosted, hosted.partition.fetched(request, _answer(partition), now))

    def _request(self, asked: Asked) -> Any:
        version = fetch_version(self._metadata.image.metadata_version)
        form = request_module(Api.FETCH, version)
        names: dict[Any, str] = {}
        by_topic: dict[Any, list[Any]] = defaultdict(list)
        for id, (hosted, request) in asked.items():
            names[id.topic_id] = hosted.topic
            by_topic[id.topic_id].append(
                form.FetchPartition(
                    partition=id.number,
                    current_leader_epoch=request.leader_epoch,
                    fetch_offset=request.offset,
                    last_fetched_epoch=request.last_fetched_epoch,
                    log_start_offset=request.log_start_offset,
                    partition_max_bytes=self._settings.replica_fetch_max_bytes,
                )
            )
        settings = self._settings
        who: dict[str, Any] = {"replica_id": settings.node_id}
        if version >= _WITH_EPOCHS:
            who["replica_state"] = form.ReplicaState(
                replica_id=settings.node_id, replica_epoch=self._replicas.broker_epoch
            )
        return fitted(
            form.FetchRequest,
            max_wait=milliseconds(settings.replica_fetch_wait_max_ms),
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=tuple(
                fitted(form.FetchTopic, topic_id=topic_id, topic=names[topic_id], partitions=tuple(partitions))
                for topic_id, partitions in by_topic.items()
            ),
            forgotten_topics_data=(),
            **who,
        )


def _answer(partition: Any) -> FetchAnswer:
    diverging = partition.diverging_epoch
    return FetchAnswer(
        error=partition.error_code,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        records=partition.records or b"",
        diverging=EpochEnd(diverging.epoch, diverging.end_offset),
    )
