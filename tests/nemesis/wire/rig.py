"""A gate in memory: connections whose transports are lists of bytes, and a clock that only moves when told to."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from nemesis.wire.connection import Connection
from nemesis.wire.engine import Engine
from nemesis.wire.frame import Frame
from nemesis.wire.rule import Act, Match, Rule
from nemesis.wire.rulebook import InForce, Names, Rulebook

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "frames.json").read_text())
FETCH, METADATA, PRODUCE = 1, 3, 0


def recorded(api: int, release: str = "4.3.1") -> tuple[bytes, bytes]:
    """Request and response of a real exchange, length prefixes included."""
    found = next(one for one in RECORDED if one["api"] == api and one["release"] == release)
    return bytes.fromhex(found["request"]), bytes.fromhex(found["response"])


def request(
    correlation: int, api: int = FETCH, version: int = 4, client: str | None = "1", payload: bytes = b"body"
) -> bytes:
    name = b"\xff\xff" if client is None else len(client.encode()).to_bytes(2, "big") + client.encode()
    head = api.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation.to_bytes(4, "big") + name
    return (len(head) + len(payload)).to_bytes(4, "big") + head + payload


def response(correlation: int, payload: bytes = b"answer") -> bytes:
    return (4 + len(payload)).to_bytes(4, "big") + correlation.to_bytes(4, "big") + payload


class Loop:
    """time, call_later and call_soon of an event loop."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[..., None], *args: Any) -> _Handle:
        self._count += 1
        handle = _Handle(lambda: call(*args))
        heapq.heappush(self._queue, (self.now + delay, self._count, handle))
        return handle

    def call_soon(self, call: Callable[..., None], *args: Any) -> None:
        self.call_later(0, call, *args)

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            self.now, _, call = heapq.heappop(self._queue)
            call()
        self.now = until


class _Handle:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None

    def __call__(self) -> None:
        if self.call is not None:
            self.call()


@dataclass
class Transport:
    """What was written to one side of a connection, and how it ended."""

    written: bytes = b""
    ended: bool = False
    closing: bool = False
    aborted: bool = False
    reading: bool = True

    def write(self, data: bytes) -> None:
        assert not self.closing
        self.written += data

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_extra_info(self, name: str) -> Transport:
        assert name == "socket"
        return self

    def setsockopt(self, *_: Any) -> None:
        pass


@dataclass
class Recorder:
    rows: list[dict[str, Any]] = field(default_factory=list)

    def write(self, frame: Frame) -> None:
        self.rows.append(dict(frame.as_row()))

    def flush(self) -> None:
        pass


class Link:
    """A connection with both its ends in hand."""

    def __init__(self, rig: Rig, source: str, destination: str, *, connected: bool = True) -> None:
        self.caller, self.server = Transport(), Transport()
        self.connection = Connection(rig.engine, source, destination, cast(asyncio.Transport, self.caller))
        if connected:
            self.connect()

    def connect(self) -> None:
        self.connection.reached(cast(asyncio.Transport, self.server))

    def says(self, data: bytes) -> None:
        self.connection.requests.feed(data)

    def answers(self, data: bytes) -> None:
        self.connection.responses.feed(data)

    def caller_dies(self) -> None:
        """Its kernel closes both ways at once."""
        self.connection.caller_ended(None, gone=False)
        self.connection.caller_ended(None, gone=True)


class Rig:
    def __init__(self, *, with_clients: bool = False) -> None:
        self.loop = Loop()
        self.recorder = Recorder()
        self.said: list[Mapping[str, Any]] = []
        names = Names(servers=frozenset({"b1", "b2", "c1"}), clients=frozenset({"w1"}), with_clients=with_clients)
        self.rulebook = Rulebook(names)
        self.engine = Engine(
            rulebook=self.rulebook,
            recorder=self.recorder,
            say=self.said.append,
            loop=cast(asyncio.AbstractEventLoop, self.loop),
            dial=lambda connection, address: None,
            names={},
        )

    def link(self, source: str = "b1", destination: str = "c1", **rest: Any) -> Link:
        return Link(self, source, destination, **rest)

    def arm(self, act: Act, id: str = "rule", **match: Any) -> InForce:
        return self.rulebook.arm(Rule(id=id, match=Match(**match), act=act))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """As they will be in the table: in the order of `message`."""
        return sorted(self.recorder.rows, key=lambda row: int(row["message"]))
