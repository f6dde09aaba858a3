"""A connection through the gate: the one that a node opened and that was led here, and the one that goes on to where it was meant to.

    b1's process --(redirected)--> caller side | server side --(SO_MARK, from b1's namespace)--> c1:9093

What happens at one end happens at the other: end of stream, reset, a refused connection (the caller sees a reset instead). Two things
differ, so that a held request of a process that died can still arrive, as a packet delayed in the network would: while something
waits, the end of the caller is not passed on; and after a release the server's side stays open for LINGER seconds, because servers
throw away what they have not processed when their client is gone. Requests that wait die only with the server's side.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from nemesis.wire.directions import Requests, Responses
from nemesis.wire.frame import Frame, Unparsable
from nemesis.wire.stream import Stream

if TYPE_CHECKING:
    from nemesis.wire.engine import Engine

LINGER: Final = 3.0  # seconds
_BUFFER: Final = 1 << 18  # bytes that may wait in a transport before its other side is no longer read


class Connection:
    def __init__(self, engine: Engine, source: str, destination: str, caller: asyncio.Transport) -> None:
        self.engine = engine
        self.source = source
        self.destination = destination
        self.number = engine.opened(self)
        self.opaque = False  # it does not speak Kafka: bytes pass untouched
        self.silent = False  # a request was dropped: behind the gap nothing is answered
        self.gap_of: str | None = None  # the rule that dropped it; when it is disarmed, the caller must connect again
        self.unanswered: deque[Frame | None] = deque()  # requests in order; None: one was dropped here
        self.requests = Requests(self)
        self.responses = Responses(self)
        self.requests.source = self.responses.sink = caller
        self.requests.shut()
        self._caller: asyncio.Transport | None = caller
        self._server: asyncio.Transport | None = None
        self._closing = False

    # the life of both sides

    def reached(self, server: asyncio.Transport) -> None:
        """The server's side is connected."""
        self.engine.connections[self.number] = self  # also when its caller is gone and only what it said is left
        self._server = self.responses.source = server
        self.requests.opened(server)

    def unreachable(self) -> None:
        self.requests.lose_everything()
        self.abort()

    def caller_ended(self, error: Exception | None, *, gone: bool) -> None:
        """It will send nothing more; `gone`: nor receive."""
        if gone:
            self._caller = None
            self.requests.source = self.responses.sink = None
            self.responses.lose_everything()
        self.requests.end()

    def server_ended(self, error: Exception | None, *, gone: bool) -> None:
        """Servers close both ways at once, so its end is the end of what waits for it, too."""
        if gone:
            self._server = None
            self.requests.sink = self.responses.source = None
        self.requests.lose_everything()
        self.responses.end()
        if gone and error is not None:
            self.abort()
        elif gone and not self.responses.waiting:
            self.close()

    def drained(self, stream: Stream) -> None:
        """A stream whose source ended has nothing left to write."""
        if stream is self.responses and self._server is None:
            self.close()
        elif stream is self.responses:
            self._end(self._caller)
        elif stream.was_held:
            self.engine.loop.call_later(LINGER, self._end_server)
        else:
            self._end_server()

    def _end_server(self) -> None:
        if self._caller is None and self._server is not None:
            self._server.close()
        else:
            self._end(self._server)

    def _end(self, side: asyncio.Transport | None) -> None:
        """Pass the end of a stream on; when both have ended, close."""
        if self.requests.ended and self.responses.ended:
            self.close()
        elif side is not None and not side.is_closing() and side.can_write_eof():
            side.write_eof()

    def close(self) -> None:
        """After what was written is with the kernel."""
        for side in (self._caller, self._server):
            if side is not None and not side.is_closing():
                side.close()

    def close_after_writing(self) -> None:
        self.engine.loop.call_soon(self.close)

    def abort(self) -> None:
        """At once, with a reset."""
        for side in (self._caller, self._server):
            reset(side)

    def closed(self) -> bool:
        return self._caller is None and self._server is None

    # frames

    def answered(self, correlation: int) -> Frame:
        """The request that a response answers; those before it that have none (acks=0) are forgotten."""
        while self.unanswered:
            request = self.unanswered.popleft()
            if request is None:
                self.silent = True
            elif request.correlation == correlation:
                return request
        raise Unparsable(f"a response to a request {correlation} that was never sent")

    def give_up(self, stream: Stream, why: str, size: int, now: int) -> None:
        """This is no Kafka: from here on bytes pass as they come."""
        if self.opaque:
            return
        self.opaque = True
        frame = Frame(self, -1, -1, -1, None)
        frame.size, frame.in_ns, frame.out_ns = size, now, now
        self.engine.became_opaque(frame, why)
        other = self.responses if stream is self.requests else self.requests
        other.flush()


def reset(side: asyncio.Transport | None) -> None:
    """Close a transport so that its peer sees a reset."""
    if side is None or side.is_closing():
        return
    linger: Any = side.get_extra_info("socket")
    linger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    side.abort()


class ServerSide(asyncio.Protocol):
    """What the server says."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        server = cast(asyncio.Transport, transport)
        server.set_write_buffer_limits(_BUFFER)
        self.connection.reached(server)

    def data_received(self, data: bytes) -> None:
        self.connection.responses.feed(data)

    def eof_received(self) -> bool:
        self.connection.server_ended(None, gone=False)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.connection.server_ended(error, gone=True)
        self.connection.engine.left(self.connection)

    def pause_writing(self) -> None:
        self.connection.requests.sink_full = True
        self.connection.requests.regulate()

    def resume_writing(self) -> None:
        self.connection.requests.sink_full = False
        self.connection.requests.regulate()


class CallerSide(asyncio.Protocol):
    """What the node that opened the connection says. `connect`: dial its destination."""

    def __init__(self, engine: Engine, source: str) -> None:
        self.engine = engine
        self.source = source
        self.connection: Connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        caller = cast(asyncio.Transport, transport)
        caller.set_write_buffer_limits(_BUFFER)
        self.connection = self.engine.accepted(self.source, caller)

    def data_received(self, data: bytes) -> None:
        self.connection.requests.feed(data)

    def eof_received(self) -> bool:
        self.connection.caller_ended(None, gone=False)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.connection.caller_ended(error, gone=True)
        self.engine.left(self.connection)

    def pause_writing(self) -> None:
        self.connection.responses.sink_full = True
        self.connection.responses.regulate()

    def resume_writing(self) -> None:
        self.connection.responses.sink_full = False
        self.connection.responses.regulate()
