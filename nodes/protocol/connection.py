"""One raw connection to a Kafka server, for observers and races. Workloads use a real client instead.

    async with await Connection.open("10.0.0.2", 9092, timeout=1) as connection:
        metadata = await connection.ask(MetadataRequest(...), MetadataResponse, timeout=1)

Every request has a deadline, because a paused process still accepts TCP (the kernel does) and a cut one answers nothing. Requests go
one at a time; a connection that missed a deadline or broke is closed, so that a late answer is never taken for the next one's.
ApiVersions is asked first: a request in a version that the server does not speak is refused here, with what it does speak.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Final, Self, TypeVar

from kio.schema.api_versions.v3 import ApiVersionsRequest, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload, ResponsePayload

from nodes.protocol.framing import MAX_FRAME, BadFrame, decode_response, encode_request

CLIENT_ID: Final = "krash"
R = TypeVar("R", bound=ResponsePayload)
MakeSocket = Callable[[], Awaitable[socket.socket]]


class Unreachable(Exception):
    """No answer: refused, reset, silent beyond the deadline, or not Kafka. The message says which, and from whom."""


class Unsupported(Exception):
    """The server does not speak this request in this version."""


async def _connect(
    host: str, port: int, through: socket.socket | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if through is None:
        return await asyncio.open_connection(host, port, limit=2**20)
    try:
        through.setblocking(False)
        await asyncio.get_running_loop().sock_connect(through, (host, port))
        return await asyncio.open_connection(sock=through, limit=2**20)
    except BaseException:
        through.close()
        raise


class Connection:
    def __init__(self, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self.versions: Mapping[int, tuple[int, int]] = {}  # api key -> (lowest, highest) version of the server
        self.features: Mapping[str, int] = {}  # finalized feature -> level, e.g. {"metadata.version": 21}
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()
        self._correlation = 0

    @classmethod
    async def open(cls, host: str, port: int, *, timeout: float, dial: MakeSocket | None = None) -> Self:
        """Connect and learn what the server speaks, all within `timeout` seconds. Unreachable otherwise.

        dial: makes the TCP socket to connect with, for one that belongs to a node's network; None: the harness's own.
        """
        peer = f"{host}:{port}"
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        try:
            async with asyncio.timeout_at(until):
                reader, writer = await (_connect(host, port, await dial()) if dial else _connect(host, port))
        except TimeoutError:
            raise Unreachable(f"{peer} did not accept a connection within {timeout:g} s") from None
        except OSError as error:
            raise Unreachable(f"{peer}: {error.strerror or error}") from None
        connection = cls(peer, reader, writer)
        try:
            await connection.refresh(timeout=max(0.0, until - loop.time()))
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def closed(self) -> bool:
        return self._writer.is_closing()

    async def refresh(self, *, timeout: float) -> None:
        """Ask ApiVersions (again): what the server speaks and which features are finalized."""
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
        answer = await self._exchange(request, ApiVersionsResponse, timeout)
        if answer.error_code is not ErrorCode.none:
            raise Unreachable(f"{self.peer} refused ApiVersions: {answer.error_code.name}")
        self.versions = {int(api.api_key): (int(api.min_version), int(api.max_version)) for api in answer.api_keys}
        self.features = {feature.name: int(feature.max_version_level) for feature in answer.finalized_features}

    async def ask(self, request: RequestPayload, expect: type[R], *, timeout: float) -> R:
        """Send a request and return its response. Unreachable when none came in time, Unsupported before anything is sent."""
        low, high = self.versions.get(request.__api_key__, (0, -1))
        if not low <= request.__version__ <= high:
            name, speaks = type(request).__name__, f"{low} to {high}" if high >= 0 else "no version of it"
            raise Unsupported(f"{name} v{request.__version__}: {self.peer} speaks {speaks}")
        return await self._exchange(request, expect, timeout)

    async def _exchange(self, request: RequestPayload, expect: type[R], timeout: float) -> R:
        name = type(request).__name__
        try:
            async with asyncio.timeout(timeout), self._turn:
                return await self._send_and_receive(request, expect)
        except TimeoutError:
            self.close()
            raise Unreachable(f"{self.peer} did not answer {name} within {timeout:g} s") from None
        except asyncio.IncompleteReadError:
            self.close()
            raise Unreachable(f"{self.peer} closed the connection instead of answering {name}") from None
        except OSError as error:
            self.close()
            raise Unreachable(f"{self.peer} broke off at {name}: {error.strerror or error}") from None
        except BadFrame as error:
            self.close()
            raise Unreachable(f"{self.peer} does not speak Kafka as expected: {error}") from None
        except asyncio.CancelledError:
            self.close()
            raise

    async def _send_and_receive(self, request: RequestPayload, expect: type[R]) -> R:
        if self.closed:
            raise ConnectionResetError(None, "connection is closed")
        self._correlation += 1
        self._writer.write(encode_request(request, correlation_id=self._correlation, client_id=CLIENT_ID))
        await self._writer.drain()
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        if not 4 <= size <= MAX_FRAME:
            raise BadFrame(f"a frame of {size} bytes")
        correlation, response = decode_response(await self._reader.readexactly(size), expect)
        if correlation != self._correlation:
            raise BadFrame(f"answer {correlation} to request {self._correlation}")
        return response

    def close(self) -> None:
        """At once, without waiting for the peer (which may be cut off)."""
        with contextlib.suppress(OSError):
            self._writer.transport.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()
