"""Keys and values in the internal topics: a version as int16, then the message of it (Kafka's MessageUtil.toVersionPrefixedBytes).

written(OffsetCommitKey(group="g", topic="t", partition=0))     b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"
"""

from __future__ import annotations

import io
import struct
from typing import Final, TypeVar

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.protocol import Entity

from nodes.reference.log.keyed import Undecodable

_VERSION: Final = struct.Struct(">h")
_E = TypeVar("_E", bound=Entity)


def written(message: Entity) -> bytes:
    buffer = io.BytesIO()
    buffer.write(_VERSION.pack(message.__version__))
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def version(content: bytes) -> int:
    """Undecodable if there is none."""
    if len(content) < _VERSION.size:
        raise Undecodable(f"{content!r} has no version")
    found: int = _VERSION.unpack_from(content)[0]
    return found


def read(kind: type[_E], content: bytes) -> _E:
    """The message after the version. Undecodable if it is not one of this kind."""
    try:
        message, _ = entity_reader(kind)(content, _VERSION.size)
    except (SerialError, ValueError, IndexError) as error:
        raise Undecodable(f"{content!r} is no {kind.__name__}: {error}") from error
    return message
