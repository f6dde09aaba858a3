"""A producer of the simulated `log` workload: one partition, one batch in flight, retried until it is known what became of it.

As workloads/sender.py records it: each record is an op of its own, written before it is sent; an answer that does not say whether the
record is there (no answer, a timeout, a leader that stepped down while it waited) leaves the op unknown unless a retry finds out. An
idempotent producer's retry carries the same sequence, so it cannot be stored twice, and a sequence that the leader refuses to go on from
ends the producer: a new one, with a new process, takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import ProducerId, TopicName
from kio.static.primitive import Records, i16, i32, i64

from harness.simulated.batches import NOBODY, Writer, batch
from harness.simulated.client import REQUEST_TIMEOUT, Client
from harness.simulated.recording import Rows
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.server.schema import milliseconds
from workloads.op import Outcome

REFUSED_FOR_SURE: Final = frozenset(  # the leader says so before it appends
    {
        ErrorCode.not_enough_replicas,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.message_too_large,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
    }
)
ENDS_PRODUCER: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
    }
)


@dataclass(frozen=True, kw_only=True)
class ProducerSettings:
    acks: int = -1
    idempotent: bool = True
    delivery_timeout: int = 20 * SECOND
    largest_batch: int = 4
    pause: int = 80 * MILLISECOND  # between batches, on average


class Producer:
    """Sends to one partition until its process ends."""

    def __init__(self, client: Client, rows: Rows, topic: str, partition: int, settings: ProducerSettings) -> None:
        self._client, self._rows, self._settings = client, rows, settings
        self._topic, self._partition = self._place = topic, partition
        self._process = rows.new_process()
        self._writer = NOBODY
        self._in_producer = 0  # sequence of the next record, as the leader counts
        self._sequence = 0  # as the history counts
        self._random = client.environment.random

    async def run(self, until: int) -> None:
        """until: ns; no batch is begun after it."""
        while self._client.now < until:
            if self._settings.idempotent and self._writer is NOBODY and not await self._begin(until):
                return
            await self._send(self._random.randint(1, self._settings.largest_batch))
            await self._client.pause(self._random.randint(1, 2 * self._settings.pause))

    async def _begin(self, until: int) -> bool:
        """A producer id. False: nobody gave one in time."""
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout=milliseconds(60_000),
            producer_id=ProducerId(i64(-1)),
            producer_epoch=i16(-1),
        )
        while (asked := await self._client.ask_leader(self._place, request, deadline=until)) is not None:
            answer = asked.response
            if answer is None:
                continue
            if answer.error_code is ErrorCode.none:
                self._writer = Writer(int(answer.producer_id), int(answer.producer_epoch))
                self._in_producer = 0
                return True
            await self._client.pause()
        return False

    async def _send(self, count: int) -> None:
        values = [f"{self._topic}/{self._partition}/{self._process}/{self._sequence + place}" for place in range(count)]
        ops = [
            self._rows.invoke_send(
                client=self._client.client_id,
                process=self._process,
                topic=self._topic,
                partition=self._partition,
                sequence=self._sequence + place,
                value=value,
            )
            for place, value in enumerate(values)
        ]
        self._sequence += count
        base_sequence = self._in_producer if self._settings.idempotent else -1
        content = batch(
            values, self._writer, base_sequence=base_sequence, timestamp=self._client.environment.clock.wall()
        )
        self._in_producer += count
        await self._until_known(ops, content)

    async def _until_known(self, ops: list[int], content: bytes) -> None:
        deadline = self._client.now + self._settings.delivery_timeout
        open_question = False  # may an attempt have left something behind?
        error = "_TIMED_OUT"
        request = self._request(content)
        while (
            asked := await self._client.ask_leader(self._place, request, deadline=deadline, timeout=2 * REQUEST_TIMEOUT)
        ) is not None:
            if asked.response is None:
                open_question = True
                await self._client.pause()
                continue
            answer = _only(asked.response)
            code, error = answer.error_code, answer.error_code.name.upper()
            if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
                self._acknowledge(ops, asked.leader, int(answer.base_offset))
                return
            open_question = open_question or code not in REFUSED_FOR_SURE
            if code in ENDS_PRODUCER:
                break
            self._client.forget_leader(*self._place)
            await self._client.pause()
        self._give_up(ops, error, sure=not open_question)

    def _acknowledge(self, ops: list[int], leader: int, base_offset: int) -> None:
        for place, op in enumerate(ops):
            offset = base_offset + place if base_offset >= 0 else None
            self._rows.complete(op, Outcome.OK, broker=leader, offset=offset)

    def _give_up(self, ops: list[int], error: str, *, sure: bool) -> None:
        """What nobody knows stays open; the sequence has a gap now, so the next batch needs another producer."""
        for op in ops:
            self._rows.complete(op, Outcome.FAIL if sure else Outcome.INFO, error=error)
        if not sure:
            self._process = self._rows.new_process()
        self._writer = NOBODY

    def _request(self, content: bytes) -> ProduceRequest:
        data = PartitionProduceData(index=i32(self._partition), records=Records(content))
        return ProduceRequest(
            transactional_id=None,
            acks=i16(self._settings.acks),
            timeout=milliseconds(2_000),
            topic_data=(TopicProduceData(name=TopicName(self._topic), partition_data=(data,)),),
        )


def _only(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition
