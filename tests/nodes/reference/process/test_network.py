"""The real network: Kafka's frames over loopback, junk, unknown versions, order and deadlines; raft's messages and raw clients."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from kio.schema.api_versions.v3 import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import MetadataRequest, MetadataResponse

from nodes.protocol.connection import Connection as RawConnection
from nodes.protocol.connection import Unreachable
from nodes.protocol.framing import encode_request
from nodes.reference.environment import SECOND, Address, Caller, Disconnected, Refused
from nodes.reference.process.codec import Codec
from nodes.reference.process.connections import ConnectionSettings
from nodes.reference.process.network import KafkaListening, KafkaNetwork
from nodes.reference.raft.messages import Request, VoteRequest, VoteResponse
from nodes.reference.server.handlers import Api, Feature, Features, Handlers
from nodes.reference.server.schema import NO_TIME, fitted, request_module, response_module

EVERYTHING = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
Served = Callable[[Caller, object], Awaitable[object | None]]


def soon() -> int:
    return time.monotonic_ns() + 10 * SECOND


def metadata(request: object, cluster_id: str = "k") -> object:
    reply = response_module(request)
    return fitted(
        reply.MetadataResponse, throttle_time=NO_TIME, brokers=(), cluster_id=cluster_id, controller_id=1, topics=()
    )


async def at_once(caller: Caller, request: object) -> object:
    return metadata(request, caller.client_id)


def handlers(served: Served = at_once) -> Handlers:
    table = Handlers(lambda: Features((Feature("metadata.version", 1, 7, 7),), epoch=12))
    table.add(Api.METADATA, 0, 12, served)
    return table


@asynccontextmanager
async def listening(serve: Served, **settings: int) -> AsyncIterator[tuple[KafkaNetwork, KafkaListening]]:
    network = KafkaNetwork(Codec("k"), ConnectionSettings(**settings))
    server = await network.listen(Address("127.0.0.1", 0), serve)
    try:
        yield network, server
    finally:
        server.close()


async def exchange(address: Address, sent: bytes) -> bytes:
    """All that comes back before the connection ends, or four bytes and what they announce."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(sent)
    try:
        async with asyncio.timeout(10):
            size = await reader.read(4)
            return size and await reader.readexactly(struct.unpack(">i", size)[0])
    except ConnectionResetError:
        return b""
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("version", [0, 5, 12])
def test_every_version_is_asked_and_answered(version: int) -> None:
    async def main() -> None:
        async with listening(handlers()) as (network, server):
            connection = await network.connect(server.address, client_id="me", deadline=soon())
            asked = fitted(
                request_module(3, version).MetadataRequest, topics=(), include_topic_authorized_operations=False
            )
            response = await connection.ask(asked, deadline=soon())
            assert type(response).__name__ == "MetadataResponse"
            assert getattr(response, "cluster_id", "me") == "me"
            connection.close()

    asyncio.run(main())


def test_raw_client_learns_what_is_served() -> None:
    async def main() -> None:
        async with listening(handlers()) as (_, server), await RawConnection.open(*server.address, timeout=10) as raw:
            assert raw.versions == {3: (0, 12), 18: (0, 4)}
            assert raw.features == {"metadata.version": 7}
            assert (await raw.ask(EVERYTHING, MetadataResponse, timeout=10)).cluster_id == "krash"

    asyncio.run(main())


def test_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    """KIP-511."""

    async def main() -> None:
        async with listening(handlers()) as (_, server):
            frame = bytearray(
                encode_request(
                    ApiVersionsRequest(client_software_name="", client_software_version=""),
                    correlation_id=7,
                    client_id="x",
                )
            )
            frame[6:8] = struct.pack(">h", 99)
            answer = await exchange(server.address, bytes(frame))
            assert answer[:10] == struct.pack(">ihi", 7, ErrorCode.unsupported_version, 2)

    asyncio.run(main())


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", -5) + b"junk",
        struct.pack(">i", 0),
        struct.pack(">i", 2) + b"ab",
        struct.pack(">ihhi", 8, 3, 99, 1),  # an unknown version
        struct.pack(">ihhi", 8, 999, 0, 1),  # an unknown API
        struct.pack(">ihhih", 10, 3, 1, 1, 9),  # a client id that is cut off
    ],
)
def test_junk_closes_its_connection_and_no_other(junk: bytes) -> None:
    async def main() -> None:
        async with listening(handlers()) as (network, server):
            other = await network.connect(server.address, client_id="other", deadline=soon())
            assert await exchange(server.address, junk) == b""
            assert await other.ask(EVERYTHING, deadline=soon())
            other.close()

    asyncio.run(main())


