"""Messages as bytes and back: frames of the Kafka protocol, with kio for what is in them and `raft/wire.py` for the quorum's messages.

    codec = Codec(cluster_id="k")
    codec.request(message, correlation_id=1, client_id="broker-1")     # a frame with its length
    codec.read_request(frame, handlers)                                # Incoming(correlation_id, client_id, request)
    codec.response(incoming, response)                                 # a frame with its length
    codec.read_response(frame, request)                                # (correlation_id, response)

A Fetch of the one partition `__cluster_metadata`-0, Vote and its like become Raft's messages; everything else is kio's entity.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.describe_quorum.v1.request import DescribeQuorumRequest
from kio.schema.fetch.v12.request import FetchRequest
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from nodes.protocol.bounds import walked
from nodes.protocol.tolerant import read_entity
from nodes.reference.controller import wire as controllers
from nodes.reference.controller.messages import Request as ControllersRequest
from nodes.reference.raft import wire
from nodes.reference.raft.messages import Request, Response
from nodes.reference.raft.records import CorruptBatch
from nodes.reference.server.handlers import Api, Handlers
from nodes.reference.server.schema import request_class, response_class

_HEAD: Final = struct.Struct(">hhi")  # api key, api version, correlation id
_SIZE: Final = struct.Struct(">i")
_QUORUM_ONLY: Final = frozenset({Api.VOTE, Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH, Api.FETCH_SNAPSHOT})
_TOLERATED: Final = {Api.METADATA: 3}
_UNREADABLE: Final = (SerialError, ValueError, TypeError, OverflowError, LookupError, CorruptBatch)


class BadFrame(Exception):
    """Bytes that make no sense here: the connection is closed."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as it came. request: None where only the version is unknown, and ApiVersions was asked (KIP-511)."""

    correlation_id: int
    client_id: str
    asked: Any  # kio's entity, or its class for a version that is not known
    request: object | None


def _header_of(entity: Any) -> Any:
    return entity.__header_schema__


@dataclass(frozen=True, slots=True)
class Codec:
    cluster_id: str

    def request(self, message: object, *, correlation_id: int, client_id: str) -> bytes:
        entity = _entity(message)
        header_type: Any = _header_of(type(entity))
        header = header_type(
            request_api_key=entity.__api_key__,
            request_api_version=entity.__version__,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        return _frame(header, entity)

    def read_request(self, frame: bytes, handlers: Handlers) -> Incoming:
        """BadFrame for what is not served here, or does not decode to its last byte.

        But librdkafka (2.16) asks for all topics with three bytes too many (Metadata v12); Kafka ignores whatever follows a request.
        """
        if len(frame) < _HEAD.size:
            raise BadFrame(f"{len(frame)} bytes are no request")
        api_key, version, correlation_id = _HEAD.unpack_from(frame)
        if not handlers.serves(api_key, version):
            if api_key == Api.API_VERSIONS:
                return Incoming(correlation_id, "", None, None)
            raise BadFrame(f"version {version} of API {api_key} is not served here")
        entity_type = request_class(api_key, version)
        if entity_type is None:
            raise BadFrame(f"version {version} of API {api_key} is not known")
        try:
            header, position = read_entity(_header_of(entity_type), frame, 0)
            extent = walked(entity_type, frame, position)
            entity, _ = entity_reader(entity_type)(*extent.known(frame))
            excess = len(frame) - extent.end
            if excess > _TOLERATED.get(api_key, 0):
                raise BadFrame(f"{entity_type.__name__} v{version}: {excess} bytes too many")
            request = wire.request_from_kafka(entity) if _is_of_quorum(entity) else entity
        except _UNREADABLE as error:
            raise BadFrame(f"not a {entity_type.__name__} v{version}: {error}") from error
        return Incoming(correlation_id, header.client_id or "", entity, request)

    def response(self, incoming: Incoming, response: object) -> bytes:
        entity = (
            wire.response_to_kafka(response, cluster_id=self.cluster_id) if isinstance(response, Response) else response
        )
        header_type: Any = _header_of(type(entity))
        return _frame(header_type(correlation_id=incoming.correlation_id), entity)

    def read_response(self, frame: bytes, message: object) -> tuple[int, object]:
        """BadFrame if it is not a response to this message; in the form in which it was asked."""
        expected = response_class(type(_entity(message)))
        try:
            header, position = read_entity(_header_of(expected), frame, 0)
            entity, end = read_entity(expected, frame, position)
            if end != len(frame):
                raise BadFrame(f"{expected.__name__}: {len(frame) - end} bytes too many")
            response = _as_asked(entity, message)
        except _UNREADABLE as error:
            raise BadFrame(f"not a {expected.__name__}: {error}") from error
        return header.correlation_id, response


def _entity(message: object) -> Any:
    """What is written of a message: Raft's and the controller's become Kafka's."""
    if isinstance(message, Request):
        return wire.request_to_kafka(message)
    return controllers.request_to_kafka(message) if isinstance(message, ControllersRequest) else message


def _as_asked(entity: Any, message: object) -> object:
    if isinstance(message, Request):
        return wire.response_from_kafka(entity)
    return controllers.response_from_kafka(entity) if isinstance(message, ControllersRequest) else entity


def _is_of_quorum(entity: Any) -> bool:
    if entity.__api_key__ in _QUORUM_ONLY:
        return True
    if isinstance(entity, FetchRequest):
        return len(entity.topics) == 1 and entity.topics[0].topic == wire.TOPIC
    return isinstance(entity, DescribeQuorumRequest)


def _frame(header: Any, entity: Any) -> bytes:
    buffer = io.BytesIO()
    buffer.write(b"\x00\x00\x00\x00")
    entity_writer(type(header))(buffer, header)
    entity_writer(type(entity))(buffer, entity)
    size = buffer.tell() - _SIZE.size
    buffer.seek(0)
    buffer.write(_SIZE.pack(size))
    return buffer.getvalue()
