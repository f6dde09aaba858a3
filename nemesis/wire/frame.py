"""One Kafka frame on its way through the gate, and how to tell that bytes are one. Pure.

    request    int32 length | int16 api, int16 version, int32 correlation, nullable string client id [tags] | payload
    response   int32 length | int32 correlation [tags] | payload

All versions of the request header begin like this (but for ControlledShutdown 0, which has no client id); tags and payload are read
only where somebody asks (`apis.decode`). Bytes that are not a plausible frame raise Unparsable: TLS, SASL tokens, or no Kafka at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from nemesis.wire.apis import Decoded, api_name
from nemesis.wire.message import Action, Direction

if TYPE_CHECKING:
    from nemesis.wire.connection import Connection

MAX_FRAME: Final = 128 << 20  # more than any socket.request.max.bytes in use
MAX_API: Final = 1100  # nobody has defined one as high; those of the reference cluster are the highest
MAX_VERSION: Final = 100
LENGTH: Final = Struct(">i")
CORRELATION: Final = Struct(">ii")  # length and correlation id of a response
REQUEST: Final = Struct(">ihhih")  # length, api, version, correlation id, length of the client id
_REQUEST_LEAST: Final = 8  # api, version, correlation id
_RESPONSE_LEAST: Final = 4
_CONTROLLED_SHUTDOWN: Final = 7


class Unparsable(Exception):
    """Bytes that are no Kafka frame; the message says why."""


class Frame:
    """A frame while it is in the gate. `request` of a response is what it answers; `out_ns` is None until it went on."""

    __slots__ = (
        "action",
        "api",
        "client_id",
        "connection",
        "correlation",
        "decoded",
        "in_ns",
        "message",
        "observers",
        "out_ns",
        "request",
        "rule",
        "size",
        "swallow",
        "version",
    )

    def __init__(self, connection: Connection, api: int, version: int, correlation: int, client_id: str | None) -> None:
        self.connection = connection
        self.api = api
        self.version = version
        self.correlation = correlation
        self.client_id = client_id
        self.message = -1
        self.size = 0
        self.in_ns = 0
        self.out_ns: int | None = None
        self.request: Frame | None = None
        self.action = Action.PASSED
        self.rule: str | None = None
        self.decoded: Decoded | None = None
        self.observers: tuple[Any, ...] = ()  # rules in force that matched it and want to know its fate
        self.swallow = False  # of a request: its response is for nobody (the second copy of a duplicated one)

    @property
    def direction(self) -> Direction:
        return Direction.REQUEST if self.request is None else Direction.RESPONSE

    @property
    def ends(self) -> tuple[str, str]:
        """Source and destination of this frame."""
        ends = self.connection.source, self.connection.destination
        return ends if self.request is None else ends[::-1]

    def as_row(self) -> Mapping[str, Any]:
        """The fields of a `Message` that the gate knows; run and clock are its recorder's."""
        source, destination = self.ends
        return {
            "message": self.message,
            "connection": self.connection.number,
            "source": source,
            "destination": destination,
            "direction": str(self.direction),
            "api": self.api,
            "api_name": api_name(self.api),
            "version": self.version,
            "correlation": self.correlation,
            "client_id": self.client_id,
            "answers": None if self.request is None else self.request.message,
            "size": self.size,
            "in_ns": self.in_ns,
            "out_ns": self.out_ns,
            "action": str(self.action),
            "rule": self.rule,
            "fields": self.decoded.as_text() if self.decoded else None,
            "error": self.decoded.error if self.decoded else None,
        }


def length_at(data: bytes, at: int, *, least: int) -> int:
    (length,) = LENGTH.unpack_from(data, at)
    if not least <= length <= MAX_FRAME:
        raise Unparsable(f"a frame of {length} bytes")
    return int(length)


def request_head(data: bytes, at: int) -> tuple[int, int, int, int, str | None] | None:
    """Length, api, version, correlation id and client id of the request whose length prefix is at `at`. None: more bytes are needed."""
    available = len(data) - at
    if available < LENGTH.size:
        return None
    length = length_at(data, at, least=_REQUEST_LEAST)
    if available < REQUEST.size:
        if available < LENGTH.size + _REQUEST_LEAST or length > _REQUEST_LEAST:
            return None
        _, api, version, correlation = Struct(">ihhi").unpack_from(data, at)
        client = -1
    else:
        _, api, version, correlation, client = REQUEST.unpack_from(data, at)
    if not (0 <= api <= MAX_API and 0 <= version <= MAX_VERSION):
        raise Unparsable(f"api {api}, version {version}")
    if (api, version) == (_CONTROLLED_SHUTDOWN, 0):
        return length, api, version, correlation, None
    if length < _REQUEST_LEAST + 2 or not -1 <= client <= length - _REQUEST_LEAST - 2:
        raise Unparsable(f"a client id of {client} bytes in a request of {length}")
    if client <= 0:
        return length, api, version, correlation, None if client < 0 else ""
    start = at + REQUEST.size
    if len(data) < start + client:
        return None
    try:
        return length, api, version, correlation, str(data[start : start + client], "utf-8")
    except UnicodeDecodeError:
        raise Unparsable("a client id that is no UTF-8") from None


def response_head(data: bytes, at: int) -> tuple[int, int] | None:
    """Length and correlation id of the response whose length prefix is at `at`. None: more bytes are needed."""
    if len(data) - at < LENGTH.size:
        return None
    length = length_at(data, at, least=_RESPONSE_LEAST)
    if len(data) - at < CORRELATION.size:
        return None
    return length, CORRELATION.unpack_from(data, at)[1]
