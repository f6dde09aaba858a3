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

What a client cannot make sense of (a batch whose checksum is wrong) it never gets past. After `STUCK_TRIES` times in a row at
one offset the reader steps over that offset, as a user would have to (`seek`), with a new process; and so on, one by one, so that
nothing readable is left out. The polls that failed are in the history; what was acknowledged there was not read back.

`log_end` is the high watermark. With `isolation: read_committed` a consumer may read only up to the last stable offset,
which stands still while a transaction is open: it is asked for too (`stable_end`), and the reader waits `stable_wait_ms`
for it to reach the high watermark. What stays behind it then could not be read by anybody.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from workloads import clients
from workloads.op import OpKind, Outcome, Phase
from workloads.outcomes import error_name
from workloads.poller import columns, sorted_out
from workloads.settings import ClientSettings
from workloads.worker import Actor, Counts, run_actors
from workloads.workload import ClientContext

LOG = logging.getLogger(__name__)
ASK_S = 2.0  # one ListOffsets
LAST_ASK_S = 0.3  # after the deadline: every partition is asked for once at least
AGAIN_S = 0.2  # before asking again
GONE_AFTER_S = 5.0
STUCK_TRIES = 3  # of one offset that gives nothing but what no client can read
_UNREADABLE = {KafkaError._BAD_MSG, KafkaError._NOT_IMPLEMENTED}  # librdkafka's, of a checksum and of a batch's version
GONE = "UNKNOWN_TOPIC_OR_PARTITION"
_GONE_CODES = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


def drain_partitions(context: ClientContext, settings: ClientSettings, deadline_s: float) -> None:
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
    stable_end: int | None = None
    read_to: int | None = None
    error: str | None = None
    blocked_since: float | None = None
    stuck: int = 0  # reads in a row from `read_to` that met something unreadable at once
    stepped_over: int = 0  # offsets

    @property
    def readable_to(self) -> int | None:
        return self.log_end if self.stable_end is None else self.stable_end

    @property
    def read_whole(self) -> bool:
        """All that can be read was read."""
        return self.readable_to is not None and self.read_to == self.readable_to

    @property
    def at_end(self) -> bool:
        return self.read_whole and self.read_to == self.log_end


