"""The open connections of a node, and what they may cost it together.

A peer that announces 100 MiB and sends them slowly, or asks for records and does not read them, or opens connections and says nothing,
takes memory and file descriptors from all others. So the bytes of requests in work and of answers not yet read are counted over all
connections, and so are the connections. Where there would be too many, the one that has been at it longest is closed: whoever sends and
reads at an ordinary pace is not that one.

What a closed connection held is free when the event loop has come round to it, and until then a hundred other answers could have been
made. So while more than the limit is on its way out, new requests wait for it, which takes one turn of the loop.

    connections = Connections(ConnectionSettings(max_connections=3_000))
    one = connections.opened(end, now)      # the 3,001st ends the one that has been silent longest
    connections.hold(one, len(content))     # beyond `queued.max.request.bytes` ends the one that began first
    await connections.room()                # before an answer is made
    connections.done(one, now)              # its answer is on the way; it holds nothing
    connections.gone(one)                   # its buffers are free
    connections.sweep(now)                  # ends those that did nothing for `connections.max.idle.ms`
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from nodes.reference.environment import MILLISECOND


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """Kafka's names and defaults; but `queued.max.request.bytes` (KIP-72) has a limit, and counts answers, too."""

    socket_request_max_bytes: int = 100 << 20
    queued_max_request_bytes: int = 128 << 20
    max_connections: int = (1 << 31) - 1
    connections_max_idle_ms: int = 600_000


class Connected:
    """One of them. end: closes it, at once; what it was doing goes no further."""

    __slots__ = ("end", "held", "leaving", "since")

    def __init__(self, end: Callable[[str], None], since: int) -> None:
        self.end = end
        self.since = since  # ns: when it last completed something, or came
        self.held = 0  # bytes
        self.leaving = 0  # bytes that it held when it was ended


class Connections:
    """`held`: bytes, of all of them."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.held = 0
        self._leaving = 0
        self._room = asyncio.Event()
        self._room.set()
        self._open: dict[Connected, None] = {}  # the one that was silent longest comes first
        self._holding: dict[Connected, None] = {}  # the one that began first comes first

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, end: Callable[[str], None], now: int) -> Connected:
        while len(self._open) >= self.settings.max_connections:
            self._end(next(iter(self._open)), f"there are {len(self._open)} connections")
        one = Connected(end, now)
        self._open[one] = None
        return one

    def closed(self, one: Connected) -> None:
        self._open.pop(one, None)
        self._release(one)

    def hold(self, one: Connected, size: int) -> None:
        if one not in self._open:  # it has been ended, and does not know yet
            return
        one.held += size
        self.held += size
        self._holding[one] = None
        while self.held > self.settings.queued_max_request_bytes:
            first = next(iter(self._holding))
            self._end(first, f"it holds {first.held} bytes, and all connections hold {self.held}")

    async def room(self) -> None:
        while not self._room.is_set():  # whoever was woken with others may find it taken
            await self._room.wait()

    def gone(self, one: Connected) -> None:
        """Closed, and nothing of it is left."""
        self.closed(one)
        self._leaves(-one.leaving)
        one.leaving = 0

    def done(self, one: Connected, now: int) -> None:
        self._release(one)
        if self._open.pop(one, self) is None:
            one.since = now
            self._open[one] = None

    def sweep(self, now: int) -> None:
        limit = now - self.settings.connections_max_idle_ms * MILLISECOND
        for one in tuple(self._open):
            if one.since > limit:
                break
            self._end(one, f"nothing was done for {self.settings.connections_max_idle_ms} ms")

    def _release(self, one: Connected) -> None:
        self._holding.pop(one, None)
        self.held -= one.held
        one.held = 0

    def _leaves(self, size: int) -> None:
        self._leaving += size
        if self._leaving > self.settings.queued_max_request_bytes:
            self._room.clear()
        else:
            self._room.set()

    def _end(self, one: Connected, reason: str) -> None:
        one.leaving += one.held
        self._leaves(one.held)
        self.closed(one)
        # `end` knows the task that knows `one`: what that holds must not wait for the garbage collector
        end, one.end = one.end, _ended
        end(reason)


def _ended(reason: str) -> None:
    """Once is enough."""
