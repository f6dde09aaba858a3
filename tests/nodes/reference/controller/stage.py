"""A controller by itself: its log is a list, which is committed when the test says so."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

from nodes.reference.controller.broker_messages import (
    OK,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerState,
)
from nodes.reference.controller.client_messages import (
    CreateTopicsRequest,
    NewTopic,
)
from nodes.reference.controller.core import Answered, Controller, Effect
from nodes.reference.controller.messages import Request
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.store import QuorumStatus
from nodes.reference.environment import SECOND
from nodes.reference.metadata.entities import Partition, PartitionId
from nodes.reference.metadata.records import decode
from nodes.reference.metadata.schema import Endpoint, Record, SupportedFeature
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft.events import NotLeader

FEATURES = (SupportedFeature(name="metadata.version", min_supported_version=1, max_supported_version=11),)
SESSION = 9 * SECOND


class ListStore:
    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.batches: list[int] = []  # their end offsets
        self.snapshot_offset = 0
        self.lost = False
        self.status = QuorumStatus((1, 2, 3), frozenset({1, 2, 3}))

    @property
    def end_offset(self) -> int:
        return len(self.values)

    def append(self, epoch: int, values: tuple[bytes, ...]) -> int:
        if self.lost:
            raise NotLeader(2, epoch + 1)
        self.values += values
        self.batches.append(len(self.values))
        return len(self.values) - 1

    def quorum(self) -> QuorumStatus:
        return self.status

    def records(self, since: int = 0) -> list[Record]:
        return [decode(value) for value in self.values[since:]]


class Stage:
    """Time stands still unless `pass_time` is called. `ask` commits what it writes, `begin` does not."""

    def __init__(
        self, protections: Protections = ALL_ON, settings: ControllerSettings | None = None, *, active: bool = True
    ) -> None:
        self.settings = settings or ControllerSettings(cluster_id="k", broker_session_timeout=SESSION)
        self.store = ListStore()
        self.controller = Controller(1, self.settings, self.store, protections, Random(1))
        self.now = 1000 * SECOND
        self.answers: dict[object, Any] = {}
        self.other_effects: list[Effect] = []
        self._tickets = 0
        if active:
            self.take(self.controller.leader_changed(1, 5, self.now))
            self.commit()

    def take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answered):
                assert effect.ticket not in self.answers, "answered twice"
                self.answers[effect.ticket] = effect.response
            else:
                self.other_effects.append(effect)

    def begin(self, request: Request) -> int:
        self._tickets += 1
        self.take(self.controller.ask(self._tickets, request, self.now))
        return self._tickets

    def ask(self, request: Request) -> Any:
        ticket = self.begin(request)
        self.commit()
        return self.answers[ticket]

    def commit(self, batches: int = 1 << 30) -> None:
        for end in self.store.batches[:batches]:
            values = self.store.values[self.controller.committed_offset : end]
            self.take(self.controller.committed(values, end, self.now))
        del self.store.batches[:batches]

    def pass_time(self, duration: int) -> None:
        """In small steps, each with a tick."""
        until = self.now + duration
        while self.now < until:
            deadline = self.controller.deadline(self.now)
            self.now = until if deadline is None else min(until, max(deadline, self.now + 1))
            self.take(self.controller.tick(self.now))
            self.commit()

    # Shorthand

    def register(self, broker: int, incarnation: int | None = None, *, features: Any = FEATURES) -> Any:
        return self.ask(
            BrokerRegistrationRequest(
                broker_id=broker,
                cluster_id="k",
                incarnation_id=UUID(int=incarnation or broker * 100),
                endpoints=(Endpoint(name="PLAINTEXT", host=f"b{broker}", port=9092),),
                features=features,
            )
        )

    def beat(
        self,
        broker: int,
        target: BrokerState = BrokerState.ACTIVE,
        *,
        epoch: int | None = None,
        offset: int | None = None,
        start: int = 0,
    ) -> BrokerHeartbeatResponse:
        known = self.controller.image.brokers.get(broker)
        answer = self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker,
                broker_epoch=(known.epoch if known else -1) if epoch is None else epoch,
                target=target,
                metadata_offset=self.controller.committed_offset if offset is None else offset,
                lease_start_ms=start,
            )
        )
        assert isinstance(answer, BrokerHeartbeatResponse)
        return answer

    def brokers(self, *ids: int) -> None:
        """Registered and active."""
        for id in ids:
            assert self.register(id).error is OK
            assert self.beat(id).next_state is BrokerState.ACTIVE

    def topic(self, name: str = "t", *replicas: tuple[int, ...], **configs: str) -> PartitionId:
        """Its first partition."""
        settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
        new = NewTopic(name=name, assignments=tuple(enumerate(replicas or ((1, 2, 3),))), configs=settings)
        (created,) = self.ask(CreateTopicsRequest(topics=(new,))).topics
        assert created.error is OK, created
        return PartitionId(created.topic_id, 0)

    def partition(self, id: PartitionId) -> Partition:
        partition = self.controller.image.partition(id)
        assert partition is not None
        return partition

    def state(self, id: PartitionId) -> tuple[int, set[int]]:
        """Leader and ISR."""
        return self.partition(id).leader, set(self.partition(id).isr)
