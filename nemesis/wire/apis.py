"""What Kafka frames say: names of APIs, and the key fields of a frame as plain data.

`decode` goes through kio and gives camelCase names, as in Kafka's own JSON, in one shape for all APIs and versions:

    AlterPartition v3  {"brokerId": 1, "brokerEpoch": 31, "topicId": "Jr3...", "partition": 0, "leaderEpoch": 3,
                        "newIsr": [1, 2], "brokerEpochs": [31, 44], "leaderRecoveryState": 0, "partitionEpoch": 5}
    EndTxn v1          {"transactionalId": "t", "producerId": 4000, "producerEpoch": 0, "committed": true}

Partitions of topics become one flat row each ("topic" or "topicId", "partition" and what belongs to them). A single one is merged into
the frame's own fields, as above; several are a list under "partitions". Bytes (record batches) become their length.

Frames in versions that kio lacks are not decoded: None; those of AlterPartition that it dropped are declared in
`nodes/reference/controller/declared.py`, and so are the reference cluster's heartbeats, which are KIP-631's and have keys of their own; by
name they are the same.
"""

from __future__ import annotations

import base64
import datetime
import enum
import io
import json
import re
import uuid
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, Final, Literal, cast

from kio.index import KioIndexError, load_payload_module
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_writer
from kio.serial.errors import SerialError
from kio.static.constants import EntityType

from nemesis.wire.message import Direction
from nodes.protocol.tolerant import read_entity
from nodes.reference.controller import schema as proposed
from nodes.reference.controller.declared import DECLARED

ALTER_PARTITION: Final = 56
_FORMER: Final = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown"}  # gone in Kafka 4
_PROPOSED: Final = {proposed.BROKER_HEARTBEAT: "BrokerHeartbeat", proposed.CONTROLLER_HEARTBEAT: "ControllerHeartbeat"}
_SHIPPED: Final = {key: "".join(word.capitalize() for word in name.split("_")) for key, name in api_key_map.items()}
NAMES: Final[Mapping[int, str]] = _FORMER | _SHIPPED | _PROPOSED
KEYS: Final[Mapping[str, frozenset[int]]] = {
    name: frozenset(key for key in NAMES if NAMES[key] == name) for name in NAMES.values()
}

# Decoded into `fields` whoever asks: who leads, who is alive, who may write.
_CONTROL_PLANE: Final = {
    "topics": ("CreateTopics", "DeleteTopics", "CreatePartitions", "AlterPartitionReassignments"),
    "leaders": ("ElectLeaders", "AlterPartition", "AssignReplicasToDirs"),
    "writers": (
        "InitProducerId",
        "AllocateProducerIds",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "EndTxn",
        "WriteTxnMarkers",
    ),
    "quorum": (
        "Vote",
        "BeginQuorumEpoch",
        "EndQuorumEpoch",
        "DescribeQuorum",
        "AddRaftVoter",
        "RemoveRaftVoter",
        "UpdateRaftVoter",
    ),
    "nodes": (
        "BrokerRegistration",
        "BrokerHeartbeat",
        "UnregisterBroker",
        "ControllerRegistration",
        "ControllerHeartbeat",
        "UpdateFeatures",
    ),
}
CONTROL_PLANE: Final = frozenset(key for names in _CONTROL_PLANE.values() for name in names for key in KEYS[name])
ERRORS: Final[Mapping[str, ErrorCode]] = {code.name.upper(): code for code in ErrorCode}

_ROWS_KEPT = 50  # of a frame about more partitions, `fields` in a row of `messages` holds the first ones
_NAMES_OF_TOPIC = ("name", "topicName", "topic")
_NAMES_OF_PARTITION = ("partitionIndex", "partition", "partitionId", "index")
_TOPICS = ("topics", "topicData", "responses", "replicaElectionResults", "topicPartitions", "topicStates")
_PARTITIONS = (
    "partitions",
    "partitionData",
    "partitionResponses",
    "partitionResult",
    "partitionResults",
    "partitionIndexes",
)


@dataclass(frozen=True, kw_only=True)
class Decoded:
    fields: dict[str, Any]
    error: str | None  # of a response: the first error in it, or NONE

    def rows(self) -> list[dict[str, Any]]:
        """What a predicate is tried on: the fields, once per partition that they speak of."""
        if not isinstance(partitions := self.fields.get("partitions"), list):
            return [self.fields]
        rest = {name: value for name, value in self.fields.items() if name != "partitions"}
        return [rest | row if isinstance(row, dict) else rest | {"partition": row} for row in partitions]

    def as_text(self) -> str:
        """JSON for `Message.fields`, of bounded length."""
        kept = {
            name: [*value[:_ROWS_KEPT], f"and {len(value) - _ROWS_KEPT} more"]
            if isinstance(value, list) and len(value) > _ROWS_KEPT
            else value
            for name, value in self.fields.items()
        }
        return json.dumps(kept)


def api_name(api: int) -> str:
    return NAMES.get(api, f"api {api}") if api >= 0 else "opaque"


def decode(api: int, version: int, direction: Direction, frame: bytes) -> Decoded | None:
    """A frame without its length prefix. None when this version is unknown here, or the bytes are not such a message."""
    reader = _reader(api, version, direction)
    if reader is None:
        return None
    try:
        entity = _entity(reader, frame)
    except _UNREADABLE:
        return None
    plain = cast(dict[str, Any], _plain(entity))
    error = _first_error(plain) if direction is Direction.RESPONSE else None
    return Decoded(fields=_flat(plain), error=error)


