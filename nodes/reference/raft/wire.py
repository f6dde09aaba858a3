"""The quorum's messages as Kafka's: what a real network sends in their place, and what it makes of those it gets.

The partition is `__cluster_metadata`-0. Vote, BeginQuorumEpoch, EndQuorumEpoch and FetchSnapshot have version 0, DescribeQuorum 1, Fetch
12: the first of each that has all that KIP-595 and KIP-630 need. DescribeQuorum has no place for KIP-642's target voters: they stay here.

    request_to_kafka(VoteRequest("k", epoch=3, candidate_id=2, last_epoch=2, last_offset=17))      kio's VoteRequest
    request_from_kafka(vote)                                                                       the same again
    response_to_kafka(FetchResponse(...), cluster_id="k")                                          kio's FetchResponse
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kio.schema.begin_quorum_epoch.v0 import request as begin_request
from kio.schema.begin_quorum_epoch.v0 import response as begin_response
from kio.schema.describe_quorum.v1 import request as describe_request
from kio.schema.describe_quorum.v1 import response as describe_response
from kio.schema.end_quorum_epoch.v0 import request as end_request
from kio.schema.end_quorum_epoch.v0 import response as end_response
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import request as fetch_request
from kio.schema.fetch.v12 import response as fetch_response
from kio.schema.fetch_snapshot.v0 import request as snapshot_request
from kio.schema.fetch_snapshot.v0 import response as snapshot_response
from kio.schema.types import BrokerId, TopicName
from kio.schema.vote.v0 import request as vote_request
from kio.schema.vote.v0 import response as vote_response
from kio.serial.readers import read_timedelta_i32
from kio.static.primitive import Records, i32, i32Timedelta, i64
from kio.static.protocol import Entity

from nodes.reference.raft.log import OffsetAndEpoch
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
from nodes.reference.raft.records import decode_all, encode

TOPIC: Final = TopicName("__cluster_metadata")
_PARTITION: Final = i32(0)
_NOBODY: Final = -1


def _milliseconds(count: int) -> i32Timedelta:
    return read_timedelta_i32(count.to_bytes(4, "big", signed=True), 0)[0]


_NO_TIME: Final = _milliseconds(0)


def _only(topics: Sequence[Any]) -> Any:
    """The one partition that there is. ValueError for anything else."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise ValueError(f"a quorum has one partition, {TOPIC}-0, not {topics}")
    return topics[0].partitions[0]


def _leader(leader_id: int | None) -> BrokerId:
    return BrokerId(i32(_NOBODY if leader_id is None else leader_id))


def _known(leader_id: int) -> int | None:
    return None if leader_id == _NOBODY else leader_id


def request_to_kafka(request: Request) -> Entity:
    match request:
        case VoteRequest(cluster_id, epoch, candidate_id, last_epoch, last_offset):
            vote = vote_request.PartitionData(
                partition_index=_PARTITION,
                replica_epoch=i32(epoch),
                replica_id=BrokerId(i32(candidate_id)),
                last_offset_epoch=i32(last_epoch),
                last_offset=i64(last_offset),
            )
            topic = vote_request.TopicData(topic_name=TOPIC, partitions=(vote,))
            return vote_request.VoteRequest(cluster_id=cluster_id, topics=(topic,))
        case BeginQuorumEpochRequest(cluster_id, epoch, leader_id):
            begin = begin_request.PartitionData(
                partition_index=_PARTITION, leader_id=_leader(leader_id), leader_epoch=i32(epoch)
            )
            begins = begin_request.TopicData(topic_name=TOPIC, partitions=(begin,))
            return begin_request.BeginQuorumEpochRequest(cluster_id=cluster_id, topics=(begins,))
        case EndQuorumEpochRequest(cluster_id, epoch, leader_id, successors):
            end = end_request.PartitionData(
                partition_index=_PARTITION,
                leader_id=_leader(leader_id),
                leader_epoch=i32(epoch),
                preferred_successors=tuple(i32(successor) for successor in successors),
            )
            ends = end_request.TopicData(topic_name=TOPIC, partitions=(end,))
            return end_request.EndQuorumEpochRequest(cluster_id=cluster_id, topics=(ends,))
        case FetchRequest():
            return _fetch_to_kafka(request)
        case FetchSnapshotRequest(cluster_id, replica_id, epoch, snapshot_id, position, max_bytes):
            piece = snapshot_request.PartitionSnapshot(
                partition=_PARTITION,
                current_leader_epoch=i32(epoch),
                snapshot_id=snapshot_request.SnapshotId(
                    end_offset=i64(snapshot_id.offset), epoch=i32(snapshot_id.epoch)
                ),
                position=i64(position),
            )
            return snapshot_request.FetchSnapshotRequest(
                cluster_id=cluster_id,
                replica_id=BrokerId(i32(replica_id)),
                max_bytes=i32(max_bytes),
                topics=(snapshot_request.TopicSnapshot(name=TOPIC, partitions=(piece,)),),
            )
        case DescribeQuorumRequest():
            described = describe_request.PartitionData(partition_index=_PARTITION)
            asked = describe_request.TopicData(topic_name=TOPIC, partitions=(described,))
            return describe_request.DescribeQuorumRequest(topics=(asked,))


