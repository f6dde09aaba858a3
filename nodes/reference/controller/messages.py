"""What brokers, controllers and administrators ask the active controller, and its answers. Values, which a network may carry as they are.

`wire.py` maps each to Kafka's messages (kio), or to the seeds' own (`schema.py`):

    here                        Kafka's API, key, versions           who asks
    BrokerRegistrationRequest   BrokerRegistration 62, 0-1           a broker that starts, until it has an epoch
    BrokerHeartbeatRequest      KIP-631's BrokerHeartbeat (1050, 0)  a registered broker, every broker.heartbeat.interval.ms
    UnregisterBrokerRequest     UnregisterBroker 64, 0               an administrator
    AlterPartitionRequest       AlterPartition 56, 0-3; 0 is KIP-497's AlterIsr                      a leader
    AllocateProducerIdsRequest  AllocateProducerIds 67, 0            a broker that runs out of producer ids
    ControllerHeartbeatRequest  KIP-631's ControllerHeartbeat (1051, 0)                               a standby controller
    CreateTopicsRequest         CreateTopics 19, 2-7                 clients, passed on by a broker, as all below
    DeleteTopicsRequest         DeleteTopics 20, 1-6
    CreatePartitionsRequest     CreatePartitions 37, 0-3
    AlterConfigsRequest         AlterConfigs 33, 0-2
    IncrementalAlterConfigsRequest  IncrementalAlterConfigs 44, 0-1
    ElectLeadersRequest         ElectLeaders 43, 0-2
    UpdateFeaturesRequest       UpdateFeatures 57, 0-1

The contract, for a broker:

- Whoever is not the active controller answers every request with error NOT_CONTROLLER in the place where that API has its error; in those
  without a common one, for each of their topics or resources.
- An answer comes when what it says is committed. If leadership is lost before that, the answer is NOT_CONTROLLER, and what was asked
  may happen or not. Everything may be asked again: repeating is answered as Kafka answers it (INVALID_UPDATE_VERSION,
  TOPIC_ALREADY_EXISTS ...).
- A broker registers with a new `incarnation_id` in each of its lives, and gets the offset of its registration as its epoch. It may leave
  the FENCED state when a heartbeat's answer says ACTIVE, and it must go back when one says FENCED, when its lease ends, or at
  STALE_BROKER_EPOCH (another process has its id) and BROKER_ID_NOT_REGISTERED; after those two it has to register again. A
  process that has lost its id to another one is refused with DUPLICATE_BROKER_REGISTRATION until that one has been silent for a session.
- Lease times are milliseconds of the broker's own monotonic clock: it says when the heartbeat was sent, it is told when the lease ends.
"""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """partition_count, replication_factor: -1 for the default, or with `assignments` (partition index, replicas)."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest:
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT,
    INVALID_CONFIG, INVALID_REQUEST (named twice).
    """

    name: str
    error: ErrorCode
    message: str | None = None
    topic_id: UUID | None = None
    partition_count: int = -1
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()  # what was set


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    topics: tuple[CreatedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    """Each by its name, or from version 6 on by its id."""

    topics: tuple[UUID | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """UNKNOWN_TOPIC_OR_PARTITION (by name), UNKNOWN_TOPIC_ID."""

    name: str | None
    topic_id: UUID | None
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse:
    topics: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """count: how many there shall be in all. assignments: the replicas of each new one; None: the controller places them."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequest:
    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedError:
    """name: of a topic, or of a feature."""

    name: str
    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponse:
    """UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR."""

    topics: tuple[NamedError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceConfigs:
    """resource_type: 2 topic, 4 broker ("" for all). All that shall be set; what is not named goes back to its default."""

    resource_type: int
    resource_name: str
    configs: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsRequest:
    resources: tuple[ResourceConfigs, ...]
    validate_only: bool = False


class ConfigOperation(enum.IntEnum):
    """KIP-339. APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    name: str
    operation: ConfigOperation
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceChanges:
    resource_type: int
    resource_name: str
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    resources: tuple[ResourceChanges, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredConfigs:
    """INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION."""

    resource_type: int
    resource_name: str
    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse:
    """Of both ways to alter them."""

    resources: tuple[AlteredConfigs, ...]


class ElectionType(enum.IntEnum):
    """KIP-460."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest:
    """partitions: topic and index; None: all there are, and only those are answered for which there was something to do."""

    election: ElectionType
    partitions: tuple[tuple[str, int], ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE."""

    topic: str
    index: int
    error: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse:
    error: ErrorCode
    partitions: tuple[Election, ...] = ()


class UpgradeType(enum.IntEnum):
    """KIP-584: a safe downgrade loses nothing that was written; an unsafe one may."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    name: str
    level: int  # 0: switch it off
    upgrade: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesRequest:
    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse:
    """INVALID_UPDATE_VERSION, FEATURE_UPDATE_FAILED: all or none."""

    error: ErrorCode
    message: str | None = None
    features: tuple[NamedError, ...] = ()


Request = (
    BrokerRegistrationRequest
    | BrokerHeartbeatRequest
    | UnregisterBrokerRequest
    | AlterPartitionRequest
    | AllocateProducerIdsRequest
    | ControllerHeartbeatRequest
    | CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | AlterConfigsRequest
    | IncrementalAlterConfigsRequest
    | ElectLeadersRequest
    | UpdateFeaturesRequest
)
Response = (
    BrokerRegistrationResponse
    | BrokerHeartbeatResponse
    | UnregisterBrokerResponse
    | AlterPartitionResponse
    | AllocateProducerIdsResponse
    | ControllerHeartbeatResponse
    | CreateTopicsResponse
    | DeleteTopicsResponse
    | CreatePartitionsResponse
    | AlterConfigsResponse
    | ElectLeadersResponse
    | UpdateFeaturesResponse
)
