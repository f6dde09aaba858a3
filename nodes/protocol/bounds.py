"""Does a request keep within its own frame? Asked before kio reads it.

kio's reader makes room for as many elements as an array announces, and looks for them afterwards: nine bytes that announce 2^32 topics end
the process (`memory allocation of 34359738352 bytes failed`), and no handler of ours hears of it. And an element of two bytes on the wire
takes a hundred in memory. So requests are first walked over by their schema, which costs some microseconds and builds nothing:

    extent = walked(MetadataRequest, frame, 14)
    extent.end                                     # where the entity ends
    entity_reader(MetadataRequest)(*extent.known(frame))       # the entity without the tagged fields that kio does not know
    BadBounds                                      # a length that leads out of the frame, or more than MAX_ELEMENTS elements

Lengths: KIP-482 (compact and legacy forms, tagged fields). What the values mean is left to kio.

Newer software may add tagged fields to a version that exists, and whoever does not know them skips them (KIP-482); kio's reader gives up
(KeyError). So it is given what is left without them. That happens inside of tagged fields, too, whose sizes change then.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)
from kio.static.constants import EntityType

MAX_ELEMENTS: Final = 100_000  # of all arrays of one request
_LONGEST: Final = 5  # bytes of a varint
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_FIXED: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "float64": 8,
    "uuid": 16,
}


class BadBounds(ValueError):
    """The frame is shorter than what is in it, or there is too much in it."""


@dataclass(slots=True)
class _Walk:
    left: int  # how many more elements there may be
    edits: list[tuple[int, int, bytes]] = field(
        default_factory=list
    )  # from, to, what is there without unknown tagged fields


_Skip = Callable[[bytes, int, _Walk], int]  # the frame and a position in it: the position after what is there


@dataclass(frozen=True, slots=True)
class Extent:
    """An entity from `start` to `end` of its frame."""

    start: int
    end: int
    edits: tuple[tuple[int, int, bytes], ...]

    def known(self, content: bytes) -> tuple[bytes, int]:
        """What kio can read, and from where on."""
        return (_edited(content, self.start, self.end, self.edits), 0) if self.edits else (content, self.start)


def walked(entity_type: Any, content: bytes, position: int, *, max_elements: int = MAX_ELEMENTS) -> Extent:
    """Over a header, a request or a response. BadBounds."""
    walk = _Walk(max_elements)
    try:
        end = _entity(entity_type)(content, position, walk)
    except (IndexError, struct.error) as error:
        raise BadBounds(f"a frame of {len(content)} bytes is too short for what is in it") from error
    if end > len(content):
        raise BadBounds(f"a frame of {len(content)} bytes would have {end}")
    return Extent(position, end, tuple(walk.edits))


def _edited(content: bytes, start: int, end: int, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    pieces = []
    for first, last, instead in edits:
        pieces += [content[start:first], instead]
        start = last
    return b"".join((*pieces, content[start:end]))


@cache
def _entity(entity_type: Any) -> _Skip:
    """Positions may run ahead of the frame, of which the next read or `end_of` complains; they never go back."""
    flexible: bool = entity_type.__flexible__
    steps, tagged, fixed = list[_Skip](), dict[int, _Skip](), 0
    header = entity_type.__type__ is EntityType.header
    for part in fields(entity_type):
        tag, size = get_field_tag(part), _fixed_size(part)
        if tag is not None:
            tagged[int(tag)] = _field(part, flexible)
        elif size:
            fixed += size
        else:
            steps.append(_after(fixed, _field(part, flexible and not header)))  # KIP-482: a client id is never compact
            fixed = 0
    if flexible:
        steps.append(_after(fixed, _tags(tagged)))
    elif fixed:
        steps.append(_bytes(fixed))
    if len(steps) == 1:
        return steps[0]

    def skip(content: bytes, position: int, walk: _Walk) -> int:
        for step in steps:
            position = step(content, position, walk)
        return position

    return skip


def _fixed_size(part: Any) -> int:
    """0: its length is in the frame."""
    kind = classify_field(part)
    if kind.is_array or isinstance(kind, EntityField):
        return 0
    return _FIXED.get(get_schema_field_type(part), 0)


def _field(part: Any, flexible: bool) -> _Skip:
    kind = classify_field(part)
    if isinstance(kind, EntityTupleField):
        return _array(_entity(kind.type_), flexible)
    if isinstance(kind, EntityField):
        return _nullable(_entity(kind.type_)) if is_optional(part) else _entity(kind.type_)
    element = _primitive(get_schema_field_type(part), flexible)
    return _array(element, flexible) if kind.is_array else element


def _primitive(kafka_type: str, flexible: bool) -> _Skip:
    if kafka_type in _FIXED:
        return _bytes(_FIXED[kafka_type])
    if flexible:
        return _compact
    return _string if kafka_type == "string" else _long


def _after(size: int, step: _Skip) -> _Skip:
    """What comes after so many bytes."""
    return (lambda content, position, walk: step(content, position + size, walk)) if size else step


def _bytes(size: int) -> _Skip:
    return lambda content, position, walk: position + size


def _array(element: _Skip, flexible: bool) -> _Skip:
    def skip(content: bytes, position: int, walk: _Walk) -> int:
        if flexible:
            announced, position = _varint(content, position)
            count = announced - 1
        else:
            count, position = _INT.unpack_from(content, position)[0], position + 4
        if count <= 0:  # below 0 null; whether it may be is kio's to say
            return position
        walk.left -= count
        if walk.left < 0 or count > len(content) - position:
            raise BadBounds(f"an array of {count} at {position} of a frame of {len(content)} bytes")
        for _ in range(count):
            position = element(content, position, walk)
        return position

    return skip


def _nullable(entity: _Skip) -> _Skip:
    def skip(content: bytes, position: int, walk: _Walk) -> int:
        return entity(content, position + 1, walk) if content[position] < 0x80 else position + 1

    return skip


def _tags(known: dict[int, _Skip]) -> _Skip:
    """KIP-482: how many, then tag, size and content of each."""

    def skip(content: bytes, position: int, walk: _Walk) -> int:
        if content[position] == 0:
            return position + 1
        start, before, kept = position, len(walk.edits), list[bytes]()
        count, position = _varint(content, position)
        walk.left -= count
        if walk.left < 0:
            raise BadBounds(f"{count} tagged fields at {position}")
        for _ in range(count):
            tag, position = _varint(content, position)
            size, position = _varint(content, position)
            if tag in known:
                inner = len(walk.edits)
                if known[tag](content, position, walk) != position + size:
                    raise BadBounds(f"tagged field {tag} at {position} is not of {size} bytes")
                value = _edited(content, position, position + size, walk.edits[inner:])
                kept.append(_number(tag) + _number(len(value)) + value)
            position += size
        if len(kept) < count or len(walk.edits) > before:
            walk.edits[before:] = [(start, position, _number(len(kept)) + b"".join(kept))]
        return position

    return skip


def _compact(content: bytes, position: int, walk: _Walk) -> int:
    """KIP-482: one more than the length; 0 is null."""
    length, position = _varint(content, position)
    return position + length - 1 if length else position


def _string(content: bytes, position: int, walk: _Walk) -> int:
    return _counted(_SHORT.unpack_from(content, position)[0], position + 2)


def _long(content: bytes, position: int, walk: _Walk) -> int:
    return _counted(_INT.unpack_from(content, position)[0], position + 4)


def _counted(length: int, position: int) -> int:
    if length < -1:
        raise BadBounds(f"a length of {length} at {position}")
    return position if length == -1 else position + length


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = content[position]
    if value < 0x80:
        return value, position + 1
    value &= 0x7F
    for number in range(1, _LONGEST):
        byte = content[position + number]
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return value, position + number + 1
    raise BadBounds(f"no length at {position}: more than {_LONGEST} bytes")


def _number(value: int) -> bytes:
    content = bytearray()
    while value >= 0x80:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)