def with_error(api: int, version: int, frame: bytes, error: str) -> bytes | None:
    """A response frame with every error code that is nearest to its top replaced; None where that cannot be done."""
    reader = _reader(api, version, Direction.RESPONSE)
    if reader is None:
        return None
    header_type, payload_type = reader
    try:
        header, size = read_entity(header_type, frame, 0)
        payload, _ = read_entity(payload_type, frame, size)
        changed, count = _replace_errors(payload, ERRORS[error])
        if count == 0:
            return None
        return _written(header_type, header) + _written(payload_type, changed)
    except _UNREADABLE:
        return None


def warm_up() -> None:
    """Import what decoding the usual control-plane frames takes, before the first of them waits for it."""
    for api in (ALTER_PARTITION, *KEYS["BrokerHeartbeat"], *KEYS["BrokerRegistration"]):
        for version in range(8):
            for direction in Direction:
                _reader(api, version, direction)


_UNREADABLE = (SerialError, ValueError, TypeError, OverflowError, KeyError)
_Reader = tuple[Any, Any]  # the types of header and payload


@cache
def _reader(api: int, version: int, direction: Direction) -> _Reader | None:
    kind: Literal[EntityType.request, EntityType.response]
    kind = EntityType.request if direction is Direction.REQUEST else EntityType.response
    payload_type: Any
    if (api, version) in DECLARED:
        payload_type = DECLARED[api, version][0 if direction is Direction.REQUEST else 1]
    else:
        try:
            module = load_payload_module(api, version, kind)
        except KioIndexError:
            return None
        payload_type = next(one for one in vars(module).values() if getattr(one, "__type__", None) is kind)
    return payload_type.__header_schema__, payload_type


def _entity(reader: _Reader, frame: bytes) -> Any:
    _, position = read_entity(reader[0], frame, 0)
    entity, end = read_entity(reader[1], frame, position)
    if end != len(frame):
        raise ValueError("bytes left unread")
    return entity


def _written(kind: Any, entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(kind)(buffer, entity)
    return buffer.getvalue()


def _camel(name: str) -> str:
    return re.sub(r"_+([a-z0-9])", lambda found: found[1].upper(), name)


@cache
def _names(kind: Hashable) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, _camel(field.name)) for field in fields(cast(Any, kind)))


def _plain(value: Any) -> Any:
    match value:
        case ErrorCode():
            return value.name.upper()
        case None | bool() | str() | float():
            return value
        case int():
            return int(value)
        case uuid.UUID():
            return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case tuple() | list():
            return [_plain(item) for item in value]
        case bytes() | bytearray() | memoryview():
            return len(value)
        case datetime.timedelta():
            return round(value.total_seconds() * 1000)
        case datetime.datetime():
            return round(value.timestamp() * 1000)
        case enum.Enum():
            return value.name
    if is_dataclass(value):
        return {name: _plain(getattr(value, field)) for field, name in _names(cast(Hashable, type(value)))}
    return str(value)


def _first_error(value: Any) -> str:
    """Breadth first: a response's own error before those of its parts."""
    level = [value]
    while level:
        for item in level:
            if isinstance(item, dict) and item.get("errorCode", "NONE") != "NONE":
                return str(item["errorCode"])
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, (dict, list))
        ]
    return "NONE"


def _flat(plain: dict[str, Any]) -> dict[str, Any]:
    """Partitions as flat rows; see the module's docstring."""
    name = next((name for name in _TOPICS if _has_topics(plain.get(name))), None)
    if name is None:
        return _same_everywhere(plain)
    rest = {key: value for key, value in plain.items() if key != name}
    rows = [row for topic in plain[name] for row in _rows_of(topic)]
    if len(rows) == 1:
        return rest | rows[0]
    return rest | {"partitions": rows}


def _has_topics(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) and _part(each) for each in value)


def _part(topic: dict[str, Any]) -> str | None:
    return next((name for name in _PARTITIONS if isinstance(topic.get(name), list)), None)


def _rows_of(topic: dict[str, Any]) -> list[dict[str, Any]]:
    part = _part(topic)
    assert part is not None
    about = {key: value for key, value in topic.items() if key != part}
    for name in _NAMES_OF_TOPIC:
        if name in about:
            about = {"topic": about.pop(name)} | about
            break
    return [
        about | _same_everywhere(row) if isinstance(row, dict) else about | {"partition": row} for row in topic[part]
    ]


def _same_everywhere(row: dict[str, Any]) -> dict[str, Any]:
    """One name for what is called differently in other versions: the partition, and the new ISR with its broker epochs."""
    row = dict(row)
    for name in _NAMES_OF_PARTITION:
        if isinstance(row.get(name), int):
            row = {"partition": row.pop(name)} | row
            break
    if isinstance(members := row.pop("newIsrWithEpochs", None), list):
        row["newIsr"] = [member["brokerId"] for member in members]
        row["brokerEpochs"] = [member["brokerEpoch"] for member in members]
    return row


def _replace_errors(value: Any, error: ErrorCode) -> tuple[Any, int]:
    """The entity with its own error code replaced, or else those of its parts; and how many were."""
    names = {field.name for field in fields(value)}
    if "error_code" in names:
        return replace(value, error_code=error), 1
    count = 0
    changes: dict[str, Any] = {}
    for name in names:
        inner = getattr(value, name)
        if isinstance(inner, tuple) and inner and is_dataclass(inner[0]):
            changed = [_replace_errors(item, error) for item in inner]
            count += sum(number for _, number in changed)
            changes[name] = tuple(item for item, _ in changed)
    return replace(value, **changes), count
