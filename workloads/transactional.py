"""One user of a transactional id: a producer from its InitProducerId to its end, recorded step by step.

Every call that goes to a coordinator ends in one of four ways, which librdkafka tells by flags of its error, and `Step` names:

    done        it happened
    abort       the transaction cannot be committed any more: abort it, and the producer is as good as new
    broken      the producer is of no use any more (fenced, or nobody answered in time): another one has to take the id over

Retriable errors are retried here, by the same call, as long as `patience_s` lasts: the op in the history is the whole of it.

A producer that was fenced goes on as long as it does not know. `fenced` says that somebody took the id over, and was told so, before
the next call: whatever this one asks from then on has to be refused, and a refusal is a sure one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from workloads import clients
from workloads.membership import Membership, Place
from workloads.op import OpKind, Outcome, Phase
from workloads.outcomes import error_name, outcome_of_commit, outcome_of_send
from workloads.settings import TransactionSettings
from workloads.values import padded
from workloads.worker import Counts
from workloads.workload import Recorder

CALL_S = 5.0  # one call to librdkafka, before it is made again
SERVE_S = 0.1


class Step(StrEnum):
    DONE = "done"
    ABORT = "abort"
    BROKEN = "broken"


class User:
    """`client`: its name in the history; `patience_s`: how long one step may take."""

    def __init__(
        self,
        recorder: Recorder,
        counts: Counts,
        settings: TransactionSettings,
        *,
        bootstrap: str,
        client: str,
        transactional_id: str,
        patience_s: float,
    ) -> None:
        self.client, self.fenced = client, False
        self._recorder, self._counts, self._settings, self._patience_s = recorder, counts, settings, patience_s
        self._process = recorder.new_process()
        self._slots = [recorder.new_process() for _ in range(settings.records)]
        self._sequences: dict[Place, int] = {}
        self._transaction: int | None = None
        self._in_the_air: dict[int, int] = {}  # op -> slot
        config = clients.transactional_config(bootstrap, client, settings, transactional_id)
        self._producers = [Producer({**config, "error_cb": lambda error: None}, logger=clients.LOG)]
        self._broken = False

    @property
    def _producer(self) -> Producer:
        return self._producers[0]

    def take_over(self) -> Step:
        """InitProducerId: whoever had the id before is fenced, and what it left open is aborted."""
        return self._step(OpKind.INIT, partial(self._producer.init_transactions, CALL_S))

    def begin(self) -> Step:
        self._transaction = self._recorder.invoke(
            client=self.client, kind=OpKind.BEGIN, phase=Phase.MAIN, process=self._process
        )
        try:
            self._producer.begin_transaction()
        except KafkaException as failure:
            self._recorder.complete(self._transaction, Outcome.FAIL, error=error_name(failure.args[0]))
            return self._step_after(failure.args[0])
        self._recorder.complete(self._transaction, Outcome.OK)
        return Step.DONE

    def send(self, places: Sequence[Place]) -> None:
        """At most as many as there are slots free; a slot is free again when its record has landed."""
        slots = [slot for slot in range(len(self._slots)) if slot not in self._in_the_air.values()][: len(places)]
        places = places[: len(slots)]
        processes = [self._slots[slot] for slot in slots]
        sequences = [self._next(place) for place in places]
        values = [f"{t}/{n}/{p}/{s}" for (t, n), p, s in zip(places, processes, sequences, strict=True)]
        ops = self._recorder.invoke_sends(
            client=self.client,
            phase=Phase.MAIN,
            topics=[topic for topic, _ in places],
            partitions=[partition for _, partition in places],
            processes=processes,
            sequences=sequences,
            values=values,
            transaction=self._transaction,
        )
        self._counts.attempted += len(slots)
        for op, slot, (topic, partition), value in zip(ops, slots, places, values, strict=True):
            self._in_the_air[op] = slot
            try:
                text = padded(value, self._settings.value_bytes)
                self._producer.produce(topic, text, None, partition, partial(self._landed, op))
            except (BufferError, KafkaException) as refusal:  # it never came into the client's queue
                error = "_QUEUE_FULL" if isinstance(refusal, BufferError) else error_name(refusal.args[0])
                self._end_send(op, Outcome.FAIL, error, None)

    def flush(self) -> None:
        """Until every record has landed, or the delivery timeout has spoken for it."""
        deadline = time.monotonic() + self._settings.delivery_timeout_ms / 1000 + CALL_S
        while self._in_the_air and time.monotonic() < deadline:
            broke = _error_of(partial(self._producer.poll, SERVE_S))
            if broke is not None and not self._broken:
                self._broken = True
                deadline = time.monotonic() + CALL_S  # what it has in hand reports itself soon

    def send_offsets(self, membership: Membership, positions: Mapping[Place, int]) -> Step:
        """Make the group's offsets part of the transaction."""
        op = membership.begin_commit(positions, self._transaction)
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
        metadata = membership.consumer.consumer_group_metadata()
        call = partial(self._producer.send_offsets_to_transaction, offsets, metadata, CALL_S)
        return self._finish(op, partial(_given_up_on, call))

    def commit(self) -> Step:
        return self._step(OpKind.COMMIT, partial(self._producer.commit_transaction, CALL_S))

    def abort(self) -> Step:
        step = self._step(OpKind.ABORT, partial(self._producer.abort_transaction, CALL_S))
        self.flush()  # what the abort threw away reports itself
        return step

    def close(self) -> None:
        """What is unanswered stays open in the history. One that is of no use any more is dropped: closing it would abort what
        another may have begun since, or may not be aborted."""
        self._in_the_air.clear()
        if self._broken or self.fenced:
            clients.drop(self._producers)
        else:
            clients.close(self._producer)

    def _step(self, kind: OpKind, call: Callable[[], object]) -> Step:
        transaction = None if kind is OpKind.INIT else self._transaction
        op = self._recorder.invoke(
            client=self.client, kind=kind, phase=Phase.MAIN, process=self._process, transaction=transaction
        )
        return self._finish(op, call)

    def _finish(self, op: int, call: Callable[[], object]) -> Step:
        """Make a call until it is answered for good, and complete its op."""
        asked = time.monotonic()
        while True:
            error = _error_of(call)
            spent_s = time.monotonic() - asked
            if error is None or not error.retriable() or spent_s >= self._patience_s:
                break
        name = None if error is None else error_name(error)
        outcome = outcome_of_commit(
            name,
            latency_s=spent_s,
            retry_backoff_s=self._settings.retry_backoff_ms / 1000,
            fenced_before=self.fenced,
        )
        self._recorder.complete(op, outcome, error=name)
        if outcome is Outcome.INFO:
            self._process = self._recorder.new_process()
        return Step.DONE if error is None else self._step_after(error)

    def _step_after(self, error: KafkaError) -> Step:
        if error.txn_requires_abort() and not error.fatal():
            return Step.ABORT
        self._broken = True
        return Step.BROKEN

    def _next(self, place: Place) -> int:
        number = self._sequences.get(place, 0)
        self._sequences[place] = number + 1
        return number

    def _landed(self, op: int, error: KafkaError | None, message: Message) -> None:
        if op not in self._in_the_air:
            return  # after the end
        name = None if error is None else error_name(error)
        latency_s = message.latency()
        outcome = outcome_of_send(
            name,
            latency_s=-1.0 if latency_s is None else latency_s,
            retry_backoff_s=self._settings.retry_backoff_ms / 1000,
        )
        self._end_send(op, outcome, name, message)

    def _end_send(self, op: int, outcome: Outcome, error: str | None, message: Message | None) -> None:
        stored = message if outcome is Outcome.OK else None
        self._recorder.complete_sends(
            ops=[op],
            outcomes=[outcome],
            errors=[error],
            offsets=[None if stored is None else stored.offset()],
            timestamps_ms=[None if stored is None else stored.timestamp()[1]],
        )
        slot = self._in_the_air.pop(op)
        self._counts.acknowledged += outcome is Outcome.OK
        self._counts.failed += outcome is Outcome.FAIL
        self._counts.unknown += outcome is Outcome.INFO
        if outcome is Outcome.INFO:
            self._slots[slot] = self._recorder.new_process()


def _given_up_on(call: Callable[[], object]) -> None:
    """librdkafka forgets the time limit of a call that waits for the group's coordinator: it may never return (its issues 5456 and
    5511). A producer with such a call in it is of no use any more; the call ends with the process."""
    if not clients.bounded(call, 2 * CALL_S):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the call did not return"))


def _error_of(call: Callable[[], object]) -> KafkaError | None:
    """confluent-kafka raises a fatal error out of whatever call serves callbacks, while other callbacks are still to run; these
    then fail with a SystemError, of which the fatal error is the cause."""
    try:
        call()
    except KafkaException as failure:
        return cast(KafkaError, failure.args[0])
    except SystemError as failure:
        if isinstance(failure.__cause__, KafkaException):
            return cast(KafkaError, failure.__cause__.args[0])
        raise
    return None
