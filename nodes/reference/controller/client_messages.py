"""What clients ask the active controller, passed on by a broker, and its answers: topics, configurations, elections, feature levels."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode


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