class Drainer:
    """One reader of the final read: takes partitions from `waiting` until there are none left."""

    def __init__(
        self,
        context: ClientContext,
        settings: ClientSettings,
        index: int,
        waiting: queue.SimpleQueue[tuple[str, int]],
        deadline: float,
    ) -> None:
        self.client = f"{context.client}.d{index}"
        self.counts = Counts()
        self._settings, self._recorder, self._bootstrap = settings, context.recorder, context.bootstrap
        self._stop, self._waiting, self._deadline = context.stop, waiting, deadline
        self._process = context.recorder.new_process()
        self._watcher: Consumer | None = None  # of high watermarks; the reader is told the last stable offset

    def run(self) -> None:
        config = clients.drain_config(self._bootstrap, self.client, self._settings)
        consumer = clients.new_consumer(config)
        if self._settings.isolation == "read_committed":
            self._watcher = clients.new_consumer({**config, "isolation.level": "read_uncommitted"})
        try:
            while True:
                try:
                    topic, partition = self._waiting.get_nowait()
                except queue.Empty:
                    return
                self._drain(consumer, _Span(topic, partition))
        finally:
            clients.close(consumer)
            if self._watcher is not None:
                clients.close(self._watcher)

    def _drain(self, consumer: Consumer, span: _Span) -> None:
        while True:
            op = self._invoke(OpKind.BOUNDS, span)
            self._ask(consumer, span)
            self._place(span)
            if span.error or span.at_end or self._out_of_time() or self._blocked_for_good(span):
                break
            self._recorder.complete(op, Outcome.OK)
            if span.read_whole:
                self._stop.wait(AGAIN_S)
            else:
                self._read(consumer, span)
                if span.stuck >= STUCK_TRIES:
                    self._step_over(span)
        if span.stepped_over:
            LOG.warning("%s-%d: %d offsets cannot be read", span.topic, span.partition, span.stepped_over)
        if not span.error and not span.read_whole:
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
            stable_end=span.stable_end,
        )
        self._recorder.complete(op, Outcome.FAIL if span.error else Outcome.OK, error=span.error)

    def _blocked_for_good(self, span: _Span) -> bool:
        """Whether an open transaction has kept the last stable offset below the high watermark for long enough."""
        if not span.read_whole:
            span.blocked_since = None
            return False
        span.blocked_since = span.blocked_since or time.monotonic()
        return time.monotonic() - span.blocked_since >= self._settings.stable_wait_ms / 1000

    def _ask(self, consumer: Consumer, span: _Span) -> None:
        """Log start and end into `span`, or an error: that nobody answered in time, or that the partition is gone. Asks
        once at least."""
        missing_since: float | None = None
        while True:
            error = "_TIMED_OUT"
            try:
                if self._ends(consumer, span):
                    return
            except KafkaException as failure:
                error = error_name(failure.args[0])
            gone = False
            if not self._out_of_time():
                missing = is_missing(consumer, span.topic, span.partition, self._patience_s())
                missing_since = (missing_since or time.monotonic()) if missing else None
                gone = missing_since is not None and time.monotonic() - missing_since >= GONE_AFTER_S
            if gone or self._out_of_time():
                span.error = GONE if gone else error
                span.log_start = span.log_end = span.stable_end = None
                return
            self._stop.wait(AGAIN_S)

    def _ends(self, consumer: Consumer, span: _Span) -> bool:
        """ListOffsets once, the last stable offset before the high watermark: it cannot be above one that is asked for later."""
        place = TopicPartition(span.topic, span.partition)
        answers = []
        for asker in filter(None, (consumer, self._watcher)):
            answer = asker.get_watermark_offsets(place, timeout=self._patience_s(), cached=False)
            if answer is None:
                return False
            answers.append(answer)
        span.log_start, span.log_end = answers[-1]
        span.stable_end = min(answers[0][1], answers[-1][1]) if self._watcher is not None else None
        return True

    def _place(self, span: _Span) -> None:
        """Where to read on: at the start the first time and after a truncation, at the log start if that has overtaken
        the reader."""
        if span.log_start is None or span.readable_to is None:
            return
        if span.read_to is None or span.read_to > span.readable_to or span.read_to < span.log_start:
            self._begin_at(span, span.log_start)

    def _read(self, consumer: Consumer, span: _Span) -> None:
        """Poll from `read_to` to the end of what can be read. Stops early when the time is up, or at an error, for the next `_ask` to see
        what became of the log."""
        assert span.read_to is not None
        readable_to = span.readable_to
        assert readable_to is not None
        op = self._invoke(OpKind.ASSIGN, span)
        consumer.assign([TopicPartition(span.topic, span.partition, span.read_to)])
        self._recorder.complete(op, Outcome.OK)
        began = span.read_to
        errors: list[KafkaError] = []
        while span.read_to < readable_to and not errors and not self._out_of_time():
            op = self._invoke(OpKind.POLL, span)
            try:
                messages = consumer.consume(self._settings.poll_records, self._settings.poll_timeout_ms / 1000)
            except KafkaException as failure:
                messages, errors = [], [failure.args[0]]
            good, bad = sorted_out(_until_unreadable([message for message in messages if _is_about(message, span)]))
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
        unreadable = bool(errors) and all(error.code() in _UNREADABLE for error in errors)
        span.stuck = span.stuck + 1 if unreadable and span.read_to == began else 0
        if errors and not (unreadable and span.stepped_over):
            self._stop.wait(AGAIN_S)

    def _step_over(self, span: _Span) -> None:
        assert span.read_to is not None
        self._begin_at(span, span.read_to + 1)
        span.stepped_over += 1

    def _begin_at(self, span: _Span, offset: int) -> None:
        """Where a new process reads on: it has met nothing there yet."""
        self._process = self._recorder.new_process()
        span.read_to = offset
        span.stuck = 0

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


def _until_unreadable(messages: Sequence[Message]) -> Sequence[Message]:
    """Without what comes behind something unreadable: whoever reads it has passed that over, and would never try it again."""
    for number, message in enumerate(messages, start=1):
        error = message.error()
        if error is not None and error.code() in _UNREADABLE:
            return messages[:number]
    return messages


def _is_about(message: Message, span: _Span) -> bool:
    """Errors of the client as a whole name no partition; what was fetched for an earlier partition may still come."""
    return message.topic() is None or (message.topic(), message.partition()) == (span.topic, span.partition)
