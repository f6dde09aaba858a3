"""A real node whose disk takes no more: it says so, ends with code 3, and has what it acknowledged when it starts again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.response import FetchResponse
from kio.schema.produce.v9.response import ProduceResponse

from nodes.protocol.connection import Connection, Unreachable
from nodes.reference.process.run import FAILED
from tests.nodes.reference.process.asking import create, everything, one_record
from tests.nodes.reference.process.standing import PATIENCE, Standing, standing
from tests.nodes.reference.producing import records

# 2 MiB for each file (RLIMIT_FSIZE), as for a disk quota; Python ignores SIGXFSZ, so that a write fails with EFBIG
SMALL_FILES = ("sh", "-c", 'ulimit -f 4096; exec "$0" "$@"')
# a file system of its own, of 3 MiB, that is gone when the node is
SMALL_DISK = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
ALWAYS_FLUSH = {"log.flush.interval.messages": "1"}


async def acknowledged(node: Standing) -> AsyncIterator[tuple[int, bytes]]:
    """Offset and value of each record of 100 kB, until the node answers with an error or leaves."""
    async with await Connection.open(*node.clients, timeout=PATIENCE) as connection:
        for number in range(1_000):
            value = (b"%d" % number).ljust(100_000, b".")
            try:
                answer = await connection.ask(one_record(value), ProduceResponse, timeout=PATIENCE)
            except Unreachable:
                return
            partition = answer.responses[0].partition_responses[0]
            if partition.error_code is not ErrorCode.none:
                assert partition.error_code in (ErrorCode.kafka_storage_error, ErrorCode.not_leader_or_follower)
                return
            yield partition.base_offset, value


async def fill(node: Standing) -> dict[int, bytes]:
    await create(node.clients)
    return {offset: value async for offset, value in acknowledged(node)}


async def read(node: Standing, count: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    async with await Connection.open(*node.clients, timeout=PATIENCE) as connection:
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while len(found) < count:
            assert asyncio.get_running_loop().time() < deadline
            answer = await connection.ask(everything(len(found)), FetchResponse, timeout=PATIENCE)
            content = answer.responses[0].partitions[0].records
            found |= {record.offset: record.value or b"" for record in records(content or b"")}
    return found


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    with standing(tmp_path, ALWAYS_FLUSH, prefix=SMALL_FILES) as node:
        node.until_ready()
        written = asyncio.run(fill(node))
        assert node.ended() == FAILED
        assert "the disk failed: orders-0: [Errno 27] File too large" in node.said
        assert "Traceback" not in node.said
        assert 10 < len(written) < 30
        node.start(prefix=())
        node.until_ready()
        found = asyncio.run(read(node, len(written)))
        assert written.items() <= found.items()
        assert node.end() == 0


@pytest.mark.namespaces
def test_a_file_system_that_is_full(tmp_path: Path) -> None:
    mount = f'mount -t tmpfs -o size=3m none {tmp_path}/data && exec "$0" "$@"'
    (tmp_path / "data").mkdir()
    with standing(tmp_path, ALWAYS_FLUSH, prefix=(*SMALL_DISK, mount)) as node:
        node.until_ready()
        assert 10 < len(asyncio.run(fill(node))) < 40
        assert node.ended() == FAILED
        assert "No space left on device" in node.said
        assert "Traceback" not in node.said
