"""A real node and peers that mean no good: junk, a thousand silent ones, slow senders and readers. It goes on serving others."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from random import Random

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12 import MetadataResponse
from kio.schema.produce.v9.response import ProduceResponse

from nodes.protocol.connection import Connection
from nodes.protocol.framing import encode_request
from nodes.reference.environment import Address
from nodes.reference.server.handlers import Api
from tests.nodes.reference.process.asking import create, everything, one_record
from tests.nodes.reference.process.generated import damaged, entity, framed, request_classes
from tests.nodes.reference.process.standing import EVERYTHING, PATIENCE, Standing, standing

MIB = 1 << 20
QUEUED = 8 * MIB
MANY_TOPICS = b"\xff\xff\xff\xff\x0f"  # 2^32 - 2 of them, as a compact length
JUNK = [
    b"GET / HTTP/1.1\r\n\r\n",
    struct.pack(">i", -5) + b"junk",
    struct.pack(">i", 0),
    struct.pack(">i", 2) + b"ab",
    struct.pack(">i", 0x7FFF_FFFF),
    struct.pack(">i", (100 << 20) + 1),
    *(struct.pack(">ihhi", 8, key, version, 1) for key in (0, 3, 18, 52, 999, -1) for version in (99, -1)),
    struct.pack(">ihhih", 10, 3, 1, 1, 9),  # a client id that is cut off
    struct.pack(">ihhih", 16, 3, 12, 1, -1) + b"\0" + MANY_TOPICS,
    struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0x7FFF_FFFF),
]
# what only members of the cluster ask, and who forges it can do harm to any Kafka without authentication
OF_MEMBERS = {
    *(Api.VOTE, Api.BEGIN_QUORUM_EPOCH, Api.END_QUORUM_EPOCH, Api.FETCH_SNAPSHOT, Api.ALTER_PARTITION),
    *(Api.BROKER_REGISTRATION, Api.BROKER_HEARTBEAT, Api.UNREGISTER_BROKER, Api.UPDATE_FEATURES),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4_096)), hard))
    with standing(tmp_path_factory.mktemp("node"), {"queued.max.request.bytes": str(QUEUED)}) as node:
        node.until_ready()
        asyncio.run(create(node.clients))
        yield node
        assert node.end() == 0, node.said
        assert [line for line in node.said.splitlines() if "Error" in line or "could not be served" in line] == []


async def serves(node: Standing, value: bytes = b"v") -> None:
    """A client writes a record, and it is acknowledged."""
    async with await Connection.open(*node.clients, timeout=PATIENCE) as connection:
        assert (await connection.ask(EVERYTHING, MetadataResponse, timeout=PATIENCE)).brokers
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            answer = await connection.ask(one_record(value), ProduceResponse, timeout=PATIENCE)
            error = answer.responses[0].partition_responses[0].error_code
            if error is ErrorCode.none:
                return
            assert error is ErrorCode.not_leader_or_follower  # the machine was too slow for the lease
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)


@asynccontextmanager
async def connected(
    address: Address, count: int = 1
) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    opened = []
    try:
        for _ in range(count):
            opened.append(await asyncio.open_connection(*address))
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def throw(address: Address, sent: bytes) -> bytes:
    """What comes back before the connection ends, after this and nothing more."""
    async with asyncio.timeout(PATIENCE), connected(address) as ((reader, writer),):
        writer.write(sent)
        with contextlib.suppress(OSError):
            writer.write_eof()
            return await reader.read()
    return b""


async def drop(address: Address, sent: bytes) -> None:
    """Without waiting for what may be an hour away: a fetch may ask for that."""
    async with connected(address) as ((reader, writer),):
        writer.write(sent)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(0.05):
                await reader.read(1)


def test_junk_is_answered_by_a_closed_connection(node: Standing) -> None:
    async def main() -> None:
        for address in (node.clients, node.controllers):
            for junk in JUNK:
                answer = await throw(address, junk)
                assert answer == b"" or junk[4:6] == b"\0\x12", (address, junk)  # KIP-511: ApiVersions is answered
        await serves(node)

    asyncio.run(main())


def test_nearly_requests(node: Standing) -> None:
    """Whatever comes of each, the next client is served, and no handler raised what it should not (the fixture looks)."""
    random = Random(5)

    asked = [known for known in request_classes() if known.__api_key__ not in OF_MEMBERS]
    frames = [framed(random, entity(random, known)) for known in asked for _ in range(2)]
    frames += [damaged(random, frame) for frame in frames]
    sent = [(to, struct.pack(">i", len(frame)) + frame) for frame in frames for to in (node.clients, node.controllers)]

    async def main() -> None:
        for number in range(0, len(sent), 100):
            await asyncio.gather(*(drop(*each) for each in sent[number : number + 100]))
        await serves(node)

    asyncio.run(main())


def test_a_thousand_silent_connections(node: Standing) -> None:
    async def main() -> None:
        await serves(node)
        before = node.resident
        async with connected(node.clients, 500) as idle, connected(node.controllers, 500) as others:
            for _, writer in (*idle[::2], *others[::2]):
                writer.write(struct.pack(">ihh", 1_000, 3, 12))  # half of a head
            await serves(node)
            assert node.resident - before < 50 * MIB
            assert not any(reader.at_eof() for reader, _ in (*idle, *others))

    asyncio.run(main())


def test_those_who_send_slowly_make_room_for_others(node: Standing) -> None:
    """A hundred who announce 90 MiB and send four each: not much more is kept than may be queued."""

    async def main() -> None:
        await serves(node)
        before = node.resident
        async with connected(node.clients, 100) as slow:
            for _, writer in slow:
                writer.write(struct.pack(">ihh", 90 * MIB, 0, 9) + bytes(4 * MIB))
                with contextlib.suppress(OSError):
                    await writer.drain()
            await serves(node, b"x" * (MIB // 2))
            assert node.resident - before < 100 * MIB
            with contextlib.suppress(ConnectionResetError):  # the first one was closed
                await asyncio.wait_for(slow[0][0].read(), PATIENCE)

    asyncio.run(main())


def test_those_who_do_not_read_make_room_for_others(node: Standing) -> None:
    async def main() -> None:
        for _ in range(4):
            await serves(node, b"x" * (MIB - 1_000))
        before = node.resident
        async with connected(node.clients, 100) as lazy:
            for reader, writer in lazy:
                writer.write(encode_request(everything(), correlation_id=1, client_id="lazy") * 20)
                reader._transport.pause_reading()  # type: ignore[attr-defined]
            await serves(node)
            assert node.resident - before < 100 * MIB

    asyncio.run(main())