def test_frame_that_is_too_long_is_not_read() -> None:
    async def main() -> None:
        async with listening(handlers(), socket_request_max_bytes=100) as (_, server):
            assert await exchange(server.address, struct.pack(">i", 101)) == b""

    asyncio.run(main())


def test_requests_of_a_connection_are_answered_in_order_and_others_do_not_wait() -> None:
    async def main() -> None:
        first_began, first_may_end, order = asyncio.Event(), asyncio.Event(), list[str]()

        async def serve(caller: Caller, request: object) -> object:
            if caller.client_id == "slow" and not order:
                order.append("first")
                first_began.set()
                await first_may_end.wait()
            order.append(caller.client_id)
            return metadata(request)

        async with listening(handlers(serve)) as (network, server):
            slow = await network.connect(server.address, client_id="slow", deadline=soon())
            quick = await network.connect(server.address, client_id="quick", deadline=soon())
            asked = [asyncio.ensure_future(slow.ask(EVERYTHING, deadline=soon())) for _ in range(2)]
            await first_began.wait()
            await quick.ask(EVERYTHING, deadline=soon())
            first_may_end.set()
            await asyncio.gather(*asked)
            assert order == ["first", "quick", "slow", "slow"]
            slow.close()
            quick.close()

    asyncio.run(main())


def test_no_answer_before_the_deadline_ends_the_connection() -> None:
    async def main() -> None:
        async def never(caller: Caller, request: object) -> object:
            await asyncio.Event().wait()
            return None

        async with listening(handlers(never)) as (network, server):
            connection = await network.connect(server.address, client_id="me", deadline=soon())
            with pytest.raises(Disconnected, match="did not answer in time"):
                await connection.ask(EVERYTHING, deadline=time.monotonic_ns())
            assert connection.closed
            with pytest.raises(Disconnected, match="is gone"):
                await connection.ask(EVERYTHING, deadline=soon())

    asyncio.run(main())


@pytest.mark.parametrize("error", [Refused("no"), RuntimeError("a defect")])
def test_what_a_handler_raises_ends_its_connection(error: Exception) -> None:
    async def main() -> None:
        async def raises(caller: Caller, request: object) -> object:
            raise error

        async with listening(handlers(raises)) as (_, server):
            with pytest.raises(Unreachable, match="closed the connection"):
                async with await RawConnection.open(*server.address, timeout=10) as raw:
                    await raw.ask(EVERYTHING, MetadataResponse, timeout=10)

    asyncio.run(main())


def test_closing_ends_what_is_open_and_nobody_listens_then() -> None:
    async def main() -> None:
        async with listening(handlers()) as (network, server):
            connection = await network.connect(server.address, client_id="me", deadline=soon())
            await connection.ask(EVERYTHING, deadline=soon())
            address = server.address
            server.close()
            with pytest.raises(Disconnected):
                await connection.ask(EVERYTHING, deadline=soon())
            with pytest.raises(Disconnected):
                await network.connect(address, client_id="me", deadline=soon())

    asyncio.run(main())


def test_messages_of_the_quorum_arrive_as_they_are() -> None:
    async def main() -> None:
        async def vote(caller: Caller, request: object) -> object:
            assert isinstance(request, Request)
            assert request == VoteRequest("k", 3, 2, 2, 17)
            return VoteResponse(ErrorCode.none, None, 3, granted=True)

        async with listening(vote) as (network, server):
            connection = await network.connect(server.address, client_id="raft-2", deadline=soon())
            answer = await connection.ask(VoteRequest("k", 3, 2, 2, 17), deadline=soon())
            assert answer == VoteResponse(ErrorCode.none, None, 3, granted=True)
            connection.close()

    asyncio.run(main())
