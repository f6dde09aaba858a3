"""A transactions' coordinator with its log, partitions that hear its markers, a clock, and short words for what producers ask."""

from __future__ import annotations

from itertools import count
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import Answer, Effect, SendMarkers, Write
from nodes.reference.coordinator.groups.requests import TopicPartition
from nodes.reference.coordinator.transactions.core import TransactionCoordinator
from nodes.reference.coordinator.transactions.requests import (
    Initialized,
    InitProducerId,
    Producer,
    TransactionSettings,
)
from nodes.reference.protections import ALL_ON, Protections
from tests.nodes.reference.coordinator.ledger import Ledger

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TIMEOUT = 60_000
DEFAULTS = TransactionSettings()


class TransactionStage:
    """writes, marks: whether what is written is committed at once, and markers are in their partitions at once."""

    def __init__(
        self,
        settings: TransactionSettings = DEFAULTS,
        protections: Protections = ALL_ON,
        *,
        writes: bool = True,
        marks: bool = True,
    ) -> None:
        self.now = 1_000_000
        self.settings, self.protections = settings, protections
        self.writes_at_once, self.marks_at_once = writes, marks
        self.ledger = Ledger()
        self.waiting: list[Write] = []
        self.markers: list[SendMarkers] = []
        self.answers: dict[object, Any] = {}
        self.epoch = 0
        self._producer_ids = count(7)
        self._tickets = count(1)
        self.coordinator = self._new()

    def _new(self) -> TransactionCoordinator:
        return TransactionCoordinator(self.settings, self.protections, coordinator_epoch=self.epoch)

    # What happens

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                assert effect.ticket not in self.answers, "answered twice"
                self.answers[effect.ticket] = effect.said
            elif isinstance(effect, Write):
                self.waiting.append(effect)
            else:
                self.markers.append(effect)
        if self.writes_at_once:
            self.write()
        if self.marks_at_once:
            self.mark()

    def write(self, error: ErrorCode = ErrorCode.none) -> None:
        """What waits for the log is in it now, or it is not because of an error."""
        waiting, self.waiting = self.waiting, []
        for write in waiting:
            position = self.ledger.append(write) if error is ErrorCode.none else -1
            self.take(self.coordinator.written(write.token, error, position, self.now))

    def mark(self, **errors: ErrorCode) -> list[SendMarkers]:
        """Leaders answer what they were sent: none, or p0=..., p1=..."""
        sent, self.markers = self.markers, []
        for one in sent:
            results = {
                TopicPartition(*partition): errors.get(f"p{partition[1]}", ErrorCode.none)
                for partition in one.partitions
            }
            self.take(self.coordinator.marked(one, results, self.now))
        return sent

    def fail_over(self, batches: int | None = None) -> None:
        """Another broker leads, and finds so many batches (None: all)."""
        self.take(self.coordinator.give_up())
        self.waiting.clear()
        self.markers.clear()
        del self.ledger.batches[batches if batches is not None else len(self.ledger.batches) :]
        self.epoch += 1
        self.coordinator = self._new()
        self.coordinator.load(self.ledger.content())
        self.take(self.coordinator.loaded(self.now))

    def pass_ms(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.take(self.coordinator.tick(self.now))

    # What producers ask; what may wait returns a ticket

    def initializing(self, name: str = "x", **more: Any) -> int:
        ticket = next(self._tickets)
        more.setdefault("timeout_ms", TIMEOUT)
        if self.coordinator.needs_producer_id(name):
            more.setdefault("spare", next(self._producer_ids))
        self.take(self.coordinator.init_producer_id(ticket, InitProducerId(transactional_id=name, **more), self.now))
        return ticket

    def initialize(self, name: str = "x", **more: Any) -> Initialized:
        said = self.answers[self.initializing(name, **more)]
        assert isinstance(said, Initialized)
        return said

    def producer(self, name: str = "x", **more: Any) -> Producer:
        said = self.initialize(name, **more)
        assert said.error is ErrorCode.none, said
        return Producer(transactional_id=name, producer_id=said.producer_id, producer_epoch=said.producer_epoch)

    def adding(self, producer: Producer, *partitions: TopicPartition) -> int:
        ticket = next(self._tickets)
        self.take(self.coordinator.add_partitions(ticket, producer, partitions, self.now))
        return ticket

    def add(self, producer: Producer, *partitions: TopicPartition) -> ErrorCode:
        return self.said(self.adding(producer, *partitions))

    def ending(self, producer: Producer, *, commit: bool = True) -> int:
        ticket = next(self._tickets)
        self.take(self.coordinator.end(ticket, producer, commit=commit, now=self.now))
        return ticket

    def end(self, producer: Producer, *, commit: bool = True) -> ErrorCode:
        return self.said(self.ending(producer, commit=commit))

    def said(self, ticket: int) -> ErrorCode:
        error = self.answers[ticket]
        assert isinstance(error, ErrorCode)
        return error

    def state(self, name: str = "x") -> str:
        return self.coordinator.describe(name).state
