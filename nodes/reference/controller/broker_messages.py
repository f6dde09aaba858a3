"""What brokers and standby controllers ask the active controller, and its answers; the contract is in messages.py."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.reference.metadata.schema import Endpoint, SupportedFeature

OK = ErrorCode.none


class BrokerState(enum.IntEnum):
    """KIP-631, BrokerHeartbeat: where a broker is, or wants to be."""

    UNKNOWN = 0
    INITIAL = 1
    FENCED = 2
    ACTIVE = 3
    SHUTDOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationRequest:
    """KIP-631, Broker Registration. A registration begins fenced."""

    broker_id: int
    cluster_id: str
    incarnation_id: UUID  # of this process
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[SupportedFeature, ...] = ()
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationResponse:
    """INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, UNSUPPORTED_VERSION (a finalized feature level is out of its range)."""

    error: ErrorCode
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequest:
    """KIP-631, BrokerHeartbeat. target: ACTIVE; FENCED while it does not want to serve yet; SHUTDOWN for a controlled shutdown."""

    broker_id: int
    broker_epoch: int
    target: BrokerState
    metadata_offset: int  # the end of what it has applied of the metadata log: Replica.applied_offset
    lease_start_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatResponse:
    """STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED, NOT_CONTROLLER (then `active_controller_id` may know better).

    next_state: FENCED, ACTIVE, or SHUTDOWN: nothing is led any more, and the process may end.
    """

    error: ErrorCode
    active_controller_id: int = -1
    next_state: BrokerState = BrokerState.UNKNOWN
    broker_epoch: int = -1
    lease_end_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest:
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerResponse:
    """BROKER_ID_NOT_REGISTERED."""

    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedIsr:
    """What the leader of one partition asks for. topic: its id from version 2 on, its name before."""

    topic: UUID | str
    index: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[tuple[int, int], ...]  # broker id and epoch, -1 where it is not known (KIP-903)
    recovery: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionRequest:
    """KIP-497, AlterIsr; KIP-903. version: decides which errors the leader understands."""

    broker_id: int
    broker_epoch: int
    partitions: tuple[ProposedIsr, ...]
    version: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredPartition:
    """Errors in the order in which they are looked for: isr.py."""

    topic: UUID | str
    index: int
    error: ErrorCode
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    recovery: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponse:
    """error: STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED, NOT_CONTROLLER: then nothing was looked at."""

    error: ErrorCode
    partitions: tuple[AlteredPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsRequest:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsResponse:
    """The ids from `start` on belong to this broker and to nobody else, ever."""

    error: ErrorCode
    start: int = -1
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerHeartbeatRequest:
    """KIP-631, ControllerHeartbeat."""

    controller_id: int
    last_snapshot_offset: int  # 0: none yet


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerHeartbeatResponse:
    error: ErrorCode
    start_snapshot: bool = False
