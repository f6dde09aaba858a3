"""A transactional id and its users in the simulated `transactions` workload, recorded as workloads/transactional.py records them.

    INIT (InitProducerId); then again and again: BEGIN, sends to some partitions, each added to the transaction first, COMMIT or ABORT

Now and then another user takes the id over while a transaction is open; the first goes on, as a zombie does, and has to be refused. A user
that does not know what became of a request makes way for the next one, whose epoch ends whatever the request may still do: before
transaction.version 2 a request that comes late counts for the producer's next transaction (KIP-890), which real clients of that age risk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kio.schema.add_offsets_to_txn.v3.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kio.schema.end_txn.v3.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, i16, i32, i64

from harness.simulated.asking import DOUBTFUL, LATER, Answer, ask_coordinator
from harness.simulated.batches import Writer, batch
from harness.simulated.client import GROUP, REQUEST_TIMEOUT, TRANSACTION, Client
from harness.simulated.group_requests import Place, Standing, error_of_topics, transactional_commit
from harness.simulated.recording import Rows
from nodes.reference.coordinator.partitioning import GROUPS_TOPIC
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.server.schema import milliseconds
from workloads.op import OpKind, Outcome, Phase


@dataclass(frozen=True, kw_only=True)
class TransactionSettings:
    patience: int = 15 * SECOND
    timeout: int = 60 * SECOND  # transaction.timeout.ms
    partitions: int = 2  # of a transaction, at most
    records: int = 3  # for each, at most
    aborts: float = 0.15
    zombies: float = 0.1
    pause: int = 60 * MILLISECOND


class Transactor:
    """Uses one transactional id until its process ends. `name`: "t0-0"; its users are the clients "t0-0.w1.1", "t0-0.w1.2", ..."""

    def __init__(
        self, client: Client, rows: Rows, name: str, places: Sequence[Place], settings: TransactionSettings
    ) -> None:
        self._client, self._rows, self._settings = client, rows, settings
        self._name, self._places = name, list(places)
        self._users = 0
        self._random = client.environment.random

    async def run(self, until: int) -> None:
        user: User | None = None
        while self._client.now < until:
            user = user or await self._next_user()
            if user is not None:
                user = await self._transact(user)
            await self._client.pause(self._random.randint(1, 2 * self._settings.pause))

    async def _next_user(self) -> User | None:
        self._users += 1
        who = f"{self._name}.{self._client.client_id}.{self._users}"
        user = User(self._client, self._rows, who, self._name, self._settings)
        return user if await user.take_over() else None

    async def _transact(self, user: User) -> User | None:
        """Who has the id afterwards; None: nobody, or nobody knows."""
        user.begin()
        heir: User | None = None
        count = min(len(self._places), self._random.randint(1, self._settings.partitions))
        for number, place in enumerate(self._random.sample(self._places, count)):
            if number == 1 and self._random.random() < self._settings.zombies:
                heir = await self._next_user()  # and the first does not know
            await user.send(place, self._random.randint(1, self._settings.records))
        commit = not user.doubts and self._random.random() >= self._settings.aborts
        await user.end(commit=commit)
        return heir if heir is not None or user.doubts else user


class User:
    def __init__(self, client: Client, rows: Rows, who: str, name: str, settings: TransactionSettings) -> None:
        self._client, self._rows, self._who, self._name, self._settings = client, rows, who, name, settings
        self._writer = Writer()
        self._process = rows.new_process()
        self._in_history: dict[Place, int] = {}  # next sequence
        self._in_partition: dict[Place, int] = {}
        self._added: set[Place] = set()
        self._transaction: int | None = None
        self.doubts = False  # something was refused, or nobody knows: this producer is of no use after this transaction

    async def take_over(self) -> bool:
        op = self._invoke(OpKind.INIT)
        request = InitProducerIdRequest(
            transactional_id=TransactionalId(self._name),
            transaction_timeout=milliseconds(self._settings.timeout // MILLISECOND),
            producer_id=ProducerId(i64(-1)),
            producer_epoch=i16(-1),
        )
        answer = await self._ask_coordinator(request, lambda response: response.error_code)
        if answer.done:
            self._writer = Writer(int(answer.response.producer_id), int(answer.response.producer_epoch), True)
        self._rows.complete(op, answer.outcome, error=answer.name)
        return answer.done

    def begin(self) -> int:
        """The number of the transaction."""
        self._transaction = self._invoke(OpKind.BEGIN)
        self._rows.complete(self._transaction, Outcome.OK)
        self._added.clear()
        return self._transaction

    async def send(self, place: Place, count: int) -> None:
        topic, partition = place
        sequence = self._in_history.get(place, 0)
        self._in_history[place] = sequence + count
        values = [f"{topic}/{partition}/{self._process}/{sequence + number}" for number in range(count)]
        ops = [
            self._rows.invoke_send(
                client=self._who,
                process=self._process,
                topic=topic,
                partition=partition,
                sequence=sequence + number,
                value=value,
                transaction=self._transaction,
            )
            for number, value in enumerate(values)
        ]
        answer = await self._store(place, values)
        for number, op in enumerate(ops):
            base = int(answer.response.base_offset) if answer.done else -1
            offset = base + number if base >= 0 else None
            self._rows.complete(op, answer.outcome, error=answer.name, offset=offset)

    def does_not_wait(self) -> None:
        """For the answer to what it has asked: what it does from here on is another process's, in the sense of workloads/op.py."""
        self._process = self._rows.new_process()

    async def end(self, *, commit: bool) -> None:
        op = self._invoke(OpKind.COMMIT if commit else OpKind.ABORT, self._transaction)
        answer = Answer(ErrorCode.none, False)
        if self._added:  # a transaction without partitions is nothing to the coordinator
            request = EndTxnRequest(
                transactional_id=TransactionalId(self._name),
                producer_id=ProducerId(i64(self._writer.producer_id)),
                producer_epoch=i16(self._writer.epoch),
                committed=commit,
            )
            answer = await self._ask_coordinator(request, lambda response: response.error_code)
        self._rows.complete(op, answer.outcome, error=answer.name)
        self.doubts = self.doubts or answer.open or not answer.done

    async def send_offsets(self, who: Standing, positions: Mapping[Place, int]) -> Answer:
        """AddOffsetsToTxn, and TxnOffsetCommit to the group's coordinator. Any doubt ends this producer."""
        request = AddOffsetsToTxnRequest(
            transactional_id=TransactionalId(self._name),
            producer_id=ProducerId(i64(self._writer.producer_id)),
            producer_epoch=i16(self._writer.epoch),
            group_id=GroupId(who.group),
        )
        answer = await self._ask_coordinator(request, lambda response: response.error_code)
        if answer.done:
            self._added.add((GROUPS_TOPIC, 0))
            answer = await ask_coordinator(
                self._client,
                who.group,
                GROUP,
                transactional_commit(who, positions, self._name, self._writer),
                error_of_topics,
                patience=self._settings.patience,
                later=LATER - {ErrorCode.not_coordinator, ErrorCode.coordinator_not_available},
                doubtful=DOUBTFUL | {ErrorCode.not_coordinator, ErrorCode.coordinator_not_available},
            )
        self.doubts = self.doubts or answer.open or not answer.done
        return answer

    async def _store(self, place: Place, values: list[str]) -> Answer:
        """AddPartitionsToTxn if need be, and Produce. Any doubt ends this producer."""
        topic, partition = place
        if place not in self._added:
            added = await self._add(place)
            if not added.done:
                self.doubts = True
                return Answer(added.error or ErrorCode.request_timed_out, False)  # the records were never sent
            self._added.add(place)
        base_sequence = self._in_partition.get(place, 0)
        self._in_partition[place] = base_sequence + len(values)
        timestamp = self._client.environment.clock.wall()
        content = batch(values, self._writer, base_sequence=base_sequence, timestamp=timestamp)
        data = PartitionProduceData(index=i32(partition), records=Records(content))
        request = ProduceRequest(
            transactional_id=TransactionalId(self._name),
            acks=i16(-1),
            timeout=milliseconds(2_000),
            topic_data=(TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
        )
        answer = await self._ask_leader(place, request)
        self.doubts = self.doubts or answer.open or not answer.done
        return answer

    async def _add(self, place: Place) -> Answer:
        topic, partition = place
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TransactionalId(self._name),
            v3_and_below_producer_id=ProducerId(i64(self._writer.producer_id)),
            v3_and_below_producer_epoch=i16(self._writer.epoch),
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=TopicName(topic), partitions=(i32(partition),)),),
        )
        return await self._ask_coordinator(request, _added)

    async def _ask_coordinator(self, request: object, error_of: Any) -> Answer:
        return await ask_coordinator(
            self._client, self._name, TRANSACTION, request, error_of, patience=self._settings.patience, doubtful=()
        )

    async def _ask_leader(self, place: Place, request: ProduceRequest) -> Answer:
        deadline, unanswered = self._client.now + self._settings.patience, False
        timeout = 2 * REQUEST_TIMEOUT
        while (asked := await self._client.ask_leader(place, request, deadline=deadline, timeout=timeout)) is not None:
            if asked.response is None:
                unanswered = True
                continue
            ((stored,),) = (topic.partition_responses for topic in asked.response.responses)
            error = stored.error_code
            if error is ErrorCode.duplicate_sequence_number:
                return Answer(ErrorCode.none, unanswered, stored)
            if error in (ErrorCode.not_leader_or_follower, ErrorCode.request_timed_out):
                unanswered = True  # it may be in the log
            elif error is ErrorCode.not_enough_replicas_after_append:
                unanswered = True
            elif error not in LATER:
                return Answer(error, unanswered, stored)
            self._client.forget_leader(*place)
            await self._client.pause()
        return Answer(None, unanswered)

    def _invoke(self, kind: OpKind, transaction: int | None = None) -> int:
        return self._rows.invoke(
            client=self._who, kind=kind, phase=Phase.MAIN, process=self._process, transaction=transaction
        )


def _added(response: Any) -> ErrorCode:
    ((result,),) = (topic.results_by_partition for topic in response.results_by_topic_v3_and_below)
    error: ErrorCode = result.partition_error_code
    return error
