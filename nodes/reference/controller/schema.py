"""The seeds' own requests to the controller, declared as kio declares Kafka's.

KIP-631 gives BrokerHeartbeat and ControllerHeartbeat the keys 50 and 51, which Kafka uses for SCRAM; here they are 1050 and 1051. Kafka
shipped another BrokerHeartbeat (63), without lease and target state, and a registration of its own (62), which is used here too: so the
listeners are registered there, and of the proposal's heartbeat only that field is left out.

AlterPartition began as KIP-497's AlterIsr, version 0 (2.7): topics by name, no broker epochs. kio has only what Kafka 4 still speaks.
Version 1 is in old_alter_partition.py; declared.py is the table of all of them.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32Timedelta

BROKER_HEARTBEAT: Final = 1050
CONTROLLER_HEARTBEAT: Final = 1051
ALTER_PARTITION: Final = 56
_BOOL: Final = {"kafka_type": "bool"}
_INT8: Final = {"kafka_type": "int8"}
_INT32: Final = {"kafka_type": "int32"}
_INT64: Final = {"kafka_type": "int64"}
_STRING: Final = {"kafka_type": "string"}
_ERROR: Final = {"kafka_type": "error_code"}


class _Request:
    __slots__ = ()
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


class _Response:
    __slots__ = ()
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader


class _Nested:
    __slots__ = ()
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequest(_Request):
    """KIP-631, BrokerHeartbeat."""

    __api_key__: ClassVar[i16] = i16(BROKER_HEARTBEAT)
    target_state: int = field(metadata=_INT8)
    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64, default=-1)
    lease_start_time_ms: int = field(metadata=_INT64)
    cur_metadata_offset: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatResponse(_Response):
    __api_key__: ClassVar[i16] = i16(BROKER_HEARTBEAT)
    error_code: ErrorCode = field(metadata=_ERROR)
    active_controller_id: int = field(metadata=_INT32)
    next_state: int = field(metadata=_INT8)
    broker_epoch: int = field(metadata=_INT64, default=-1)
    lease_end_time_ms: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerHeartbeatRequest(_Request):
    """KIP-631, ControllerHeartbeat."""

    __api_key__: ClassVar[i16] = i16(CONTROLLER_HEARTBEAT)
    controller_id: int = field(metadata=_INT32)
    last_snapshot_offset: int = field(metadata=_INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerHeartbeatResponse(_Response):
    __api_key__: ClassVar[i16] = i16(CONTROLLER_HEARTBEAT)
    error_code: ErrorCode = field(metadata=_ERROR)
    start_snapshot: bool = field(metadata=_BOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedIsr(_Nested):
    partition_index: int = field(metadata=_INT32)
    leader_epoch: int = field(metadata=_INT32)
    new_isr: tuple[int, ...] = field(metadata=_INT32)
    current_isr_version: int = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTopic(_Nested):
    name: str = field(metadata=_STRING)
    partitions: tuple[AskedIsr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterIsrRequest(_Request):
    """KIP-497, Public Interfaces, as it was shipped: Kafka's version 0."""

    __api_key__: ClassVar[i16] = i16(ALTER_PARTITION)
    broker_id: int = field(metadata=_INT32)
    broker_epoch: int = field(metadata=_INT64, default=-1)
    topics: tuple[AskedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredIsr(_Nested):
    partition_index: int = field(metadata=_INT32)
    error_code: ErrorCode = field(metadata=_ERROR)
    leader_id: int = field(metadata=_INT32)
    leader_epoch: int = field(metadata=_INT32)
    isr: tuple[int, ...] = field(metadata=_INT32)
    current_isr_version: int = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredTopic(_Nested):
    name: str = field(metadata=_STRING)
    partitions: tuple[AnsweredIsr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterIsrResponse(_Response):
    __api_key__: ClassVar[i16] = i16(ALTER_PARTITION)
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata=_ERROR)
    topics: tuple[AnsweredTopic, ...]
