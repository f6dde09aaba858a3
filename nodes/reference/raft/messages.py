"""What the nodes of the quorum say to each other: the requests of KIP-595 and KIP-630 for the one partition of the metadata log.

Kafka's own messages nest topics and partitions around the same fields; `wire.py` turns these into kio's entities and back, so the core
reads like the KIP. An `epoch` is the leader epoch of the sender; -1 and None say "unknown". All are immutable: a simulated network hands
them over as they are.

    VoteRequest(cluster_id="k", epoch=3, candidate_id=2, last_epoch=2, last_offset=17)
    VoteResponse(error=ErrorCode.none, leader_id=None, epoch=3, granted=True)
"""

from __future__ import annotations

from typing import NamedTuple

from kio.schema.errors import ErrorCode

from nodes.reference.raft.log import Batch, OffsetAndEpoch


class VoteRequest(NamedTuple):
    """KIP-595, Vote."""

    cluster_id: str
    epoch: int
    candidate_id: int
    last_epoch: int  # of the candidate's last record
    last_offset: int  # the candidate's log end offset


class VoteResponse(NamedTuple):
    error: ErrorCode
    leader_id: int | None
    epoch: int
    granted: bool = False


class BeginQuorumEpochRequest(NamedTuple):
    """KIP-595, BeginQuorumEpoch: the new leader tells the voters; observers find it by asking."""

    cluster_id: str
    epoch: int
    leader_id: int


class BeginQuorumEpochResponse(NamedTuple):
    error: ErrorCode
    leader_id: int | None
    epoch: int


class EndQuorumEpochRequest(NamedTuple):
    """KIP-595, EndQuorumEpoch: a leader that resigns names who should stand first, the most advanced voter."""

    cluster_id: str
    epoch: int
    leader_id: int
    preferred_successors: tuple[int, ...]


class EndQuorumEpochResponse(NamedTuple):
    error: ErrorCode
    leader_id: int | None
    epoch: int


class FetchRequest(NamedTuple):
    """KIP-595, Fetch: asks for records from an offset, and so says that all before it is safe on the asking node's disk."""

    cluster_id: str
    replica_id: int
    epoch: int
    offset: int
    last_fetched_epoch: int  # of the record before `offset`
    max_wait_ms: int
    max_bytes: int


class FetchResponse(NamedTuple):
    error: ErrorCode
    leader_id: int | None
    epoch: int
    high_watermark: int = -1
    log_start_offset: int = -1
    batches: tuple[Batch, ...] = ()
    diverging: OffsetAndEpoch | None = None  # the logs part here: truncate and ask again
    snapshot_id: OffsetAndEpoch | None = None  # the leader has no records as old as these: load this first


class FetchSnapshotRequest(NamedTuple):
    """KIP-630, FetchSnapshot: a piece of a snapshot's file."""

    cluster_id: str
    replica_id: int
    epoch: int
    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


class FetchSnapshotResponse(NamedTuple):
    error: ErrorCode
    leader_id: int | None
    epoch: int
    snapshot_id: OffsetAndEpoch
    size: int = -1  # of the whole file
    position: int = -1
    content: bytes = b""


class DescribeQuorumRequest(NamedTuple):
    """KIP-642, DescribeQuorum."""


class ReplicaState(NamedTuple):
    """How far a replica is, as the leader knows it. Times are ns of the leader's clock, -1 for never."""

    replica_id: int
    log_end_offset: int
    last_fetch: int
    last_caught_up: int


class DescribeQuorumResponse(NamedTuple):
    error: ErrorCode
    leader_id: int | None
    epoch: int
    high_watermark: int = -1
    current_voters: tuple[ReplicaState, ...] = ()
    target_voters: tuple[ReplicaState, ...] = ()  # KIP-642: while voters are being reassigned
    observers: tuple[ReplicaState, ...] = ()


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | DescribeQuorumRequest
)
Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | DescribeQuorumResponse
)
