"""A controller for tests of brokers: one voter with a real log, and as few rules as a broker needs to get on. Not a model of Kafka's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.reference.broker.metadata import Metadata
from nodes.reference.controller.messages import BrokerState
from nodes.reference.environment import MILLISECOND, Address, Caller, Environment
from nodes.reference.metadata.entities import PartitionId
from nodes.reference.metadata.features import LATEST, METADATA_VERSION
from nodes.reference.metadata.records import encode
from nodes.reference.metadata.schema import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    Endpoint,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from nodes.reference.raft.log import Voters
from nodes.reference.raft.replica import Replica
from nodes.reference.raft.roles import RaftConfig
from nodes.reference.server.handlers import Api, Handlers
from nodes.reference.server.schema import NO_TIME, fitted, response_module

CLUSTER = "a-cluster"
CONTROLLER = 100


@dataclass
class ScriptedController:
    """`sessions`: when each broker was heard last. Brokers that are silent for `session_ms` are fenced by `tick`."""

    environment: Environment
    address: Address
    session_ms: int = 3_000
    register_takes: int = 0  # ns
    replica: Replica = field(init=False)
    metadata: Metadata = field(init=False)

    def __post_init__(self) -> None:
        self.metadata = Metadata()
        config = RaftConfig(cluster_id=CLUSTER, voters=Voters((CONTROLLER,)), election_timeout=50 * MILLISECOND)
        self.replica = Replica(self.environment, CONTROLLER, config, {}, self.metadata)
        self.sessions: dict[int, int] = {}
        self.handlers = Handlers(quorum=self.replica.serve)
        self.handlers.add(Api.BROKER_REGISTRATION, 0, 1, self.register)
        self.handlers.add(1050, 0, 0, self.heartbeat)
        self.handlers.add(Api.CREATE_TOPICS, 2, 7, self.create_topics)
        self.handlers.add(Api.DELETE_TOPICS, 1, 6, self.delete_topics)
        self.handlers.add(Api.ALTER_PARTITION, 2, 3, self.alter_partition)
        self.handlers.add(Api.ALLOCATE_PRODUCER_IDS, 0, 0, self.allocate)

    async def run(self) -> None:
        listening = await self.environment.network.listen(self.address, self.handlers)
        self.address = listening.address
        try:
            await asyncio.gather(self.replica.run(), self.watch())
        finally:
            listening.close()

    async def watch(self) -> None:
        while True:
            await self.environment.clock.sleep_until(self.now() + 50 * MILLISECOND)
            for broker, heard in tuple(self.sessions.items()):
                if self.now() - heard > self.session_ms * MILLISECOND:
                    del self.sessions[broker]
                    self.fence(broker)

    def now(self) -> int:
        return self.environment.clock.now()

    @property
    def image(self) -> Any:
        return self.metadata.image

    def write(self, *records: Record) -> int:
        return self.replica.append(self.replica.raft.epoch, tuple(encode(record) for record in records))

    async def committed(self, offset: int) -> None:
        while self.metadata.offset < offset:
            await self.environment.clock.sleep_until(self.now() + MILLISECOND)

    def fence(self, broker: int) -> None:
        self.write(
            BrokerRegistrationChangeRecord(broker_id=broker, broker_epoch=self.image.brokers[broker].epoch, fenced=1)
        )
        self.leave(broker)

    def leave(self, broker: int) -> None:
        """Out of every ISR with more members, and no leader any more."""
        for id, partition in self.image.partitions():
            if broker in partition.isr or partition.leader == broker:
                isr = tuple(each for each in partition.isr if each != broker) or partition.isr
                others = [each for each in isr if each != broker]
                leader = partition.leader if partition.leader != broker else (others[0] if others else -1)
                self.write(PartitionChangeRecord(partition_id=id.number, topic_id=id.topic_id, isr=isr, leader=leader))

    async def register(self, caller: Caller, request: Any) -> object:
        await self.environment.clock.sleep_until(self.now() + self.register_takes)
        if not self.image.features:
            await self.committed(self.write(FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST)))
        if request.broker_id in self.image.brokers:
            self.leave(request.broker_id)
        epoch = self.replica.raft.log.end_offset
        self.write(
            RegisterBrokerRecord(
                broker_id=request.broker_id,
                incarnation_id=request.incarnation_id,
                broker_epoch=epoch,
                end_points=tuple(
                    Endpoint(name=each.name, host=each.host, port=each.port) for each in request.listeners
                ),
                features=(),
                rack=request.rack,
            )
        )
        await self.committed(epoch)
        return fitted(
            response_module(request).BrokerRegistrationResponse,
            throttle_time=NO_TIME,
            error_code=ErrorCode.none,
            broker_epoch=epoch,
        )

    async def heartbeat(self, caller: Caller, request: Any) -> object:
        known = self.image.brokers.get(request.broker_id)
        state, error = BrokerState(request.target_state), ErrorCode.none
        if known is None or known.epoch != request.broker_epoch:
            error = ErrorCode.stale_broker_epoch
        else:
            self.sessions[known.id] = self.now()
            if state is BrokerState.SHUTDOWN:
                self.leave(known.id)
                offset = self.replica.raft.log.end_offset - 1
                await self.committed(offset)
            elif request.cur_metadata_offset <= known.epoch or state is BrokerState.FENCED:
                state = BrokerState.FENCED
            elif known.fenced:
                await self.committed(
                    self.write(BrokerRegistrationChangeRecord(broker_id=known.id, broker_epoch=known.epoch, fenced=-1))
                )
                self.lead_again()
        return response_module(request).BrokerHeartbeatResponse(
            error_code=error,
            active_controller_id=CONTROLLER,
            next_state=state,
            broker_epoch=request.broker_epoch,
            lease_end_time_ms=request.lease_start_time_ms + self.session_ms * 3 // 2,
        )

    def lead_again(self) -> None:
        for id, partition in self.image.partitions():
            alive = [each for each in partition.isr if self.image.active(each)]
            if partition.leader == -1 and alive:
                self.write(PartitionChangeRecord(partition_id=id.number, topic_id=id.topic_id, leader=alive[0]))

    async def create_topics(self, caller: Caller, request: Any) -> object:
        reply, results = response_module(request), []
        for topic in request.topics:
            error = ErrorCode.topic_already_exists if self.image.topic(topic.name) else ErrorCode.none
            if error is ErrorCode.none:
                await self.committed(self.create(topic))
            results.append(
                fitted(
                    reply.CreatableTopicResult,
                    name=topic.name,
                    topic_id=self.image.topic_ids[topic.name],
                    error_code=error,
                    error_message=None,
                    configs=(),
                )
            )
        return fitted(reply.CreateTopicsResponse, throttle_time=NO_TIME, topics=tuple(results))

    def create(self, topic: Any) -> int:
        id = UUID(bytes=self.environment.random.randbytes(16))
        alive = sorted(each for each in self.image.brokers if self.image.active(each))
        placed = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments}
        if not placed:
            count, size = max(topic.num_partitions, 1), max(topic.replication_factor, 1)
            placed = {n: tuple(alive[(n + r) % len(alive)] for r in range(size)) for n in range(count)}
        return self.write(
            TopicRecord(name=topic.name, topic_id=id),
            *(
                ConfigRecord(resource_type=2, resource_name=topic.name, name=each.name, value=each.value)
                for each in topic.configs
            ),
            *(
                PartitionRecord(
                    partition_id=number,
                    topic_id=id,
                    replicas=replicas,
                    isr=replicas,
                    leader=replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                )
                for number, replicas in placed.items()
            ),
        )

    async def delete_topics(self, caller: Caller, request: Any) -> object:
        reply, results = response_module(request), []
        names = [topic.name for topic in request.topics] if hasattr(request, "topics") else request.topic_names
        for name in names:
            id = self.image.topic_ids[name]
            await self.committed(self.write(RemoveTopicRecord(topic_id=id)))
            results.append(fitted(reply.DeletableTopicResult, name=name, topic_id=id, error_code=ErrorCode.none))
        return fitted(reply.DeleteTopicsResponse, throttle_time=NO_TIME, responses=tuple(results))

    async def alter_partition(self, caller: Caller, request: Any) -> object:
        reply, topics = response_module(request), []
        for topic in request.topics:
            answers = []
            for asked in topic.partitions:
                id = PartitionId(topic.topic_id, asked.partition_index)
                known = self.image.partition(id)
                stale = asked.partition_epoch != known.partition_epoch or asked.leader_epoch != known.leader_epoch
                if not stale:
                    isr = tuple(each.broker_id for each in asked.new_isr_with_epochs)
                    await self.committed(
                        self.write(PartitionChangeRecord(partition_id=id.number, topic_id=id.topic_id, isr=isr))
                    )
                    known = self.image.partition(id)
                answers.append(
                    reply.PartitionData(
                        partition_index=id.number,
                        error_code=ErrorCode.invalid_update_version if stale else ErrorCode.none,
                        leader_id=known.leader,
                        leader_epoch=known.leader_epoch,
                        isr=known.isr,
                        partition_epoch=known.partition_epoch,
                    )
                )
            topics.append(reply.TopicData(topic_id=topic.topic_id, partitions=tuple(answers)))
        return reply.AlterPartitionResponse(throttle_time=NO_TIME, error_code=ErrorCode.none, topics=tuple(topics))

    async def allocate(self, caller: Caller, request: Any) -> object:
        start = self.image.next_producer_id
        record = ProducerIdsRecord(
            broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=start + 1000
        )
        await self.committed(self.write(record))
        reply = response_module(request)
        return reply.AllocateProducerIdsResponse(
            throttle_time=NO_TIME, error_code=ErrorCode.none, producer_id_start=start, producer_id_len=1000
        )
