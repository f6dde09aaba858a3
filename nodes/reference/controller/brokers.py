"""Registration and life of brokers (KIP-631, Broker Registration and State Management).

INITIAL -> FENCED        registered; its epoch is the offset of the registration
FENCED -> ACTIVE         it asks for it in a heartbeat, and its metadata has its own registration and is not too old
ACTIVE -> FENCED         its session ends, it asks for it, its metadata is too old, or another process has taken its id
ACTIVE -> SHUTDOWN       it asks for it; first its leaderships move, and all active brokers know that they did
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from nodes.reference.controller import elections
from nodes.reference.controller.broker_messages import (
    OK,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    BrokerState,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from nodes.reference.controller.draft import Draft
from nodes.reference.controller.sessions import Session
from nodes.reference.metadata import features
from nodes.reference.metadata.entities import Broker
from nodes.reference.metadata.schema import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    SupportedFeature,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from nodes.reference.protections import Protection


def register(draft: Draft, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
    """KIP-631, Broker ID Conflicts: a new process wins. One that asks again keeps its epoch; one that has lost
    its id stays out while the other one lives."""
    sessions, now = draft.moment.sessions, draft.moment.now
    if request.cluster_id != draft.moment.settings.cluster_id:
        return BrokerRegistrationResponse(error=ErrorCode.inconsistent_cluster_id)
    known = draft.image.brokers.get(request.broker_id)
    if known is not None and known.incarnation_id == request.incarnation_id:
        return BrokerRegistrationResponse(error=OK, broker_epoch=known.epoch)
    if not _supports_levels(draft, request.features):
        return BrokerRegistrationResponse(error=ErrorCode.unsupported_version)
    if sessions.superseded(request.broker_id, request.incarnation_id, now):
        return BrokerRegistrationResponse(error=ErrorCode.duplicate_broker_registration)
    if known is not None:
        if not draft.moment.protections.on(Protection.ID_CONFLICT_RESOLVED):
            return BrokerRegistrationResponse(error=OK, broker_epoch=known.epoch)
        sessions.supersede(request.broker_id, known.incarnation_id)
    epoch = draft.next_offset
    draft.write(
        RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=epoch,
            end_points=request.endpoints,
            features=request.features,
            rack=request.rack,
        )
    )
    elections.leave(draft, request.broker_id)
    sessions.begin(request.broker_id, now)
    return BrokerRegistrationResponse(error=OK, broker_epoch=epoch)


def heartbeat(draft: Draft, request: BrokerHeartbeatRequest, controller_id: int) -> BrokerHeartbeatResponse:
    """KIP-631, Broker Heartbeats: renews the lease, and says which state the broker is to be in."""
    error = epoch_error(draft, request.broker_id, request.broker_epoch, heartbeat=True)
    if error is not OK:
        return BrokerHeartbeatResponse(error=error, active_controller_id=controller_id)
    broker = draft.image.brokers[request.broker_id]
    moment = draft.moment
    session = moment.sessions.heard(broker.id, request.metadata_offset, moment.committed_offset, moment.now)
    return BrokerHeartbeatResponse(
        error=OK,
        active_controller_id=controller_id,
        next_state=_next_state(draft, broker, session, request),
        broker_epoch=broker.epoch,
        lease_end_ms=request.lease_start_ms + moment.settings.lease_ms,
    )


def unregister(draft: Draft, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """What it has of partitions stays assigned to it."""
    known = draft.image.brokers.get(request.broker_id)
    if known is None:
        return UnregisterBrokerResponse(
            error=ErrorCode.broker_id_not_registered, message=f"broker {request.broker_id} is not registered"
        )
    elections.leave(draft, known.id)
    draft.write(UnregisterBrokerRecord(broker_id=known.id, broker_epoch=known.epoch))
    draft.moment.sessions.end(known.id)
    return UnregisterBrokerResponse(error=OK)


def epoch_error(draft: Draft, broker_id: int, broker_epoch: int, *, heartbeat: bool = False) -> ErrorCode:
    """KIP-631, Broker ID Conflicts: a process with a stale epoch has lost its id."""
    broker = draft.image.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.broker_id_not_registered
    if broker_epoch == broker.epoch:
        return OK
    if heartbeat and not draft.moment.protections.on(Protection.STALE_EPOCH_IN_HEARTBEAT):
        return OK
    return ErrorCode.stale_broker_epoch


def fence(draft: Draft, broker_id: int) -> None:
    """KIP-631, Fencing: out of the ISRs, no leader any more."""
    broker = draft.image.brokers[broker_id]
    if features.registration_changes(draft.image.metadata_version):
        draft.write(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=1))
    else:
        draft.write(FenceBrokerRecord(id=broker_id, epoch=broker.epoch))
    elections.leave(draft, broker_id)


def fence_expired(draft: Draft) -> None:
    """Of those that are not fenced yet, all whose session has ended."""
    unfenced = [id for id, broker in draft.image.brokers.items() if not broker.fenced]
    for broker_id in draft.moment.sessions.expired(unfenced, draft.moment.now):
        fence(draft, broker_id)


def _next_state(draft: Draft, broker: Broker, session: Session, request: BrokerHeartbeatRequest) -> BrokerState:
    too_old = draft.moment.now - session.caught_up > draft.moment.settings.metadata_max_lag
    if broker.fenced:
        if request.target is BrokerState.SHUTDOWN:
            return BrokerState.SHUTDOWN
        if request.target is not BrokerState.ACTIVE or request.metadata_offset <= broker.epoch or too_old:
            return BrokerState.FENCED
        _unfence(draft, broker)
        return BrokerState.ACTIVE
    if request.target is BrokerState.FENCED or (too_old and request.target is not BrokerState.SHUTDOWN):
        fence(draft, broker.id)
        return BrokerState.FENCED
    if request.target is BrokerState.SHUTDOWN or broker.in_controlled_shutdown:
        return _stop(draft, broker, session)
    return BrokerState.ACTIVE


def _unfence(draft: Draft, broker: Broker) -> None:
    if features.registration_changes(draft.image.metadata_version):
        draft.write(BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=-1))
    else:
        draft.write(UnfenceBrokerRecord(id=broker.id, epoch=broker.epoch))
    elections.come_back(draft, broker.id)


def _stop(draft: Draft, broker: Broker, session: Session) -> BrokerState:
    """KIP-631, Controlled Shutdown: its leaders move; it may go when all active brokers have heard of that."""
    if session.stopping_since is None:
        recorded = features.controlled_shutdown_state(draft.image.metadata_version)
        if recorded and not broker.in_controlled_shutdown:
            draft.write(
                BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1)
            )
        elections.leave(draft, broker.id)
        session.stopping_since = draft.next_offset
    others = [id for id, other in draft.image.brokers.items() if other.active and id != broker.id]
    if not draft.moment.sessions.have_metadata(session.stopping_since, others):
        return BrokerState.ACTIVE
    fence(draft, broker.id)
    return BrokerState.SHUTDOWN


def _supports_levels(draft: Draft, supported: tuple[SupportedFeature, ...]) -> bool:
    """KIP-584: every finalized level must be within what the broker supports."""
    ranges = {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in supported}
    return all(
        name in ranges and ranges[name][0] <= level <= ranges[name][1] for name, level in draft.image.features.items()
    )
