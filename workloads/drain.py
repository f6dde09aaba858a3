"""The final read: what is in the log after everything was healed, from the log's start to its end.

Every partition gets a fresh consumer position and the same three steps, until they agree or the time is up:

1. ask where the log starts and ends (ListOffsets), again and again until a leader answers;
2. read from the start to that end;
3. ask once more. If the end has moved (a send whose outcome was unknown landed late), read on; if it moved back, the
   log was truncated under the reader, and it starts over with a new process.

The last answer becomes the partition's `bounds` row: `read_to >= log_end` says that nothing between `log_start` and
`log_end` was left out. A partition that cannot be read to its end in time gets a row that says so (`error`, and
`read_to` short of `log_end`, or no offsets at all when nobody answered). One that the cluster says does not exist, for
`GONE_AFTER_S` seconds on end, gets UNKNOWN_TOPIC_OR_PARTITION.

`log_end` is what a consumer may read up to: the high watermark, or the last stable offset with `isolation:
read_committed`.
"""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from workloads import clients
from workloads.op import OpKind, Outcome, Phase
from workloads.outcomes import error_name
from workloads.poller import columns, sorted_out
from workloads.settings import Settings
from workloads.worker import Actor, Counts, run_actors
from workloads.workload import ClientContext

ASK_S = 2.0  # one ListOffsets
LAST_ASK_S = 0.3  # after the deadline: every partition is asked for once at least
AGAIN_S = 0.2  # before asking again
GONE_AFTER_S = 5.0
GONE = "UNKNOWN_TOPIC_OR_PARTITION"
_GONE_CODES = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


def drain_partitions(context: ClientContext, settings: Settings, deadline_s: float) -> None:
    """Read this client's share: every `clients`-th partition, `drain_readers` at a time."""
    partitions = [(topic.name, number) for topic in context.topics for number in range(topic.partitions)]
    waiting: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
    mine = partitions[context.index :: context.clients]
    for partition in mine:
        waiting.put(partition)
    deadline = time.monotonic() + deadline_s
    readers: list[Actor] = [
        Drainer(context, settings, index, waiting, deadline) for index in range(min(settings.drain_readers, len(mine)))
    ]
    run_actors(readers, context.stop, context.progress)


@dataclass
class _Span:
    """What is known of one partition while it is read."""

    topic: str
    partition: int
    log_start: int | None = None
    log_end: int | None = None
    read_to: int | None = None
    error: str | None = None

    @property
    def at_end(self) -> bool:
        return self.log_end is not None and self.read_to == self.log_end


