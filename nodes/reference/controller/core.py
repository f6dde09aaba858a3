"""The quorum controller (KIP-631) as a state machine without time or tasks: what happens in, effects out; its log is a `MetadataStore`.

    controller.leader_changed(1, epoch=4, now=now)          active: the pending state begins as the committed one
    controller.ask(ticket, CreateTopicsRequest(...), now)   records go to the store; no effect yet
    controller.committed(values, next_offset=31, now=now)   [Answered(ticket, CreateTopicsResponse(...))]

**Pending and committed** (KIP-631, Persistence and Visibility). `image` is what is committed, on the active controller and on the standbys
alike. The active one has a second state, a little ahead, on which it decides: so it need not wait for one change before it makes the
next. Whatever was decided on that state is told only when all that it builds on is committed, refusals too. When leadership is
lost, the second state is dropped, and who waits gets NOT_CONTROLLER.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from nodes.reference.controller import administration, brokers, configs, isr, topics
from nodes.reference.controller.broker_messages import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerHeartbeatRequest,
    UnregisterBrokerRequest,
)
from nodes.reference.controller.client_messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)
from nodes.reference.controller.draft import Draft, Moment
from nodes.reference.controller.messages import (
    Request,
    Response,
)
from nodes.reference.controller.refusals import not_controller
from nodes.reference.controller.sessions import Sessions
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.snapshots import OwnTurn, SnapshotSchedule
from nodes.reference.controller.store import MetadataStore
from nodes.reference.metadata.features import METADATA_VERSION
from nodes.reference.metadata.image import Image
from nodes.reference.metadata.records import decode, encode
from nodes.reference.metadata.schema import FeatureLevelRecord
from nodes.reference.protections import Protection, Protections
from nodes.reference.raft.events import NotLeader

Ticket = Hashable


class Answered(NamedTuple):
    ticket: Ticket
    response: Response


class Resign(NamedTuple):
    """Give up leadership, so that another controller can tell this one to take its snapshot."""


class TakeSnapshot(NamedTuple):
    """Of the committed state."""


Effect = Answered | Resign | TakeSnapshot


class _Waiting(NamedTuple):
    offset: int  # that must be committed
    ticket: Ticket
    request: Request
    response: Response


@dataclass
class _Term:
    """What only an active controller has."""

    epoch: int
    image: Image  # pending
    end_offset: int  # of what it has written
    sessions: Sessions
    snapshots: SnapshotSchedule
    ticked: int


class Controller:
    """`image`, `committed_offset`, `active` and `leader_id` are there to be read. Not reentrant: the store must not call back."""

    def __init__(
        self,
        node_id: int,
        settings: ControllerSettings,
        store: MetadataStore,
        protections: Protections,
        random: Random,
    ) -> None:
        self.node_id = node_id
        self.image = Image()
        self.committed_offset = 0
        self.leader_id: int | None = None
        self._settings = settings
        self._store = store
        self._protections = protections
        self._random = random
        self._term: _Term | None = None
        self._waiting: deque[_Waiting] = deque()

    @property
    def active(self) -> bool:
        return self._term is not None

    @property
    def pending(self) -> Image | None:
        """What the active controller decides on."""
        return None if self._term is None else self._term.image

    # What the log tells

    def load(self, values: Sequence[bytes], next_offset: int) -> list[Effect]:
        """A snapshot in place of everything before an offset. An active controller has all that, and gets none."""
        effects = self._lose(None)
        self.image = Image.load(values)
        self.committed_offset = next_offset
        return effects

    def committed(self, values: Sequence[bytes], next_offset: int, now: int) -> list[Effect]:
        """The next batch; no values: it was of the quorum's own records."""
        for value in values:
            self.image.apply(decode(value))
        self.committed_offset = next_offset
        return [*self._answer(), *self._own_snapshot(now)]

    def leader_changed(self, leader_id: int | None, epoch: int, now: int) -> list[Effect]:
        """The own id: all that earlier leaders committed has been told by `committed` before."""
        effects = self._lose(leader_id)
        if leader_id == self.node_id:
            effects += self._begin_term(epoch, now)
        return effects

    # What is asked, and what time brings

    def ask(self, ticket: Ticket, request: Request, now: int) -> list[Effect]:
        """Exactly one Answered follows, now or later."""
        term = self._term
        if term is None:
            return [Answered(ticket, not_controller(request, self.leader_id))]
        if isinstance(request, ControllerHeartbeatRequest):
            quorum = self._store.quorum()
            return [Answered(ticket, term.snapshots.heartbeat(request, self.committed_offset, quorum, now))]
        draft = self._draft(term, now)
        response = self._decide(draft, request)
        if not self._written(term, draft):
            return [*self._lose(None), Answered(ticket, not_controller(request, None))]
        self._waiting.append(_Waiting(term.end_offset, ticket, request, response))
        return self._answer()

    def tick(self, now: int) -> list[Effect]:
        """Sessions end (KIP-631, Fencing). A controller that was stopped itself does not know who was silent meanwhile."""
        term = self._term
        if term is None:
            return []
        if now - term.ticked > self._settings.broker_session_timeout // 2:
            self._begin_sessions(term, now)
        term.ticked = now
        draft = self._draft(term, now)
        brokers.fence_expired(draft)
        return self._own_snapshot(now) if self._written(term, draft) else self._lose(None)

    def deadline(self, now: int) -> int | None:
        """When `tick` is due at the latest."""
        term = self._term
        if term is None:
            return None
        unfenced = [id for id, broker in term.image.brokers.items() if not broker.fenced]
        soon = term.ticked + self._settings.broker_session_timeout // 4
        expiry = term.sessions.next_expiry(unfenced, now)
        return soon if expiry is None else min(soon, expiry)

    # How it is done

    def _begin_term(self, epoch: int, now: int) -> list[Effect]:
        """A standby is hot: it has the state already. All sessions begin anew; a new cluster gets its feature level."""
        term = self._term = _Term(
            epoch,
            self.image.copy(),
            self.committed_offset,
            Sessions(self._settings.broker_session_timeout, self._protections),
            SnapshotSchedule(self.node_id, self._settings),
            now,
        )
        self._begin_sessions(term, now)
        draft = self._draft(term, now)
        if METADATA_VERSION not in term.image.features:
            draft.write(FeatureLevelRecord(name=METADATA_VERSION, feature_level=self._settings.metadata_version))
        return [] if self._written(term, draft) else self._lose(None)

    def _begin_sessions(self, term: _Term, now: int) -> None:
        for broker in term.image.brokers.values():
            if not broker.fenced:
                term.sessions.begin(broker.id, now)

    def _draft(self, term: _Term, now: int) -> Draft:
        moment = Moment(
            now,
            self.committed_offset,
            self._store.end_offset,
            self._settings,
            self._protections,
            term.sessions,
            self._random,
        )
        return Draft(term.image, moment)

    def _decide(self, draft: Draft, request: Request) -> Response:
        if isinstance(request, BrokerHeartbeatRequest):
            return brokers.heartbeat(draft, request, self.node_id)
        return _RULES[type(request)](draft, request)

    def _written(self, term: _Term, draft: Draft) -> bool:
        """Hands the records to the store; False: this controller is not the active one any more, and has not been told yet."""
        if not draft.records:
            return True
        try:
            last = self._store.append(term.epoch, tuple(encode(record) for record in draft.records))
        except NotLeader:
            return False
        term.end_offset = last + 1
        return term.end_offset == draft.next_offset  # or registrations have other epochs than they were told

    def _answer(self) -> list[Effect]:
        """KIP-631: "the controller handles this by not sending back a response until the designated change has been persisted"."""
        wait = self._protections.on(Protection.COMMITTED_BEFORE_ANSWERED)
        effects: list[Effect] = []
        while self._waiting and (self._waiting[0].offset <= self.committed_offset or not wait):
            answered = self._waiting.popleft()
            effects.append(Answered(answered.ticket, answered.response))
        return effects

    def _lose(self, leader_id: int | None) -> list[Effect]:
        self._term, self.leader_id = None, leader_id
        effects: list[Effect] = [
            Answered(waiting.ticket, not_controller(waiting.request, leader_id)) for waiting in self._waiting
        ]
        self._waiting.clear()
        return effects

    def _own_snapshot(self, now: int) -> list[Effect]:
        term = self._term
        if term is None:
            return []
        turn = term.snapshots.own_turn(self._store.snapshot_offset, self.committed_offset, self._store.quorum(), now)
        if turn is OwnTurn.NOT_YET:
            return []
        return [Resign() if turn is OwnTurn.RESIGN else TakeSnapshot()]


_RULES: dict[type[Request], Callable[..., Response]] = {
    BrokerRegistrationRequest: brokers.register,
    UnregisterBrokerRequest: brokers.unregister,
    AlterPartitionRequest: isr.alter_partitions,
    AllocateProducerIdsRequest: administration.allocate_producer_ids,
    CreateTopicsRequest: topics.create_topics,
    DeleteTopicsRequest: topics.delete_topics,
    CreatePartitionsRequest: topics.create_partitions,
    AlterConfigsRequest: configs.alter_configs,
    IncrementalAlterConfigsRequest: configs.alter_configs,
    ElectLeadersRequest: administration.elect_leaders,
    UpdateFeaturesRequest: administration.update_features,
}
