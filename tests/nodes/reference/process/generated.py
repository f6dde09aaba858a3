"""Requests of all APIs with arbitrary content, and frames that are nearly requests: what the decoder is tried with.

random = Random(7)
request = entity(random, request_class(3, 12))
frame = framed(random, request)              # header and body, without the length
damaged(random, frame)                       # some bytes changed, cut, doubled or made a huge length
with newer(random):
    body(request)                            # with tagged fields here and there that nobody knows
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import _serialize, entity_writer
from kio.serial._introspect import EntityField, EntityTupleField, classify_field, get_schema_field_type, is_optional
from kio.serial.readers import read_datetime_i64, read_timedelta_i32, read_timedelta_i64

from nodes.reference.server.handlers import Api
from nodes.reference.server.schema import request_class

HUGE = (
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff" * 10,
    b"\x7f\xff",
)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def request_classes(*, every: bool = False) -> Iterator[Any]:
    """Of the APIs that nodes know; the lowest and the highest version of each, or every one."""
    for key in Api:
        known = [there for version in range(20) if (there := request_class(key, version)) is not None]
        yield from known if every else dict.fromkeys((known[0], known[-1]))


def entity(random: Random, entity_type: Any) -> Any:
    values = {}
    for field in fields(entity_type):
        if "tag" in field.metadata and field.default is not MISSING and random.random() < 0.5:
            continue
        kind = classify_field(field)
        if is_optional(field) and random.random() < 0.3 and not kind.is_array:
            values[field.name] = None
        elif isinstance(kind, EntityTupleField):
            values[field.name] = tuple(entity(random, kind.type_) for _ in range(random.randint(0, 3)))
        elif isinstance(kind, EntityField):
            values[field.name] = entity(random, kind.type_)
        elif kind.is_array:
            kafka_type = get_schema_field_type(field)
            values[field.name] = tuple(_value(random, kafka_type) for _ in range(random.randint(0, 3)))
        else:
            values[field.name] = _value(random, get_schema_field_type(field))
    return entity_type(**values)


def _value(random: Random, kafka_type: str) -> Any:
    match kafka_type:
        case "int8" | "int16" | "int32" | "int64":
            bits = _BITS[kafka_type]
            small = random.randint(-2, 9)
            return random.choice((small, random.getrandbits(bits - 1), -(1 << (bits - 1)), (1 << (bits - 1)) - 1))
        case "uint16":
            return random.getrandbits(16)
        case "bool":
            return random.random() < 0.5
        case "float64":
            return random.random()
        case "string":
            return "".join(random.choices("aZ._-\u20ac\0/", k=random.choice((0, 1, 5, 300))))
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 61, 300)))
        case "uuid":
            return uuid.UUID(int=random.getrandbits(128))
        case "error_code":
            return random.choice(list(ErrorCode))
        case "timedelta_i32":
            return read_timedelta_i32(random.randint(0, 1000).to_bytes(4, "big"), 0)[0]
        case "timedelta_i64":
            return read_timedelta_i64(random.randint(0, 1000).to_bytes(8, "big"), 0)[0]
        case "datetime_i64":
            return read_datetime_i64(random.getrandbits(40).to_bytes(8, "big"), 0)[0]
    raise AssertionError(f"no values for {kafka_type}")


def body(request: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(request))(buffer, request)
    return buffer.getvalue()


def framed(random: Random, request: Any) -> bytes:
    header_type = request.__header_schema__
    names = {field.name for field in fields(header_type)}
    values = {
        "request_api_key": request.__api_key__,
        "request_api_version": request.__version__,
        "correlation_id": random.getrandbits(31),
        "client_id": random.choice((None, "", "me")),
    }
    buffer = io.BytesIO()
    entity_writer(header_type)(buffer, header_type(**{name: values[name] for name in names}))
    return buffer.getvalue() + body(request)


@contextmanager
def newer(random: Random) -> Iterator[None]:
    """What is written inside comes from newer software: wherever there may be tagged fields, there may be up to three more (KIP-482)."""
    number: Any = _serialize.write_unsigned_varint  # how kio begins each section of tagged fields, and nothing else

    def begin(buffer: Any, count: int) -> None:
        more = random.randint(0, 3)
        number(buffer, count + more)
        for _ in range(more):
            content = random.randbytes(random.choice((0, 1, 130)))
            number(buffer, random.choice((50, 128, 1 << 20)) + random.randint(0, 9))
            number(buffer, len(content))
            buffer.write(content)

    _serialize.write_unsigned_varint = begin  # type: ignore[assignment]
    try:
        yield
    finally:
        _serialize.write_unsigned_varint = number


def damaged(random: Random, frame: bytes) -> bytes:
    content = bytearray(frame)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randint(0, len(content))
        match random.randrange(5):
            case 0:
                del content[at:]
            case 1:
                content[at : at + 1] = bytes((random.getrandbits(8),))
            case 2:
                huge = random.choice(HUGE)
                content[at : at + len(huge)] = huge
            case 3:
                content[at:at] = content[at : at + random.randint(1, 20)]
            case 4:
                content[at : at + 1] = (
                    bytes((content[at] ^ (1 << random.randrange(8)),)) if at < len(content) else b"\0"
                )
    return bytes(content)