def _fetch_to_kafka(request: FetchRequest) -> Entity:
    partition = fetch_request.FetchPartition(
        partition=_PARTITION,
        current_leader_epoch=i32(request.epoch),
        fetch_offset=i64(request.offset),
        last_fetched_epoch=i32(request.last_fetched_epoch),
        partition_max_bytes=i32(0),
    )
    return fetch_request.FetchRequest(
        cluster_id=request.cluster_id,
        replica_id=BrokerId(i32(request.replica_id)),
        max_wait=_milliseconds(request.max_wait_ms),
        min_bytes=i32(0),
        max_bytes=i32(request.max_bytes),
        topics=(fetch_request.FetchTopic(topic=TOPIC, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def request_from_kafka(request: Entity) -> Request:
    """ValueError if it is not about the one partition of the quorum, or not one of its requests."""
    match request:
        case vote_request.VoteRequest():
            vote = _only(request.topics)
            return VoteRequest(
                request.cluster_id or "", vote.replica_epoch, vote.replica_id, vote.last_offset_epoch, vote.last_offset
            )
        case begin_request.BeginQuorumEpochRequest():
            begin = _only(request.topics)
            return BeginQuorumEpochRequest(request.cluster_id or "", begin.leader_epoch, begin.leader_id)
        case end_request.EndQuorumEpochRequest():
            end = _only(request.topics)
            return EndQuorumEpochRequest(
                request.cluster_id or "", end.leader_epoch, end.leader_id, tuple(end.preferred_successors)
            )
        case fetch_request.FetchRequest():
            fetch = _only(request.topics)
            return FetchRequest(
                request.cluster_id or "",
                request.replica_id,
                fetch.current_leader_epoch,
                fetch.fetch_offset,
                fetch.last_fetched_epoch,
                round(request.max_wait.total_seconds() * 1000),
                request.max_bytes,
            )
        case snapshot_request.FetchSnapshotRequest():
            piece = _only(request.topics)
            snapshot_id = OffsetAndEpoch(piece.snapshot_id.end_offset, piece.snapshot_id.epoch)
            return FetchSnapshotRequest(
                request.cluster_id or "",
                request.replica_id,
                piece.current_leader_epoch,
                snapshot_id,
                piece.position,
                request.max_bytes,
            )
        case describe_request.DescribeQuorumRequest():
            _only(request.topics)
            return DescribeQuorumRequest()
    raise ValueError(f"{type(request).__name__} is not a request of the quorum")


def response_to_kafka(response: Response, *, cluster_id: str) -> Entity:
    """`cluster_id` goes into voter assignments among the records."""
    match response:
        case VoteResponse(error, leader_id, epoch, granted):
            vote = vote_response.PartitionData(
                partition_index=_PARTITION,
                error_code=error,
                leader_id=_leader(leader_id),
                leader_epoch=i32(epoch),
                vote_granted=granted,
            )
            votes = vote_response.TopicData(topic_name=TOPIC, partitions=(vote,))
            return vote_response.VoteResponse(error_code=ErrorCode.none, topics=(votes,))
        case BeginQuorumEpochResponse(error, leader_id, epoch):
            begin = begin_response.PartitionData(
                partition_index=_PARTITION, error_code=error, leader_id=_leader(leader_id), leader_epoch=i32(epoch)
            )
            begins = begin_response.TopicData(topic_name=TOPIC, partitions=(begin,))
            return begin_response.BeginQuorumEpochResponse(error_code=ErrorCode.none, topics=(begins,))
        case EndQuorumEpochResponse(error, leader_id, epoch):
            end = end_response.PartitionData(
                partition_index=_PARTITION, error_code=error, leader_id=_leader(leader_id), leader_epoch=i32(epoch)
            )
            ends = end_response.TopicData(topic_name=TOPIC, partitions=(end,))
            return end_response.EndQuorumEpochResponse(error_code=ErrorCode.none, topics=(ends,))
        case FetchResponse():
            return _fetched_to_kafka(response, cluster_id)
        case FetchSnapshotResponse():
            return _piece_to_kafka(response)
        case DescribeQuorumResponse():
            return _described_to_kafka(response)


def _fetched_to_kafka(response: FetchResponse, cluster_id: str) -> Entity:
    diverging, snapshot_id = response.diverging, response.snapshot_id
    partition = fetch_response.PartitionData(
        partition_index=_PARTITION,
        error_code=response.error,
        high_watermark=i64(response.high_watermark),
        log_start_offset=i64(response.log_start_offset),
        diverging_epoch=fetch_response.EpochEndOffset()
        if diverging is None
        else fetch_response.EpochEndOffset(epoch=i32(diverging.epoch), end_offset=i64(diverging.offset)),
        current_leader=fetch_response.LeaderIdAndEpoch(
            leader_id=_leader(response.leader_id), leader_epoch=i32(response.epoch)
        ),
        snapshot_id=fetch_response.SnapshotId()
        if snapshot_id is None
        else fetch_response.SnapshotId(end_offset=i64(snapshot_id.offset), epoch=i32(snapshot_id.epoch)),
        aborted_transactions=None,
        records=Records(b"".join(encode(batch, cluster_id) for batch in response.batches)),
    )
    topic = fetch_response.FetchableTopicResponse(topic=TOPIC, partitions=(partition,))
    return fetch_response.FetchResponse(throttle_time=_NO_TIME, error_code=ErrorCode.none, responses=(topic,))


def _piece_to_kafka(response: FetchSnapshotResponse) -> Entity:
    piece = snapshot_response.PartitionSnapshot(
        index=_PARTITION,
        error_code=response.error,
        snapshot_id=snapshot_response.SnapshotId(
            end_offset=i64(response.snapshot_id.offset), epoch=i32(response.snapshot_id.epoch)
        ),
        current_leader=snapshot_response.LeaderIdAndEpoch(
            leader_id=_leader(response.leader_id), leader_epoch=i32(response.epoch)
        ),
        size=i64(response.size),
        position=i64(response.position),
        unaligned_records=Records(response.content),
    )
    topic = snapshot_response.TopicSnapshot(name=TOPIC, partitions=(piece,))
    return snapshot_response.FetchSnapshotResponse(throttle_time=_NO_TIME, error_code=ErrorCode.none, topics=(topic,))


def _described_to_kafka(response: DescribeQuorumResponse) -> Entity:
    def states(replicas: tuple[ReplicaState, ...]) -> tuple[describe_response.ReplicaState, ...]:
        return tuple(
            describe_response.ReplicaState(
                replica_id=BrokerId(i32(replica.replica_id)), log_end_offset=i64(replica.log_end_offset)
            )
            for replica in replicas
        )

    partition = describe_response.PartitionData(
        partition_index=_PARTITION,
        error_code=response.error,
        leader_id=_leader(response.leader_id),
        leader_epoch=i32(response.epoch),
        high_watermark=i64(response.high_watermark),
        current_voters=states(response.current_voters),
        observers=states(response.observers),
    )
    topic = describe_response.TopicData(topic_name=TOPIC, partitions=(partition,))
    return describe_response.DescribeQuorumResponse(error_code=ErrorCode.none, topics=(topic,))


def response_from_kafka(response: Entity) -> Response:
    """ValueError, or CorruptBatch, if it is not a response of the quorum or its records are not whole."""
    match response:
        case vote_response.VoteResponse():
            vote = _only(response.topics)
            return VoteResponse(vote.error_code, _known(vote.leader_id), vote.leader_epoch, vote.vote_granted)
        case begin_response.BeginQuorumEpochResponse():
            begin = _only(response.topics)
            return BeginQuorumEpochResponse(begin.error_code, _known(begin.leader_id), begin.leader_epoch)
        case end_response.EndQuorumEpochResponse():
            end = _only(response.topics)
            return EndQuorumEpochResponse(end.error_code, _known(end.leader_id), end.leader_epoch)
        case fetch_response.FetchResponse():
            return _fetched_from_kafka(_only(response.responses))
        case snapshot_response.FetchSnapshotResponse():
            piece = _only(response.topics)
            return FetchSnapshotResponse(
                piece.error_code,
                _known(piece.current_leader.leader_id),
                piece.current_leader.leader_epoch,
                OffsetAndEpoch(piece.snapshot_id.end_offset, piece.snapshot_id.epoch),
                piece.size,
                piece.position,
                bytes(piece.unaligned_records),
            )
    raise ValueError(f"{type(response).__name__} is not a response that a node of the quorum waits for")


def _fetched_from_kafka(partition: fetch_response.PartitionData) -> FetchResponse:
    diverging, snapshot_id = partition.diverging_epoch, partition.snapshot_id
    return FetchResponse(
        partition.error_code,
        _known(partition.current_leader.leader_id),
        partition.current_leader.leader_epoch,
        partition.high_watermark,
        partition.log_start_offset,
        tuple(decode_all(bytes(partition.records or b""))),
        None if diverging.end_offset < 0 else OffsetAndEpoch(diverging.end_offset, diverging.epoch),
        None if snapshot_id.end_offset < 0 else OffsetAndEpoch(snapshot_id.end_offset, snapshot_id.epoch),
    )
