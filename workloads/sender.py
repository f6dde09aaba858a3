"""A producer and its slots: many processes, each with at most one record in flight.

A slot is a place for one record on its way. It has a process number, and after an unknown outcome it gets a new one,
because the old process may still be doing its send. With `in_flight: 1` there is one slot: a process that waits for
each answer.

The life of a batch of n records:

1. draw partitions, leave out those that have their share of the slots already, number the records per partition
   (`sequence`), take a free slot for each;
2. `recorder.invoke_sends(...)`: written before anything is sent;
3. `produce()` each, once its partition answers others (lane.py), with the slot's own callback, which only notes
   (slot, error, message);
4. after `poll()`, `recorder.complete_sends(...)` for all that landed, and their slots are free again.

No partition gets more than its share of the slots, or the one whose leader is silent would soon have them all, and the
others, whose leaders answer, would have nothing to do. What falls due for a partition without a free slot is not sent.

One producer instance sends all records of a `client`, so its (topic, partition) sequence is the order in which
librdkafka got them. When the instance breaks for good it is replaced; what it never answered stays open in the history,
for ever unknown.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from workloads import clients
from workloads.generators import Pace, PartitionChoices
from workloads.lane import Lane
from workloads.op import Outcome, Phase
from workloads.outcomes import error_name, outcome_of_send
from workloads.settings import ProducerSettings
from workloads.values import padded
from workloads.worker import Counts
from workloads.workload import ClientContext

MOST_AT_ONCE = 500  # records per batch of invocations
TICK_S = 0.005  # a paced pipeline sends what fell due in this time as one batch
PATIENCE_S = 0.1  # longest wait for a delivery report before looking at the stop event again
SILENT_S = 1.0  # without a rate answers take long, and what waits for one costs throughput: far longer than they take

Landed = tuple[int, KafkaError | None, Message]
OnError = Callable[[KafkaError], None]


class Flight:
    """One producer instance and what it has in the air."""

    def __init__(self, processes: list[int], lanes: list[Lane], new_producer: Callable[[OnError], Producer]) -> None:
        slots = len(processes)
        self.processes = processes
        self.lanes = lanes
        self.ops = [0] * slots
        self.choices = [0] * slots  # index of the partition that the slot's record went to
        self.free = list(range(slots))
        self.landed: list[Landed] = []
        self.broken: KafkaError | None = None
        self.refused = False  # produce() raised for some of the last batch: pause, instead of trying as fast as it goes
        self.callbacks: list[Callable[[KafkaError | None, Message], None]] = [
            partial(self._land, slot) for slot in range(slots)
        ]
        self.producer = new_producer(self.on_error)

    @property
    def in_the_air(self) -> int:
        return len(self.processes) - len(self.free)

    def serve(self, wait_s: float) -> None:
        """Run the callbacks that are due, waiting up to `wait_s` for the first. Fatal errors come out of poll() too."""
        try:
            self.producer.poll(wait_s)
        except KafkaException as failure:
            self.on_error(failure.args[0])
            if not self.broken:
                raise

    def on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:
            self.broken = error

    def _land(self, slot: int, error: KafkaError | None, message: Message) -> None:
        self.landed.append((slot, error, message))


class Sender:
    """One producer client of the `log` workload: `run()` sends until the context's stop event, then waits for what is
    in flight."""

    def __init__(self, context: ClientContext, settings: ProducerSettings, index: int) -> None:
        self.client = f"{context.client}.p{index}"
        self.counts = Counts()
        self._context, self._settings, self._recorder = context, settings, context.recorder
        self._partitions = [(topic.name, number) for topic in context.topics for number in range(topic.partitions)]
        self._sequences = [0] * len(self._partitions)
        self._share = max(1, settings.in_flight // len(self._partitions))
        self._choices = PartitionChoices(context.stream(self.client, 0), len(self._partitions))
        self._processes = [context.recorder.new_process() for _ in range(settings.in_flight)]

    def run(self) -> None:
        flight = self._take_off(self._processes)
        rate = self._context.rate
        pace = Pace(rate and rate / (self._context.clients * self._settings.producers), time.monotonic())
        while not self._context.stop.is_set():
            if flight.broken:
                flight = self._replace(flight)
            count = self._count(flight, pace)
            sent = self._send(flight, count)
            pace.sent(count)
            flight.serve(0 if sent and not flight.refused else self._wait_s(flight, pace))
            self._settle(flight)
        self._wait_for_answers(flight, self._settings.finish_ms / 1000)

    def _count(self, flight: Flight, pace: Pace) -> int:
        """How many to send now. A pipeline waits until a quarter of its slots are free: a batch of one costs as much to
        record as fifty."""
        free = len(flight.free)
        if self._context.rate is None and free < max(1, self._settings.in_flight // 4):
            return 0
        return pace.due(time.monotonic(), min(free, MOST_AT_ONCE))

    def _wait_s(self, flight: Flight, pace: Pace) -> float:
        if flight.refused or not flight.free or self._context.rate is None:
            return PATIENCE_S
        until_due = pace.wait_s(time.monotonic())
        return min(PATIENCE_S, until_due if self._settings.in_flight == 1 else max(TICK_S, until_due))

    def _send(self, flight: Flight, count: int) -> int:
        """Send the next `count` records of the plan, but for those whose partition is full; returns how many went."""
        flight.refused = False
        topics, numbers, sequences, values, slots = [], [], [], [], []
        for choice in self._choices.take(count):
            lane = flight.lanes[choice]
            if lane.in_the_air >= self._share:
                continue
            slot = flight.free.pop()
            topic, number = self._partitions[choice]
            value = f"{topic}/{number}/{flight.processes[slot]}/{self._sequences[choice]}"
            topics.append(topic)
            numbers.append(number)
            slots.append(slot)
            sequences.append(self._sequences[choice])
            values.append(value)
            self._sequences[choice] += 1
            flight.choices[slot] = choice
            lane.waiting.append((slot, value))
        if not slots:
            return 0
        ops = self._recorder.invoke_sends(
            client=self.client,
            phase=Phase.MAIN,
            topics=topics,
            partitions=numbers,
            processes=[flight.processes[slot] for slot in slots],
            sequences=sequences,
            values=values,
        )
        self.counts.attempted += len(slots)
        for slot, op in zip(slots, ops, strict=True):
            flight.ops[slot] = op
        self._hand_over(flight, slots)
        return len(slots)

    def _hand_over(self, flight: Flight, slots: Iterable[int]) -> None:
        """To librdkafka, what waits for the partitions of these slots, as far as those answer."""
        size, produce, callbacks = self._settings.value_bytes, flight.producer.produce, flight.callbacks
        now_s = time.monotonic()
        for choice in dict.fromkeys(flight.choices[slot] for slot in slots):
            lane, (topic, number) = flight.lanes[choice], self._partitions[choice]
            for slot, value in lane.ready(now_s):
                try:
                    produce(topic, padded(value, size), None, number, callbacks[slot])
                    lane.handed_over(now_s)
                except BufferError:
                    self._turned_down(flight, slot, "_QUEUE_FULL")
                except KafkaException as refusal:
                    self._turned_down(flight, slot, error_name(refusal.args[0]))
                    flight.on_error(refusal.args[0])

    def _turned_down(self, flight: Flight, slot: int, error: str) -> None:
        """The record never came into the client's queue, so it surely did not happen."""
        self._recorder.complete_sends(
            ops=[flight.ops[slot]], outcomes=[Outcome.FAIL], errors=[error], offsets=[None], timestamps_ms=[None]
        )
        self.counts.failed += 1
        flight.refused = True
        flight.free.append(slot)

    def _settle(self, flight: Flight) -> None:
        """Record everything that landed in the last poll, free its slots, and let go what waited for its partitions."""
        landed, flight.landed = flight.landed, []
        if not landed:
            return
        errors = [None if error is None else error_name(error) for _, error, _ in landed]
        outcomes = [self._outcome(error, message) for error, (_, _, message) in zip(errors, landed, strict=True)]
        self._recorder.complete_sends(
            ops=[flight.ops[slot] for slot, _, _ in landed],
            outcomes=outcomes,
            errors=errors,
            offsets=[None if error else message.offset() for _, error, message in landed],
            timestamps_ms=[None if error else message.timestamp()[1] for _, error, message in landed],
        )
        now_s = time.monotonic()
        for (slot, _, _), outcome in zip(landed, outcomes, strict=True):
            if outcome is Outcome.INFO:
                flight.processes[slot] = self._recorder.new_process()
            flight.lanes[flight.choices[slot]].answered(now_s)
            flight.free.append(slot)
        self._hand_over(flight, [slot for slot, _, _ in landed])
        self.counts.acknowledged += outcomes.count(Outcome.OK)
        self.counts.failed += outcomes.count(Outcome.FAIL)
        self.counts.unknown += outcomes.count(Outcome.INFO)

    def _outcome(self, error: str | None, message: Message) -> Outcome:
        if error is None and self._settings.acks != "0":
            return Outcome.OK
        latency_s = message.latency()
        return outcome_of_send(
            error,
            latency_s=-1.0 if latency_s is None else latency_s,
            retry_backoff_s=self._settings.retry_backoff_ms / 1000,
            acks=self._settings.acks,
        )

    def _wait_for_answers(self, flight: Flight, within_s: float) -> None:
        """Serve delivery reports until all are in or the time is up, and close. What is unanswered then stays open in
        the history: closing purges it, and what the purge reports is not recorded."""
        deadline = time.monotonic() + within_s
        while flight.in_the_air and time.monotonic() < deadline:
            flight.serve(PATIENCE_S)
            self._settle(flight)
        for lane in flight.lanes:
            while lane.waiting:
                self._turned_down(flight, lane.waiting.popleft()[0], "_PURGE_QUEUE")
        flight.producer.purge()
        clients.close(flight.producer)

    def _take_off(self, processes: list[int]) -> Flight:
        patience_s = (0.0 if self._context.rate else SILENT_S) if self._settings.idempotence else math.inf
        lanes = [Lane(patience_s) for _ in self._partitions]
        new_producer = partial(clients.new_producer, self._context.bootstrap, self.client, self._settings)
        return Flight(processes, lanes, new_producer)

    def _replace(self, flight: Flight) -> Flight:
        """A producer with a fatal error refuses everything for ever: close it, and go on with a new one and new
        processes where needed."""
        clients.LOG.warning("%s: replacing the producer after %s", self.client, flight.broken)
        self._wait_for_answers(flight, within_s=5.0)
        landed = set(flight.free)
        processes = [
            process if slot in landed else self._recorder.new_process() for slot, process in enumerate(flight.processes)
        ]
        self._context.stop.wait(0.2)
        return self._take_off(processes)
