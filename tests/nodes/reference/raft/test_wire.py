from __future__ import annotations

import io

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.vote.v0 import request as vote_request
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity

from nodes.reference.raft.log import Batch, LeaderChange, OffsetAndEpoch, Voters
from nodes.reference.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReplicaState,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from nodes.reference.raft.records import CorruptBatch
from nodes.reference.raft.wire import request_from_kafka, request_to_kafka, response_from_kafka, response_to_kafka

BATCHES = (
    Batch(5, 3, 1_700_000_000_000, (b"first", b"", b"third" * 100)),
    Batch(8, 3, 0, control=LeaderChange(2, (1, 2, 3), (2, 3))),
    Batch(9, 3, 0, control=Voters((1, 2, 3), (2, 3, 4))),
    Batch(10, 3, 0, control=Voters((1, 2, 3))),
)


def through_bytes(entity: Entity) -> Entity:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    read, size = entity_reader(type(entity))(buffer.getvalue(), 0)
    assert size == len(buffer.getvalue())
    return read


@pytest.mark.parametrize(
    "request_",
    [
        VoteRequest("k", 3, 2, 2, 17),
        BeginQuorumEpochRequest("k", 3, 2),
        EndQuorumEpochRequest("k", 3, 2, (3, 1)),
        FetchRequest("k", 7, 3, 17, 2, 500, 1 << 20),
        FetchSnapshotRequest("k", 7, 3, OffsetAndEpoch(100, 2), 4096, 1 << 20),
        DescribeQuorumRequest(),
    ],
    ids=lambda request: type(request).__name__,
)
def test_requests_come_through(request_: Request) -> None:
    assert request_from_kafka(through_bytes(request_to_kafka(request_))) == request_


@pytest.mark.parametrize(
    "response",
    [
        VoteResponse(ErrorCode.none, None, 3, True),
        VoteResponse(ErrorCode.fenced_leader_epoch, 1, 4),
        BeginQuorumEpochResponse(ErrorCode.none, 2, 3),
        EndQuorumEpochResponse(ErrorCode.none, 2, 3),
        FetchResponse(ErrorCode.none, 2, 3, 10, 5, BATCHES),
        FetchResponse(ErrorCode.none, 2, 3, 10, 5, diverging=OffsetAndEpoch(7, 1)),
        FetchResponse(ErrorCode.none, 2, 3, 10, 5, snapshot_id=OffsetAndEpoch(100, 2)),
        FetchResponse(ErrorCode.not_leader_or_follower, None, 3),
        FetchSnapshotResponse(ErrorCode.none, 2, 3, OffsetAndEpoch(100, 2), 9, 4, b"piece"),
    ],
)
def test_responses_come_through(response: Response) -> None:
    assert response_from_kafka(through_bytes(response_to_kafka(response, cluster_id="k"))) == response


def test_a_described_quorum_is_written() -> None:
    response = DescribeQuorumResponse(
        ErrorCode.none, 2, 3, 10, (ReplicaState(1, 9, 5, 5),), (), (ReplicaState(7, 8, 1, 1),)
    )
    (topic,) = through_bytes(response_to_kafka(response, cluster_id="k")).topics  # type: ignore[attr-defined]
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.high_watermark) == (2, 10)
    assert [replica.replica_id for replica in partition.current_voters + partition.observers] == [1, 7]


def test_records_that_are_damaged_are_refused() -> None:
    response = response_to_kafka(FetchResponse(ErrorCode.none, 2, 3, 10, 5, BATCHES), cluster_id="k")
    buffer = io.BytesIO()
    entity_writer(type(response))(buffer, response)
    damaged = buffer.getvalue().replace(b"first", b"worst")
    read, _ = entity_reader(type(response))(damaged, 0)
    with pytest.raises(CorruptBatch, match="checksum"):
        response_from_kafka(read)


def test_more_than_one_partition_is_refused() -> None:
    with pytest.raises(ValueError, match="one partition"):
        request_from_kafka(vote_request.VoteRequest(cluster_id="k", topics=()))
