"""The network of a node that runs for real (`environment.Network`): the Kafka protocol over TCP.

A frame is four bytes of length and that many more; one that is longer than `socket.request.max.bytes`, or that makes no sense, closes
its connection and nothing else. A connection has one request in work and its answer in the buffer, not more: while it is served, what
the peer sends further waits in the kernel, as with Kafka. A peer that does not read its answers waits, too, and holds nothing but
that one answer. What all connections together may hold, and when a silent one is closed, is in `connections.py`.

    network = KafkaNetwork(Codec(cluster_id))
    listening = await network.listen(Address("127.0.0.1", 0), handlers)
    connection = await network.connect(listening.address, client_id="broker-1", deadline=clock.now() + SECOND)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import time
from collections import deque
from typing import Final

from nodes.reference.environment import MILLISECOND, SECOND, Address, Caller, Disconnected, Refused, Serve
from nodes.reference.process.codec import BadFrame, Codec
from nodes.reference.process.connections import Connected, Connections, ConnectionSettings
from nodes.reference.server.handlers import Handlers

_BUFFER: Final = 1 << 16  # bytes read ahead from one connection (asyncio lets it be twice as many)
_SWEEPS: Final = 8  # in the time after which a silent connection is closed
_SIZE: Final = struct.Struct(">i")
_LOG: Final = logging.getLogger("krash.reference.network")


def _left(deadline: int) -> float:
    return max(0.0, (deadline - time.monotonic_ns()) / SECOND)


class KafkaNetwork:
    """`connections`: those of all its listeners. `socket.request.max.bytes` bounds one frame, in either direction."""

    def __init__(self, codec: Codec, settings: ConnectionSettings | None = None) -> None:
        self._codec = codec
        self.connections = Connections(settings or ConnectionSettings())

    async def connect(self, address: Address, *, client_id: str, deadline: int) -> KafkaConnection:
        try:
            async with asyncio.timeout(_left(deadline)):
                reader, writer = await asyncio.open_connection(address.host, address.port, limit=_BUFFER)
        except (OSError, TimeoutError) as error:
            raise Disconnected(f"{address.host}:{address.port}: {error or 'no connection in time'}") from error
        max_bytes = self.connections.settings.socket_request_max_bytes
        return KafkaConnection(self._codec, max_bytes, address, client_id, reader, writer)

    async def listen(self, address: Address, serve: Serve) -> KafkaListening:
        handlers = serve if isinstance(serve, Handlers) else Handlers(quorum=serve)
        listening = KafkaListening(self._codec, self.connections, handlers)
        await listening.open(address)
        return listening


class KafkaConnection:
    """The asking end. Several may ask at once: requests go out in order, and so come the answers."""

    def __init__(
        self,
        codec: Codec,
        max_bytes: int,
        address: Address,
        client_id: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._codec = codec
        self._max_bytes = max_bytes
        self._address = address
        self._client_id = client_id
        self._reader = reader
        self._writer = writer
        self._correlation = 0
        self._asked: deque[tuple[int, object, asyncio.Future[object]]] = deque()
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def closed(self) -> bool:
        return self._writer.is_closing()

    async def ask(self, request: object, *, deadline: int) -> object:
        if self.closed:
            raise self._gone()
        self._correlation += 1
        frame = self._codec.request(request, correlation_id=self._correlation, client_id=self._client_id)
        response: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._asked.append((self._correlation, request, response))
        self._writer.write(frame)
        try:
            async with asyncio.timeout(_left(deadline)):
                return await response
        except TimeoutError as error:
            self.close()
            raise Disconnected(f"{self._address.host}:{self._address.port} did not answer in time") from error

    def tell(self, request: object) -> None:
        if self.closed:
            raise self._gone()
        self._correlation += 1
        self._writer.write(self._codec.request(request, correlation_id=self._correlation, client_id=self._client_id))

    def close(self) -> None:
        self._reading.cancel()
        with contextlib.suppress(OSError):
            self._writer.transport.abort()
        self._fail()

    async def _read(self) -> None:
        try:
            while True:
                frame = await self._reader.readexactly(await _announced(self._reader, self._max_bytes))
                if not self._asked:
                    raise BadFrame("an answer that nobody waits for")
                correlation_id, request, response = self._asked.popleft()
                if response.done():  # whoever asked has given up without closing the connection
                    continue
                try:
                    there, answer = self._codec.read_response(frame, request)
                    if there != correlation_id:
                        raise BadFrame(f"answer {there} to request {correlation_id}")
                except BadFrame:
                    self._asked.appendleft((correlation_id, request, response))
                    raise
                response.set_result(answer)
        except (OSError, EOFError, BadFrame):
            self._writer.transport.abort()
            self._fail()

    def _fail(self) -> None:
        while self._asked:
            response = self._asked.popleft()[-1]
            if not response.done():
                response.set_exception(self._gone())

    def _gone(self) -> Disconnected:
        return Disconnected(f"the connection to {self._address.host}:{self._address.port} is gone")


class KafkaListening:
    def __init__(self, codec: Codec, connections: Connections, handlers: Handlers) -> None:
        self._codec = codec
        self._all = connections
        self._handlers = handlers
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False
        self._count = 0

    @property
    def address(self) -> Address:
        assert self._server is not None
        return Address(*self._server.sockets[0].getsockname()[:2])

    @property
    def connections(self) -> int:
        return len(self._open)

    async def open(self, address: Address) -> None:
        self._server = await asyncio.start_server(
            self._accept, address.host, address.port, limit=_BUFFER, backlog=1024, reuse_address=True
        )
        self._sweep()

    def close(self) -> None:
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._server is not None:
            self._server.close()
        for task in tuple(self._open):
            task.cancel()

    def _sweep(self) -> None:
        self._all.sweep(time.monotonic_ns())
        seconds = self._all.settings.connections_max_idle_ms * MILLISECOND / SECOND / _SWEEPS
        self._sweeping = asyncio.get_running_loop().call_later(seconds, self._sweep)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed:  # it was accepted just before
            writer.transport.abort()
            return
        peer = writer.get_extra_info("peername")
        host: str = peer[0] if peer else ""

        def end(reason: str) -> None:
            _LOG.info("closed the connection of %s: %s", host, reason)
            writer.transport.abort()
            task.cancel()

        connected = self._all.opened(end, time.monotonic_ns())
        task = asyncio.get_running_loop().create_task(self._serve(connected, host, reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        task.add_done_callback(lambda _: self._all.gone(connected))
        task.add_done_callback(lambda _: writer.transport.abort())  # cancelled before it began, it has no `finally`

    async def _serve(
        self, connected: Connected, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._count += 1
        number = self._count
        _keep_alive(writer)
        try:
            while True:
                frame = await self._frame(connected, reader)
                await self._all.room()
                answer = await self._answer(host, number, frame)
                if answer is not None:
                    self._all.hold(connected, len(answer))
                    writer.write(answer)
                    del answer
                    await writer.drain()
                self._all.done(connected, time.monotonic_ns())
        except (OSError, EOFError):
            pass  # the peer has left
        except (BadFrame, Refused) as refused:
            _LOG.info("closed the connection of %s: %s", host, refused)
        except Exception:  # noqa: BLE001 - whatever one request brings about, the node goes on serving the others
            _LOG.exception("closed the connection of %s: a request could not be served", host)
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _frame(self, connected: Connected, reader: asyncio.StreamReader) -> bytes:
        """What has come of it counts, not what it announces."""
        size = await _announced(reader, self._all.settings.socket_request_max_bytes)
        if size <= _BUFFER:
            self._all.hold(connected, size)
            return await reader.readexactly(size)
        pieces = []
        while size:
            piece = await reader.read(min(size, _BUFFER))
            if not piece:
                raise EOFError("it ended inside of a request")
            self._all.hold(connected, len(piece))
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    async def _answer(self, host: str, connection: int, frame: bytes) -> bytes | None:
        incoming = self._codec.read_request(frame, self._handlers)
        if incoming.request is None:
            return self._codec.response(incoming, self._handlers.unsupported_version())
        response = await self._handlers(Caller(host, incoming.client_id, connection), incoming.request)
        return None if response is None else self._codec.response(incoming, response)


async def _announced(reader: asyncio.StreamReader, max_bytes: int) -> int:
    """The size of the next frame."""
    size: int = _SIZE.unpack(await reader.readexactly(_SIZE.size))[0]
    if not 0 < size <= max_bytes:
        raise BadFrame(f"a frame of {size} bytes")
    return size


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """A peer whose machine is gone sends nothing, not even an end."""
    there = writer.get_extra_info("socket")
    if there is not None:
        there.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
