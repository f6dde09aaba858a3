from __future__ import annotations

import asyncio
import socket

import pytest
from kio.schema.metadata.v12 import MetadataResponse

from nodes.protocol import requests
from nodes.protocol.connection import Connection, Unreachable, Unsupported
from nodes.protocol.framing import RequestHead
from tests.nodes.protocol.servers import response, serving, versions

API_VERSIONS, METADATA = 18, 3
SPEAKS = {API_VERSIONS: (0, 3), METADATA: (0, 12)}
NOTHING = MetadataResponse(brokers=(), topics=(), throttle_time=versions({}).throttle_time)


async def kafka(head: RequestHead) -> bytes:
    return response(versions(SPEAKS) if head.api_key == API_VERSIONS else NOTHING, head.correlation_id)


def test_a_request_is_answered_and_the_server_s_versions_are_known() -> None:
    async def body() -> None:
        async with serving(kafka) as port, await Connection.open("127.0.0.1", port, timeout=30) as connection:
            assert connection.versions == SPEAKS
            assert await requests.metadata(connection, timeout=30) == NOTHING

    asyncio.run(body())


def test_a_version_that_the_server_does_not_speak_is_refused_before_it_is_sent() -> None:
    asked = []

    async def old(head: RequestHead) -> bytes:
        asked.append(head.api_key)
        return response(versions({API_VERSIONS: (0, 3), METADATA: (0, 11)}), head.correlation_id)

    async def body() -> None:
        async with serving(old) as port, await Connection.open("127.0.0.1", port, timeout=30) as connection:
            with pytest.raises(Unsupported, match=r"MetadataRequest v12: 127\.0\.0\.1:\d+ speaks 0 to 11"):
                await requests.metadata(connection, timeout=30)
            with pytest.raises(Unsupported, match="speaks no version of it"):
                await requests.quorum(connection, timeout=30)

    asyncio.run(body())
    assert asked == [API_VERSIONS]


def test_a_server_that_accepts_but_never_answers_is_unreachable_within_the_deadline() -> None:
    """A paused process: its kernel accepts, nobody reads."""

    async def body() -> None:
        silent = pytest.raises(Unreachable, match=r"did not answer ApiVersionsRequest within 0\.\d+ s")
        with socket.create_server(("127.0.0.1", 0)) as listening, silent:
            await Connection.open("127.0.0.1", listening.getsockname()[1], timeout=0.2)

    asyncio.run(body())


def test_a_late_answer_is_not_taken_for_the_next_one_s() -> None:
    async def slow(head: RequestHead) -> bytes:
        if head.api_key == METADATA:
            await asyncio.Event().wait()
        return await kafka(head)

    async def body() -> None:
        async with serving(slow) as port, await Connection.open("127.0.0.1", port, timeout=30) as connection:
            with pytest.raises(Unreachable, match="did not answer MetadataRequest"):
                await requests.metadata(connection, timeout=0.2)
            assert connection.closed
            with pytest.raises(Unreachable):
                await requests.metadata(connection, timeout=30)

    asyncio.run(body())


async def _wrong_number(head: RequestHead) -> bytes:
    right = head.correlation_id + (head.api_key != API_VERSIONS)
    return response(versions(SPEAKS) if head.api_key == API_VERSIONS else NOTHING, right)


async def _garbage(head: RequestHead) -> bytes:
    return await kafka(head) if head.api_key == API_VERSIONS else b"HTTP/1.1 400 Bad Request\r\n\r\n"


async def _hang_up(head: RequestHead) -> bytes:
    return await kafka(head) if head.api_key == API_VERSIONS else b""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (_wrong_number, "answer 3 to request 2"),
        (_garbage, "a frame of 1213486160 bytes"),
        (_hang_up, "closed the connection instead of answering MetadataRequest"),
    ],
)
def test_an_answer_that_is_no_answer_ends_the_connection(answer: object, said: str) -> None:
    async def body() -> None:
        async with serving(answer) as port, await Connection.open("127.0.0.1", port, timeout=30) as connection:  # type: ignore[arg-type]
            with pytest.raises(Unreachable, match=said):
                await requests.metadata(connection, timeout=30)
            assert connection.closed

    asyncio.run(body())


def test_a_refused_connection_names_the_peer() -> None:
    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        with pytest.raises(Unreachable, match=rf"127\.0\.0\.1:{port}: Connect"):
            await Connection.open("127.0.0.1", port, timeout=30)

    asyncio.run(body())
