"""Raw requests as bytes: batches there and back, and answers that a generated reader would refuse."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import replace

import pytest

from nodes.kafka.disk import quorum_state
from nodes.protocol import logs, transactions
from nodes.protocol.connection import Connection, Unreachable
from nodes.protocol.framing import BadFrame, RequestHead, decode_response
from nodes.protocol.logs import Writer
from nodes.protocol.transaction_state import DescribeTransactionsResponse
from nodes.system import QuorumState
from tests.nodes.protocol.servers import response, serving, versions

WRITER = Writer(producer_id=4000, epoch=3, transactional_id="tx")


def test_a_batch_reads_back_as_it_was_made() -> None:
    plain = logs.batch([b"a", b"b"])
    assert [(one.offset, one.value, one.producer_id, one.transactional, one.control) for one in logs.read(plain)] == [
        (0, b"a", -1, False, False),
        (1, b"b", -1, False, False),
    ]
    (record,) = logs.read(logs.batch([b"c"], writer=WRITER, base_sequence=7))
    assert (record.producer_id, record.epoch, record.transactional) == (4000, 3, True)
    (record,) = logs.read(logs.batch([b"c"], writer=replace(WRITER, transactional_id=None), base_sequence=7))
    assert (record.producer_id, record.transactional) == (4000, False)


def test_what_is_cut_off_ends_the_records_and_what_is_broken_is_told() -> None:
    two = logs.batch([b"a"]) + logs.batch([b"b"])
    assert len(logs.read(two)) == 2
    assert len(logs.read(two[:-1])) == 1
    with pytest.raises(BadFrame, match="record batch at byte 0: Checksum mismatch"):
        logs.read(two[:30] + b"x" + two[31:])
    compressed = two[:22] + b"\x01" + two[23:]
    with pytest.raises(BadFrame, match="batch at byte 0 is compressed"):
        logs.read(compressed)


def test_a_transaction_that_is_not_open_has_no_start_time() -> None:
    state = struct.pack(">h", 0) + b"\x03tx\x06Empty" + struct.pack(">iqqh", 60_000, -1, 4000, 3) + b"\x01\0"
    frame = struct.pack(">i", 5) + b"\0" + struct.pack(">i", 0) + b"\x02" + state + b"\0"
    correlation, answer = decode_response(frame, DescribeTransactionsResponse)
    assert correlation == 5
    (told,) = answer.transaction_states
    assert (told.transaction_state, told.transaction_start_time_ms, told.producer_id) == ("Empty", -1, 4000)


def test_what_cannot_be_asked_is_refused_before_it_is_sent() -> None:
    async def body() -> None:
        async def kafka(head: RequestHead) -> bytes:
            return response(versions({18: (0, 3)}), head.correlation_id)

        async with serving(kafka) as port, await Connection.open("127.0.0.1", port, timeout=30) as connection:
            with pytest.raises(ValueError, match="acks=0 has no answer"):
                await logs.produce(connection, "t", 0, [b"a"], acks=0, timeout=1)
            with pytest.raises(ValueError, match="no transactional id"):
                await transactions.end(connection, replace(WRITER, transactional_id=None), commit=True, timeout=1)

    asyncio.run(body())


def test_a_connection_goes_through_the_socket_that_is_dialled_and_leaves_none_behind() -> None:
    async def kafka(head: RequestHead) -> bytes:
        return response(versions({18: (0, 3)}), head.correlation_id)

    async def body() -> None:
        made: list[socket.socket] = []

        async def dial() -> socket.socket:
            made.append(socket.socket())
            made[-1].bind(("127.0.0.7", 0))
            return made[-1]

        async with (
            serving(kafka) as port,
            await Connection.open("127.0.0.1", port, timeout=30, dial=dial) as connection,
        ):
            assert connection.versions == {18: (0, 3)}
            assert made[0].getsockname()[0] == "127.0.0.7"
        with pytest.raises(Unreachable):
            await Connection.open("127.0.0.1", port, timeout=30, dial=dial)
        assert made[1].fileno() == -1

    asyncio.run(body())


@pytest.mark.parametrize(
    "written",
    [
        '{"clusterId":"","leaderId":101,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}',
        '{"leaderId":101,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}',
    ],
)
def test_a_quorum_state_is_read_in_both_its_versions(written: str) -> None:
    assert quorum_state(written) == QuorumState(leader=101, epoch=3, voted=-1)
