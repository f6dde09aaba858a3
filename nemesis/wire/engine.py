"""What all connections of a gate share: the rules, the numbers of frames, the recorder, and the driver's ear.

Of each rule every frame is counted, but only so many are told one by one (the first FIRST_TOLD, then TOLD_PER_TICK per tick): a rule that
slows every frame of a link down must not cost a message to the driver for each. Counts are told in every tick in which they changed.

Lines to the driver (JSON objects):

    {"matched": RULE, "message": {...}, "counts": {...}}      a frame matched; `message` as in Message, without run and clock
    {"out": RULE, "message": {...}, "counts": {...}}          it went on after all, or never will (out_ns is null)
    {"answered": RULE, "request": 4711, "message": {...}}     its response, decoded
    {"counts": {RULE: {...}}}                                 every TICK in which something changed
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from nemesis.wire.connection import Connection
from nemesis.wire.frame import Frame
from nemesis.wire.rulebook import InForce, Rulebook

TICK: Final = 0.05  # seconds
FIRST_TOLD: Final = 1000
TOLD_PER_TICK: Final = 25

Say = Callable[[Mapping[str, Any]], None]


class Recorder(Protocol):
    """Where rows of `messages` go."""

    def write(self, frame: Frame) -> None: ...
    def flush(self) -> None: ...


class Engine:
    def __init__(
        self,
        *,
        rulebook: Rulebook,
        recorder: Recorder,
        say: Say,
        loop: asyncio.AbstractEventLoop,
        dial: Callable[[Connection, tuple[str, int]], None],
        names: Mapping[str, str],
    ) -> None:
        """dial: connect the server's side of a connection to an address. names: IPv4 -> node."""
        self.rulebook = rulebook
        self.record = recorder.write
        self.loop = loop
        self.connections: dict[int, Connection] = {}
        self.opaque = 0
        self._recorder = recorder
        self._say = say
        self._dial = dial
        self._names = names
        self._frames = 0
        self._opened = 0
        self._known: dict[str, dict[str, int]] = {}  # counts that the driver knows

    # connections

    def accepted(self, source: str, transport: asyncio.Transport) -> Connection:
        """A connection was led here; where it was meant to go is dialled."""
        address = original_destination(transport)
        connection = Connection(self, source, self._names.get(address[0], address[0]), transport)
        self._dial(connection, address)
        return connection

    def opened(self, connection: Connection) -> int:
        self._opened += 1
        self.connections[self._opened] = connection
        return self._opened

    def left(self, connection: Connection) -> None:
        if connection.closed():
            self.connections.pop(connection.number, None)

    def number(self) -> int:
        self._frames += 1
        return self._frames

    def became_opaque(self, frame: Frame, why: str) -> None:
        self.opaque += 1
        frame.message = self.number()
        self.record(frame)
        self._say({"opaque": frame.connection.number, "ends": frame.ends, "why": why})

    # what the driver is told

    def may_tell(self, rule: InForce) -> bool:
        """Is there room to tell about another frame of this rule?"""
        rule.told += 1
        return rule.matched <= FIRST_TOLD or rule.told <= TOLD_PER_TICK

    def matched(self, frame: Frame, rules: Iterable[InForce]) -> None:
        for rule in rules:
            if rule in frame.observers:
                self._tell("matched", frame, rule)

    def went_out(self, frame: Frame) -> None:
        for rule in frame.observers:
            self._tell("out", frame, rule)

    def answered(self, request: Frame, response: Frame) -> None:
        for rule in request.observers:
            self._say({"answered": rule.rule.id, "request": request.message, "message": response.as_row()})

    def _tell(self, what: str, frame: Frame, rule: InForce) -> None:
        counts = self._known[rule.rule.id] = rule.counts_as_json()
        self._say({what: rule.rule.id, "message": frame.as_row(), "counts": counts})

    def tick(self) -> None:
        """Every TICK: counts, and room for more to be told."""
        changed = {}
        for rule in self.rulebook.rules:
            rule.told = 0
            counts = rule.counts_as_json()
            if counts != self._known.get(rule.rule.id):
                changed[rule.rule.id] = self._known[rule.rule.id] = counts
        if changed:
            self._say({"counts": changed})

    # what the driver asks for

    def release(self, id: str, which: str, order: str) -> int:
        """How many frames were let go on; KeyError when no such rule is armed."""
        rule = self.rulebook.find(id)
        if rule is None:
            raise KeyError(id)
        chosen = list(reversed(rule.holding)) if order == "reversed" else list(rule.holding)
        chosen = chosen[:1] if which == "one" else chosen
        for waiting in chosen:
            rule.holding.remove(waiting)
            waiting.held = False
            rule.released += 1
            waiting.stream.pump()
        return len(chosen)

    def disarm(self, id: str) -> None:
        if self.rulebook.find(id) is not None:
            self.release(id, "all", "as held")
            self.rulebook.disarm(id)
            for connection in [each for each in self.connections.values() if each.gap_of == id]:
                connection.abort()
            self._known.pop(id, None)

    def finish(self) -> None:
        """The run ends: what is still here is written down as never gone out."""
        for connection in self.connections.values():
            for stream in (connection.requests, connection.responses):
                stream.lose_everything()
        self._recorder.flush()


def original_destination(transport: asyncio.Transport) -> tuple[str, int]:
    """Where a redirected connection was meant to go: SO_ORIGINAL_DST (linux/netfilter_ipv4.h), a sockaddr_in."""
    sockname = transport.get_extra_info("socket").getsockopt(_SOL_IP, _SO_ORIGINAL_DST, 16)
    return ".".join(str(byte) for byte in sockname[4:8]), int.from_bytes(sockname[2:4], "big")


_SOL_IP: Final = 0
_SO_ORIGINAL_DST: Final = 80
