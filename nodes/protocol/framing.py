"""Kafka messages as bytes: length-prefixed frames with a header and a payload that kio encodes and decodes.

A request is `int32 length | header | payload`; the header is `int16 api_key, int16 api_version, int32 correlation_id, nullable string
client_id` (plus tags in flexible versions), so whoever only relays frames can read who asks what without its payload: `RequestHead`.
A response is `int32 length | int32 correlation_id [tags] | payload`; ApiVersions responses never have header tags, so that a client can
read them before it knows anything.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from kio.serial import entity_writer
from kio.serial.errors import SerialError
from kio.static.primitive import i16, i32
from kio.static.protocol import RequestPayload, ResponsePayload

from nodes.protocol.tolerant import read_entity

MAX_FRAME: Final = 64 * 1024 * 1024
_HEAD = struct.Struct(">hhih")

R = TypeVar("R", bound=ResponsePayload)


class BadFrame(Exception):
    """Bytes that are no Kafka message; the message says what was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestHead:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def encode_request(payload: RequestPayload, *, correlation_id: int, client_id: str) -> bytes:
    """A whole frame, length included."""
    header_type = cast(Any, payload.__header_schema__)
    header = header_type(
        request_api_key=i16(payload.__api_key__),
        request_api_version=i16(payload.__version__),
        correlation_id=i32(correlation_id),
        client_id=client_id,
    )
    buffer = io.BytesIO()
    entity_writer(header_type)(buffer, header)
    entity_writer(type(payload))(buffer, payload)
    return struct.pack(">i", buffer.tell()) + buffer.getvalue()


def decode_response(frame: bytes, expected: type[R]) -> tuple[int, R]:
    """(correlation id, payload) of a response frame without its length. BadFrame when it does not decode to its last byte."""
    header_type = cast(Any, expected.__header_schema__)
    try:
        header, position = read_entity(header_type, frame, 0)
        payload, end = read_entity(expected, frame, position)
    except (SerialError, ValueError, TypeError, OverflowError) as error:
        raise BadFrame(
            f"not a {expected.__name__} v{expected.__version__}: {error}; frame starts {frame[:32].hex()}"
        ) from error
    if end != len(frame):
        raise BadFrame(f"{expected.__name__} v{expected.__version__} left {len(frame) - end} bytes unread")
    return int(cast(Any, header).correlation_id), payload


def request_head(frame: bytes) -> RequestHead:
    """Who asks what, from a request frame without its length. BadFrame when it is too short."""
    if len(frame) < _HEAD.size:
        raise BadFrame(f"a request header needs {_HEAD.size} bytes, got {frame.hex()}")
    api_key, api_version, correlation_id, length = _HEAD.unpack_from(frame)
    if length < 0:
        return RequestHead(api_key=api_key, api_version=api_version, correlation_id=correlation_id, client_id=None)
    raw = frame[_HEAD.size : _HEAD.size + length]
    if len(raw) < length:
        raise BadFrame(f"client id of {length} bytes, but only {len(raw)} follow")
    name = raw.decode("utf-8", "replace")
    return RequestHead(api_key=api_key, api_version=api_version, correlation_id=correlation_id, client_id=name)
