"""Servers on loopback that speak just enough Kafka to be asked."""

from __future__ import annotations

import asyncio
import datetime
import io
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from kio.schema.api_versions.v3 import ApiVersionsResponse
from kio.schema.api_versions.v3.response import ApiVersion
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.primitive import i16, i32, i32Timedelta

from nodes.protocol.framing import RequestHead, request_head

Answer = Callable[[RequestHead], Awaitable[bytes]]


def response(payload: Any, correlation_id: int) -> bytes:
    header_type = cast(Any, payload.__header_schema__)
    buffer = io.BytesIO()
    entity_writer(header_type)(buffer, header_type(correlation_id=i32(correlation_id)))
    entity_writer(type(payload))(buffer, payload)
    return struct.pack(">i", buffer.tell()) + buffer.getvalue()


def versions(speaks: Mapping[int, tuple[int, int]]) -> ApiVersionsResponse:
    keys = tuple(
        ApiVersion(api_key=i16(key), min_version=i16(low), max_version=i16(high)) for key, (low, high) in speaks.items()
    )
    none = i32Timedelta.parse(datetime.timedelta())
    return ApiVersionsResponse(error_code=ErrorCode.none, api_keys=keys, throttle_time=none)


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[int]:
    """Port of a server that answers each request with `answer`; an empty answer closes the connection."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                said = await answer(request_head(await reader.readexactly(size)))
                if not said:
                    break
                writer.write(said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()
