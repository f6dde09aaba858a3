"""The record types of the metadata log (KIP-631, Record Formats), declared as kio declares Kafka's messages; kio has none of them.

Types and layouts are those that Kafka shipped (metadata/src/main/resources/common/metadata/*.json), not the proposal's draft: what reads a
Kafka's metadata log reads this one too. Where the two differ: a registration carries an incarnation id and features; IsrChange became
PartitionChange, whose tagged fields say only what changes; deleting a topic is a record of its own; ACLs have an id each. Each type is
written in one version (`__version__`); which types are written is a matter of the feature level (`features.py`).

    PartitionChangeRecord(partition_id=0, topic_id=UUID(int=7), isr=(2, 3), leader=2)      leader -2: it stays, and so does its epoch

Fields are plain ints: a record is built where its values are known to fit.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType
from kio.static.primitive import i16

NO_LEADER_CHANGE: Final = -2  # in a PartitionChangeRecord; -1 is "nobody leads"
_BOOL: Final = {"kafka_type": "bool"}
_INT8: Final = {"kafka_type": "int8"}
_INT16: Final = {"kafka_type": "int16"}
_INT32: Final = {"kafka_type": "int32"}
_INT64: Final = {"kafka_type": "int64"}
_UINT16: Final = {"kafka_type": "uint16"}
_FLOAT64: Final = {"kafka_type": "float64"}
_STRING: Final = {"kafka_type": "string"}
_UUID: Final = {"kafka_type": "uuid"}


def _tag(number: int, kind: dict[str, str]) -> dict[str, object]:
    return {**kind, "tag": number}


class _Record:
    __slots__ = ()
    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


class _Nested(_Record):
    __slots__ = ()
    __type__: ClassVar = EntityType.nested


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(_Nested):
    """A listener. security_protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str = field(metadata=_STRING)
    host: str = field(metadata=_STRING)
    port: int = field(metadata=_UINT16)
    security_protocol: int = field(metadata=_INT16, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFeature(_Nested):
    """KIP-584: the levels that a broker can work with."""

    name: str = field(metadata=_STRING)
    min_supported_version: int = field(metadata=_INT16)
    max_supported_version: int = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord(_Record):
    """A process has got a broker id. Its epoch is the offset of this record."""

    __version__: ClassVar[i16] = i16(1)
    broker_id: int = field(metadata=_INT32)
    incarnation_id: UUID = field(metadata=_UUID)
    broker_epoch: int = field(metadata=_INT64)
    end_points: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]
    rack: str | None = field(metadata=_STRING)
    fenced: bool = field(metadata=_BOOL, default=True)
    in_controlled_shutdown: bool = field(metadata=_BOOL, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord(_Record):
    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(_Record):
    name: str = field(metadata=_STRING)
    topic_id: UUID = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord(_Record):
    """A partition as a whole: when it is created, and in snapshots. leader_recovery_state: 1 after an unclean election (KIP-704)."""

    partition_id: int = field(metadata=_INT32)
    topic_id: UUID = field(metadata=_UUID)
    replicas: tuple[int, ...] = field(metadata=_INT32)
    isr: tuple[int, ...] = field(metadata=_INT32)
    removing_replicas: tuple[int, ...] = field(metadata=_INT32, default=())
    adding_replicas: tuple[int, ...] = field(metadata=_INT32, default=())
    leader: int = field(metadata=_INT32, default=-1)
    leader_epoch: int = field(metadata=_INT32, default=-1)
    partition_epoch: int = field(metadata=_INT32, default=-1)
    leader_recovery_state: int = field(metadata=_tag(0, _INT8), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord(_Record):
    """resource_type: 2 topic, 4 broker (name "": all of them). value None: back to the default."""

    resource_type: int = field(metadata=_INT8)
    resource_name: str = field(metadata=_STRING)
    name: str = field(metadata=_STRING)
    value: str | None = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord(_Record):
    """What changes about a partition; the partition epoch grows by one with each, the leader epoch with each that names a leader."""

    partition_id: int = field(metadata=_INT32)
    topic_id: UUID = field(metadata=_UUID)
    isr: tuple[int, ...] | None = field(metadata=_tag(0, _INT32), default=None)
    leader: int = field(metadata=_tag(1, _INT32), default=NO_LEADER_CHANGE)
    replicas: tuple[int, ...] | None = field(metadata=_tag(2, _INT32), default=None)
    removing_replicas: tuple[int, ...] | None = field(metadata=_tag(3, _INT32), default=None)
    adding_replicas: tuple[int, ...] | None = field(metadata=_tag(4, _INT32), default=None)
    leader_recovery_state: int = field(metadata=_tag(5, _INT8), default=-1)  # -1: as it was


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRecord(_Record):
    """Before metadata.version 3.3-IV2; since then BrokerRegistrationChangeRecord."""

    id: int = field(metadata=_INT32)
    epoch: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerRecord(_Record):
    """Before metadata.version 3.3-IV2; since then BrokerRegistrationChangeRecord."""

    id: int = field(metadata=_INT32)
    epoch: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord(_Record):
    topic_id: UUID = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord(_Record):
    """KIP-584. feature_level 0: the feature is off."""

    name: str = field(metadata=_STRING)
    feature_level: int = field(metadata=_INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity(_Nested):
    """entity_type: user, client-id or ip. entity_name None: the default of that type."""

    entity_type: str = field(metadata=_STRING)
    entity_name: str | None = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord(_Record):
    entity: tuple[QuotaEntity, ...]
    key: str = field(metadata=_STRING)
    value: float = field(metadata=_FLOAT64)
    remove: bool = field(metadata=_BOOL, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord(_Record):
    """All ids before the next one have been handed out, the newest block to this broker."""

    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64)
    next_producer_id: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord(_Record):
    """fenced: 1 fenced, -1 no longer, 0 as it was; in_controlled_shutdown: 1 begun (KIP-841), 0 as it was."""

    __version__: ClassVar[i16] = i16(1)
    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64)
    fenced: int = field(metadata=_tag(0, _INT8), default=0)
    in_controlled_shutdown: int = field(metadata=_tag(1, _INT8), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord(_Record):
    """The numbers are those of Kafka's AclBinding."""

    id: UUID = field(metadata=_UUID)
    resource_type: int = field(metadata=_INT8)
    resource_name: str = field(metadata=_STRING)
    pattern_type: int = field(metadata=_INT8)
    principal: str = field(metadata=_STRING)
    host: str = field(metadata=_STRING)
    operation: int = field(metadata=_INT8)
    permission_type: int = field(metadata=_INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord(_Record):
    id: UUID = field(metadata=_UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord(_Record):
    """Says nothing; moves the high watermark."""


Record = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
)

TYPES: Final[dict[int, type[Record]]] = {
    0: RegisterBrokerRecord,
    1: UnregisterBrokerRecord,
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    7: FenceBrokerRecord,
    8: UnfenceBrokerRecord,
    9: RemoveTopicRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    17: BrokerRegistrationChangeRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    20: NoOpRecord,
}
