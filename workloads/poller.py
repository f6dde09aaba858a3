"""A consumer whose history can be checked for skips and for going backwards.

Kafka promises that one reader of a partition sees offsets grow without gaps, as long as its position was not moved. So
every move starts a new process: a rebalance, a position lost to truncation or retention, an error on a partition.
Within one process, offsets of a partition only grow.

* `assign`: the consumer takes its share of the partitions, from their beginning, and follows their tails. It commits nothing: brokers take
  commits from anybody while a group has no members, and then they would count as those of the group.
* `subscribe`: the group decides. Partitions go on where the group has committed, else at their beginning. A rebalance
  comes as callbacks in the middle of a poll: the poll under way ends as an empty one of the old process, each partition
  given is an `assign` op of the new process, and what the poll then returns belongs to a poll of the new process
  (librdkafka has thrown away what it had fetched for the old assignment).

An op per poll, also for an empty one: `count` 0 says that the consumer was alive and got nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from workloads import clients
from workloads.op import OpKind, Outcome, Phase
from workloads.outcomes import error_name
from workloads.settings import ReaderSettings
from workloads.values import recorded
from workloads.worker import Counts
from workloads.workload import ClientContext, Reads, TopicFacts

ASK_S = 2.0  # longest wait for committed offsets or watermarks
REREAD = 1000  # records read once more after a position was lost
LEAVE_S = 0.5  # longest wait for a coordinator that may be gone: nothing that counts is committed on leaving


def share(topics: Sequence[TopicFacts], index: int, of: int) -> list[tuple[str, int]]:
    """The partitions of reader `index` among `of`: every partition has a reader, and every reader has a partition.

    `share((TopicFacts(name="log", partitions=3),), 1, 2)` -> `[("log", 1)]`
    """
    partitions = [(topic.name, number) for topic in topics for number in range(topic.partitions)]
    return partitions[index::of] if index < len(partitions) else partitions[index % len(partitions) :][:1]


class Poller:
    """One consumer client of the `log` workload: `run()` reads until the context's stop event."""

    def __init__(self, context: ClientContext, settings: ReaderSettings, index: int) -> None:
        self.client = f"{context.client}.c{index}"
        self.counts = Counts()
        self._context, self._settings, self._recorder = context, settings, context.recorder
        self._number = context.index * settings.consumers + index  # among the consumers of all clients
        self._process = context.recorder.new_process()
        self._poll: int | None = None  # the op of the poll under way
        self._lost: set[tuple[str | None, int | None]] = set()  # partitions to be given a new position

    def run(self) -> None:
        config = clients.consumer_config(self._context.bootstrap, self.client, self._settings)
        consumer = clients.new_consumer(config if self._subscribes else config | {"enable.auto.commit": False})
        try:
            self._take_up(consumer)
            while not self._context.stop.is_set():
                self._poll_once(consumer)
        finally:
            clients.close(consumer, LEAVE_S)

    @property
    def _subscribes(self) -> bool:
        mode = self._settings.consumer_mode
        return mode == "subscribe" or (mode == "both" and self._number % 2 == 1)

    def _take_up(self, consumer: Consumer) -> None:
        mode, every = self._settings.consumer_mode, self._context.clients * self._settings.consumers
        if self._subscribes:
            for topic in self._context.topics:
                self._note(OpKind.SUBSCRIBE, topic.name, None)
            consumer.subscribe(
                [topic.name for topic in self._context.topics],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_revoke,
            )
            return
        index, of = (self._number, every) if mode == "assign" else (self._number // 2, (every + 1) // 2)
        self._assign(consumer, [TopicPartition(*p, OFFSET_BEGINNING) for p in share(self._context.topics, index, of)])

    def _assign(self, consumer: Consumer, positions: list[TopicPartition]) -> None:
        consumer.assign(positions)
        self._lost.clear()
        for position in positions:
            self._note(OpKind.ASSIGN, position.topic, position.partition)

    def _note(self, kind: OpKind, topic: str, partition: int | None) -> None:
        op = self._recorder.invoke(
            client=self.client, kind=kind, phase=Phase.MAIN, process=self._process, topic=topic, partition=partition
        )
        self._recorder.complete(op, Outcome.OK)

    def _begin_poll(self) -> None:
        self._poll = self._recorder.invoke(
            client=self.client, kind=OpKind.POLL, phase=Phase.MAIN, process=self._process
        )

    def _end_poll(self, outcome: Outcome, *, error: str | None = None, reads: Reads | None = None) -> None:
        if self._poll is not None:
            self._recorder.complete(self._poll, outcome, error=error, reads=reads)
            self._poll = None

    def _poll_once(self, consumer: Consumer) -> None:
        self._begin_poll()
        try:
            messages = consumer.consume(self._settings.poll_records, self._settings.poll_timeout_ms / 1000)
        except KafkaException as failure:
            self._end_poll(Outcome.FAIL, error=error_name(failure.args[0]))
            self._process = self._recorder.new_process()  # records may have gone with the exception
            return
        good, bad = sorted_out(messages)
        self._end_poll(
            Outcome.FAIL if bad and not good else Outcome.OK,
            error=error_name(bad[0][0]) if bad else None,
            reads=columns(good, self._settings.value_bytes),
        )
        self.counts.read += len(good)
        self._lost.update((message.topic(), message.partition()) for _, message in bad if message.topic() is not None)
        if self._lost:
            self._recover(consumer)

    def _recover(self, consumer: Consumer) -> None:
        """Go on with a new process: lost partitions a little before where they now end, the others where they were.

        Tried again after the next poll when no broker answers.
        """
        try:
            positions = consumer.position(consumer.assignment())
            for position in positions:
                if (position.topic, position.partition) in self._lost:
                    position.offset = self._resume_at(consumer, position)
                elif position.offset < 0:
                    position.offset = OFFSET_BEGINNING
        except KafkaException as failure:
            clients.LOG.info("%s: no new positions yet: %s", self.client, failure)
            return
        self._process = self._recorder.new_process()
        self._assign(consumer, positions)

    def _resume_at(self, consumer: Consumer, position: TopicPartition) -> int:
        low, high = consumer.get_watermark_offsets(
            TopicPartition(position.topic, position.partition), timeout=ASK_S, cached=False
        )
        return max(low, min(position.offset, high) - REREAD)

    def _on_assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        polling = self._renew()
        try:
            given = consumer.committed(given, timeout=ASK_S)
        except KafkaException as failure:
            clients.LOG.info("%s: committed offsets unknown: %s", self.client, failure)
        for position in given:
            if position.offset < 0:
                position.offset = OFFSET_BEGINNING
        self._assign(consumer, given)
        if polling:
            self._begin_poll()

    def _on_revoke(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        if self._renew():
            self._begin_poll()

    def _renew(self) -> bool:
        """A poll under way ends here, with nothing: what follows belongs to a new process. False when closing."""
        polling = self._poll is not None
        self._end_poll(Outcome.OK)
        self._process = self._recorder.new_process()
        return polling


def sorted_out(messages: Sequence[Message]) -> tuple[list[Message], list[tuple[KafkaError, Message]]]:
    """What a poll returned: the records, and the errors that came among them (with the partition they are about)."""
    good: list[Message] = []
    bad: list[tuple[KafkaError, Message]] = []
    for message in messages:
        error = message.error()
        if error is None:
            good.append(message)
        else:
            bad.append((error, message))
    return good, bad


def columns(messages: Sequence[Message], value_bytes: int) -> Reads | None:
    """Records as the recorder takes them; None for no records."""
    if not messages:
        return None
    return Reads(
        topics=[cast(str, message.topic()) for message in messages],
        partitions=[cast(int, message.partition()) for message in messages],
        offsets=[cast(int, message.offset()) for message in messages],
        values=[recorded(message.value(), value_bytes) for message in messages],
        leader_epochs=[message.leader_epoch() for message in messages],
        timestamps_ms=[_timestamp(message.timestamp()) for message in messages],
    )


def _timestamp(told: tuple[int, int]) -> int | None:
    kind, milliseconds = told
    return milliseconds if kind else None
