"""kio's entities from plain values, whatever their version: a field that a version does not have is left out, as Kafka leaves it out.

    made(load_response_schema(19, 7), {"throttle_time": NO_TIME, "topics": [{"name": "t", "error_code": ErrorCode.none, ...}]})

The versions of an API differ by a field here and there, so one description serves them all; nested structs are mappings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, get_args

from kio.serial.readers import read_timedelta_i32
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Entity

NO_TIME: Final[i32Timedelta] = read_timedelta_i32(bytes(4), 0)[0]
MINUTE: Final[i32Timedelta] = read_timedelta_i32((60_000).to_bytes(4, "big"), 0)[0]
Values = Mapping[str, Any]


def made(entity: type[Entity], values: Values) -> Entity:
    """TypeError if a field that the version has no default for is missing."""
    structs = _structs(entity)
    return entity(
        **{
            name: _nested(struct, values[name]) if struct is not None else values[name]
            for name, struct in structs.items()
            if name in values
        }
    )


def _nested(struct: type[Entity], value: Any) -> object:
    if value is None:
        return None
    return made(struct, value) if isinstance(value, Mapping) else tuple(made(struct, item) for item in value)


@cache
def _structs(entity: type[Entity]) -> dict[str, type[Entity] | None]:
    """Of each field, which struct it is, or is an array of."""
    return {field.name: next(_found(field.type), None) for field in fields(entity)}


def _found(kind: Any) -> Iterator[type[Entity]]:
    if is_dataclass(kind):
        yield kind  # type: ignore[misc]
    for argument in get_args(kind):
        yield from _found(argument)
