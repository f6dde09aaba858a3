"""One librdkafka producer that does what a script says, step by step, and records it.

A record in flight is a process; a process whose record's fate is unknown is never used again. A thread of its own serves
delivery reports, so that answers are recorded when they come, whatever the script waits for.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from workloads import clients
from workloads.op import OpKind, Outcome, Phase
from workloads.outcomes import error_name, outcome_of_send
from workloads.settings import Settings
from workloads.workload import Recorder

SERVE_S = 0.05


class Batch:
    """The records of one `send`, and what became of them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.offsets: list[int] = []
        self.errors: Counter[str] = Counter()
        self.left = count
        self.done = threading.Event()

    def landed(self, error: str | None, offset: int | None) -> None:
        if error is not None:
            self.errors[error] += 1
        elif offset is not None:
            self.offsets.append(offset)
        self.left -= 1
        if not self.left:
            self.done.set()

    def as_json(self) -> dict[str, Any]:
        return {"sent": self.count, "offsets": list(self.offsets), "errors": dict(self.errors), "pending": self.left}


class ScriptedProducer:
    def __init__(
        self,
        client: str,
        bootstrap: str,
        settings: Settings,
        recorder: Recorder,
        *,
        transactional_id: str | None = None,
    ) -> None:
        self.client = client
        self._settings, self._recorder = settings, recorder
        self._transactional = transactional_id is not None
        self._transaction: int | None = None  # op id of the begin of the one that is open
        self._process = recorder.new_process()  # begins and ends
        config = clients.producer_config(bootstrap, client, settings)
        if transactional_id is not None:
            config |= {"transactional.id": transactional_id}
        self._producer = Producer({**config, "error_cb": self._broke}, logger=clients.LOG)
        self._sequences: Counter[tuple[str, int]] = Counter()
        self._idle: list[int] = []
        self._in_the_air: list[Batch] = []
        self._closing = threading.Event()
        self._serving = threading.Thread(target=self._serve, name=client, daemon=True)
        self._serving.start()

    def connect(self, within: float) -> None:
        """Metadata, and for a transactional one its producer id. KafkaException when nobody answers."""
        self._producer.list_topics(timeout=within)
        if self._transactional:
            self._producer.init_transactions(within)

    def send(self, topic: str, partition: int, count: int, within: float) -> dict[str, Any]:
        batch = Batch(count)
        self._in_the_air.append(batch)
        processes = [self._idle.pop() if self._idle else self._recorder.new_process() for _ in range(count)]
        first = self._sequences[topic, partition]
        self._sequences[topic, partition] += count
        sequences = range(first, first + count)
        values = [f"{topic}/{partition}/{p}/{s}" for p, s in zip(processes, sequences, strict=True)]
        ops = self._recorder.invoke_sends(
            client=self.client,
            phase=Phase.MAIN,
            topics=[topic] * count,
            partitions=[partition] * count,
            processes=processes,
            sequences=sequences,
            values=values,
            transaction=self._transaction,
        )
        for op, process, value in zip(ops, processes, values, strict=True):
            try:
                self._producer.produce(
                    topic, value, partition=partition, on_delivery=partial(self._landed, batch, op, process)
                )
            except (BufferError, KafkaException) as refusal:
                error = "_QUEUE_FULL" if isinstance(refusal, BufferError) else error_name(refusal.args[0])
                self._complete(batch, op, Outcome.FAIL, error, None, None)
                self._idle.append(process)
        if within and batch.done.wait(within):
            self._in_the_air.remove(batch)
        return batch.as_json()

    def flush(self, within: float) -> dict[str, Any]:
        """Everything that was sent and not waited for, as one batch."""
        until = time.monotonic() + within
        batches, self._in_the_air = self._in_the_air, []
        whole = Batch(0)
        for batch in batches:
            batch.done.wait(max(0.0, until - time.monotonic()))
            whole.count += batch.count
            whole.left += batch.left
            whole.offsets += batch.offsets
            whole.errors += batch.errors
        self._in_the_air += [batch for batch in batches if batch.left]
        return whole.as_json()

    def begin(self) -> None:
        self._transaction = None
        op = self._invoke(OpKind.BEGIN)
        self._producer.begin_transaction()
        self._recorder.complete(op, Outcome.OK)
        self._transaction = op

    def end(self, commit: bool, within: float) -> str | None:
        """The error that the client was told, None when it was told of success. An error says nothing about what happened,
        and what comes next (an abort after a commit that failed) still belongs to the same transaction.
        """
        op = self._invoke(OpKind.COMMIT if commit else OpKind.ABORT)
        error = None
        try:
            (self._producer.commit_transaction if commit else self._producer.abort_transaction)(within)
        except KafkaException as failure:
            error = error_name(failure.args[0])
            self._process = self._recorder.new_process()
        self._recorder.complete(op, Outcome.OK if error is None else Outcome.INFO, error=error)
        if error is None:
            self._transaction = None
        return error

    def _invoke(self, kind: OpKind) -> int:
        return self._recorder.invoke(
            client=self.client, kind=kind, phase=Phase.MAIN, process=self._process, transaction=self._transaction
        )

    def close(self) -> None:
        self._closing.set()
        self._serving.join()
        clients.close(self._producer)

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                self._producer.poll(SERVE_S)
            except KafkaException as failure:  # fatal errors come out of poll() too
                clients.LOG.warning("%s: %s", self.client, failure)
                self._closing.wait(SERVE_S)

    def _landed(self, batch: Batch, op: int, process: int, error: KafkaError | None, message: Message) -> None:
        name = None if error is None else error_name(error)
        latency_s = message.latency()
        outcome = outcome_of_send(
            name,
            latency_s=-1.0 if latency_s is None else latency_s,
            retry_backoff_s=self._settings.retry_backoff_ms / 1000,
            acks=self._settings.acks,
        )
        if outcome is not Outcome.INFO:
            self._idle.append(process)
        offset = None if error else message.offset()
        self._complete(batch, op, outcome, name, offset, None if error else message.timestamp()[1])

    def _complete(
        self, batch: Batch, op: int, outcome: Outcome, error: str | None, offset: int | None, timestamp: int | None
    ) -> None:
        self._recorder.complete_sends(
            ops=[op], outcomes=[outcome], errors=[error], offsets=[offset], timestamps_ms=[timestamp]
        )
        batch.landed(error, offset)

    def _broke(self, error: KafkaError) -> None:
        clients.LOG.info("%s: %s", self.client, error)