class Drainer:
    """One reader of the final read: takes partitions from `waiting` until there are none left."""

    def __init__(
        self,
        context: ClientContext,
        settings: Settings,
        index: int,
        waiting: queue.SimpleQueue[tuple[str, int]],
        deadline: float,
    ) -> None:
        self.client = f"{context.client}.d{index}"
        self.counts = Counts()
        self._settings, self._recorder, self._bootstrap = settings, context.recorder, context.bootstrap
        self._stop, self._waiting, self._deadline = context.stop, waiting, deadline
        self._process = context.recorder.new_process()

    def run(self) -> None:
        consumer = clients.new_consumer(clients.drain_config(self._bootstrap, self.client, self._settings))
        try:
            while True:
                try:
                    topic, partition = self._waiting.get_nowait()
                except queue.Empty:
                    return
                self._drain(consumer, _Span(topic, partition))
        finally:
            clients.close(consumer)

    def _drain(self, consumer: Consumer, span: _Span) -> None:
        while True:
            op = self._invoke(OpKind.BOUNDS, span)
            self._ask(consumer, span)
            self._place(span)
            if span.error or span.at_end or self._out_of_time():
                break
            self._recorder.complete(op, Outcome.OK)
            self._read(consumer, span)
        if not span.error and not span.at_end:
            span.error = "_TIMED_OUT"
        self._recorder.bounds(
            op,
            phase=Phase.FINAL,
            topic=span.topic,
            partition=span.partition,
            log_start=span.log_start,
            log_end=span.log_end,
            read_to=span.read_to,
            error=span.error,
        )
        self._recorder.complete(op, Outcome.FAIL if span.error else Outcome.OK, error=span.error)

    def _ask(self, consumer: Consumer, span: _Span) -> None:
        """Log start and end into `span`, or an error: that nobody answered in time, or that the partition is gone. Asks
        once at least."""
        missing_since: float | None = None
        while True:
            error = "_TIMED_OUT"
            try:
                answer = consumer.get_watermark_offsets(
                    TopicPartition(span.topic, span.partition), timeout=self._patience_s(), cached=False
                )
                if answer is not None:
                    span.log_start, span.log_end = answer
                    return
            except KafkaException as failure:
                error = error_name(failure.args[0])
            gone = False
            if not self._out_of_time():
                missing = is_missing(consumer, span.topic, span.partition, self._patience_s())
                missing_since = (missing_since or time.monotonic()) if missing else None
                gone = missing_since is not None and time.monotonic() - missing_since >= GONE_AFTER_S
            if gone or self._out_of_time():
                span.error, span.log_start, span.log_end = GONE if gone else error, None, None
                return
            self._stop.wait(AGAIN_S)

    def _place(self, span: _Span) -> None:
        """Where to read on: at the start the first time and after a truncation, at the log start if that has overtaken
        the reader."""
        if span.log_start is None or span.log_end is None:
            return
        if span.read_to is None or span.read_to > span.log_end or span.read_to < span.log_start:
            self._process = self._recorder.new_process()
            span.read_to = span.log_start

    def _read(self, consumer: Consumer, span: _Span) -> None:
        """Poll from `read_to` to `log_end`. Stops early when the time is up, or at an error, for the next `_ask` to see
        what became of the log."""
        assert span.read_to is not None
        assert span.log_end is not None
        op = self._invoke(OpKind.ASSIGN, span)
        consumer.assign([TopicPartition(span.topic, span.partition, span.read_to)])
        self._recorder.complete(op, Outcome.OK)
        errors: list[KafkaError] = []
        while span.read_to < span.log_end and not errors and not self._out_of_time():
            op = self._invoke(OpKind.POLL, span)
            try:
                messages = consumer.consume(self._settings.poll_records, self._settings.poll_timeout_ms / 1000)
            except KafkaException as failure:
                messages, errors = [], [failure.args[0]]
            good, bad = sorted_out([message for message in messages if _is_about(message, span)])
            ends = [message.offset() or 0 for error, message in bad if error.code() == KafkaError._PARTITION_EOF]
            errors += [error for error, _ in bad if error.code() != KafkaError._PARTITION_EOF]
            self._recorder.complete(
                op,
                Outcome.FAIL if errors and not good else Outcome.OK,
                error=error_name(errors[0]) if errors else None,
                reads=columns(good, self._settings.value_bytes),
            )
            self.counts.read += len(good)
            span.read_to = max([span.read_to, *ends, *(cast(int, message.offset()) + 1 for message in good[-1:])])
        consumer.unassign()
        if errors:
            self._stop.wait(AGAIN_S)

    def _invoke(self, kind: OpKind, span: _Span) -> int:
        return self._recorder.invoke(
            client=self.client,
            kind=kind,
            phase=Phase.FINAL,
            process=self._process,
            topic=span.topic,
            partition=span.partition,
        )

    def _patience_s(self) -> float:
        """For one question: what is left, but enough for an answer even when nothing is left."""
        return min(ASK_S, max(LAST_ASK_S, self._deadline - time.monotonic()))

    def _out_of_time(self) -> bool:
        return self._stop.is_set() or time.monotonic() >= self._deadline


def is_missing(consumer: Consumer, topic: str, partition: int, timeout_s: float) -> bool:
    """Whether a broker says that there is no such topic or partition. One broker's word may be stale: ask for a
    while."""
    try:
        answer = consumer.list_topics(topic, timeout=timeout_s).topics.get(topic)
    except KafkaException:
        return False
    if answer is None or answer.error is not None:
        return answer is None or answer.error.code() in _GONE_CODES
    return partition not in answer.partitions


def _is_about(message: Message, span: _Span) -> bool:
    """Errors of the client as a whole name no partition; what was fetched for an earlier partition may still come."""
    return message.topic() is None or (message.topic(), message.partition()) == (span.topic, span.partition)
