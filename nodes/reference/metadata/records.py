"""Metadata records as the values of the metadata log (KIP-631, Record Formats): what `Replica.append` takes and `StateMachine.apply` gives.

    encode(TopicRecord(name="t", topic_id=UUID(int=7)))      b"\\x01\\x02\\x00\\x02t..."
    decode(value)                                            the same record again

A value is three unsigned varints and the record in Kafka's format: the frame's version (1, which the proposal does not have yet), the
record's type, its version. A record of an unknown type or version is not skipped: who cannot read the metadata must not act on it.
"""

from __future__ import annotations

import io
import struct
from functools import lru_cache
from typing import Final

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.serial.readers import read_unsigned_varint
from kio.serial.writers import write_unsigned_varint
from kio.static.primitive import uvarint

from nodes.reference.metadata.schema import TYPES, Record

FRAME_VERSION: Final = 1
_NUMBERS: Final = {record: number for number, record in TYPES.items()}


class UnknownRecord(Exception):
    """Written by newer software, or no metadata record at all."""


def encode(record: Record) -> bytes:
    buffer = io.BytesIO()
    kind = type(record)
    for number in (FRAME_VERSION, _NUMBERS[kind], int(kind.__version__)):
        write_unsigned_varint(buffer, uvarint(number))
    entity_writer(kind)(buffer, record)
    return buffer.getvalue()


@lru_cache(maxsize=4096)
def decode(value: bytes) -> Record:
    """UnknownRecord unless it is whole and of a type and version that this software writes. Immutable, so it may be shared."""
    try:
        at, header = 0, []
        for _ in range(3):
            number, size = read_unsigned_varint(value, at)
            header.append(int(number))
            at += size
        frame, kind, version = header
        known = TYPES.get(kind)
        if frame != FRAME_VERSION or known is None or version != known.__version__:
            raise UnknownRecord(f"a metadata record of type {kind} version {version} in a frame of version {frame}")
        record, size = entity_reader(known)(value, at)
    except (SerialError, ValueError, LookupError, struct.error) as error:
        raise UnknownRecord(f"not a metadata record: {error}") from error
    if at + size != len(value):
        raise UnknownRecord(f"{len(value) - at - size} bytes too many after a {known.__name__}")
    return record
