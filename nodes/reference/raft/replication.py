"""How the log is copied: Fetch (KIP-595), FetchSnapshot (KIP-630), the high watermark, DescribeQuorum; both ends.

Replication is pulled. A fetch at an offset says "all before it is safe on my disk", so it is the acknowledgement too; a log that has
parted from the leader's is found by the epoch of the last fetched record, and truncated by epochs, never by a high watermark (KIP-101).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from nodes.reference.environment import MILLISECOND
from nodes.reference.protections import Protection
from nodes.reference.raft import elections, snapshots
from nodes.reference.raft.events import (
    Append,
    BrokenInvariant,
    Committed,
    Respond,
    StoreSnapshot,
    Truncate,
)
from nodes.reference.raft.log import MetadataLog, OffsetAndEpoch, Snapshot
from nodes.reference.raft.messages import (
    DescribeQuorumResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReplicaState,
)
from nodes.reference.raft.roles import Follower, Leader, Loading, Parked, Progress

if TYPE_CHECKING:
    from nodes.reference.raft.core import Raft


def majority_end(end_offsets: Sequence[int]) -> int:
    """The largest offset that a majority has reached."""
    return sorted(end_offsets, reverse=True)[len(end_offsets) // 2]


def needs_snapshot(log: MetadataLog, offset: int, epoch: int) -> bool:
    """KIP-630, Validate Offset and Epoch: the records asked for are gone, or the asking log is of an epoch that
    only a snapshot still knows.
    """
    if log.snapshot is None:
        return False
    earliest = log.snapshot.id
    return offset < earliest.offset or epoch < earliest.epoch or (offset == earliest.offset and epoch != earliest.epoch)


def divergence(log: MetadataLog, offset: int, epoch: int) -> OffsetAndEpoch | None:
    """KIP-595, Fetch Request Handling: where a log that ends like this parts from ours, at the latest; None if it is a part of ours."""
    if offset == 0:
        return None
    end = log.end_of_epoch(epoch)
    return None if end.epoch == epoch and end.offset >= offset else end


def truncation_point(log: MetadataLog, leader: OffsetAndEpoch) -> int:
    """KIP-595, Fetch Response Handling (KIP-279): the end of the newest epoch that both logs have."""
    own = log.end_of_epoch(leader.epoch)
    return min(own.offset, leader.offset) if own.epoch == leader.epoch else own.offset


# The leader's end


def answer_fetch(raft: Raft, now: int, token: int, request: FetchRequest) -> FetchResponse | None:
    """KIP-595, Fetch Request Handling. None: the request waits for records."""
    role = raft.role
    error = leader_only(raft, request.cluster_id, request.epoch)
    if error is not None or not isinstance(role, Leader):
        return FetchResponse(error or ErrorCode.not_leader_or_follower, raft.leader_id, raft.epoch)
    if needs_snapshot(raft.log, request.offset, request.last_fetched_epoch):
        elections.check_quorum(raft, now, role, request.replica_id)
        return _fetched(raft, role, request, snapshot=True)
    if divergence(raft.log, request.offset, request.last_fetched_epoch) is not None:
        elections.check_quorum(raft, now, role, request.replica_id)
        return _fetched(raft, role, request)
    acknowledge(raft, now, role, request)
    progress = role.progress[request.replica_id]
    if (
        request.offset >= raft.log.end_offset
        and progress.told_high_watermark >= raft.high_watermark
        and request.max_wait_ms
    ):
        role.parked = [parked for parked in role.parked if parked.request.replica_id != request.replica_id]
        role.parked.append(Parked(token, request, now + request.max_wait_ms * MILLISECOND))
        return None
    return _fetched(raft, role, request)


def leader_only(raft: Raft, cluster_id: str, epoch: int) -> ErrorCode | None:
    """KIP-595: what only the leader answers, and only those who know its epoch."""
    error = elections.refusal(raft, cluster_id, epoch)
    if error is None and epoch > raft.epoch:
        error = ErrorCode.unknown_leader_epoch
    if error is None and not isinstance(raft.role, Leader):
        error = ErrorCode.not_leader_or_follower
    return error


def acknowledge(raft: Raft, now: int, role: Leader, request: FetchRequest) -> None:
    """KIP-595, Fetch Request Handling: the replica has everything before the offset at which it fetches."""
    progress = role.progress.setdefault(request.replica_id, Progress())
    progress.end_offset = request.offset
    if request.offset >= raft.log.end_offset:
        progress.last_caught_up = now
    role.acknowledged.add(request.replica_id)
    elections.check_quorum(raft, now, role, request.replica_id)
    advance_as_leader(raft, role)


def flushed(raft: Raft, now: int, end_offset: int) -> None:
    """KIP-595, Log Compaction and Flush: the leader's own records count once they are on its disk.

    A flush that began before a truncation cannot reach a leader: to be elected it had to persist and send in between.
    """
    raft.flushed_offset = min(end_offset, raft.log.end_offset)
    role = raft.role
    if isinstance(role, Leader):
        own = role.progress[raft.node_id]
        own.end_offset, own.last_fetch, own.last_caught_up = raft.flushed_offset, now, now
        advance_as_leader(raft, role)


def advance_as_leader(raft: Raft, role: Leader) -> None:
    """KIP-595, Fetch Request Handling; Raft 5.4.2: a majority of the voters has it, and with it a record of the leader's own epoch."""
    ends = [role.progress.setdefault(voter, Progress()).end_offset for voter in raft.log.voters.current]
    reached = majority_end(ends)
    if reached <= role.epoch_start_offset and raft.protections.on(Protection.COMMIT_IN_OWN_EPOCH):
        return
    if reached > raft.high_watermark:
        raft.high_watermark = reached
        raft.emit(Committed(reached))
        if reached > role.epoch_start_offset:
            raft.tell_leader(raft.node_id)
        answer_parked(raft)


def _fetched(raft: Raft, role: Leader, request: FetchRequest, *, snapshot: bool = False) -> FetchResponse:
    log = raft.log
    response = FetchResponse(
        ErrorCode.none, raft.node_id, raft.epoch, raft.high_watermark, log_start_offset=log.start_offset
    )
    if snapshot:
        assert log.snapshot is not None
        return response._replace(snapshot_id=log.snapshot.id)
    diverging = divergence(log, request.offset, request.last_fetched_epoch)
    if diverging is not None:
        return response._replace(diverging=diverging)
    role.progress.setdefault(request.replica_id, Progress()).told_high_watermark = raft.high_watermark
    return response._replace(batches=log.read(request.offset, max_bytes=request.max_bytes))


def answer_parked(raft: Raft) -> None:
    """There are records, or a high watermark, that those who wait do not know (the latter as KIP-1166 has it)."""
    role = raft.role
    if isinstance(role, Leader) and role.parked:
        parked, role.parked = role.parked, []
        for waiting in parked:
            if needs_snapshot(raft.log, waiting.request.offset, waiting.request.last_fetched_epoch):
                raft.emit(Respond(waiting.token, _fetched(raft, role, waiting.request, snapshot=True)))
            else:
                raft.emit(Respond(waiting.token, _fetched(raft, role, waiting.request)))


def expire_parked(raft: Raft, now: int, role: Leader) -> None:
    over = [parked for parked in role.parked if now >= parked.deadline]
    if over:
        role.parked = [parked for parked in role.parked if now < parked.deadline]
        for parked in over:
            raft.emit(Respond(parked.token, _fetched(raft, role, parked.request)))


def leave(raft: Raft, left: Leader) -> None:
    """Those who wait are told that this is not the leader any more."""
    for parked in left.parked:
        response = FetchResponse(ErrorCode.not_leader_or_follower, raft.leader_id, raft.epoch)
        raft.emit(Respond(parked.token, response))


def answer_fetch_snapshot(raft: Raft, now: int, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """KIP-630, FetchSnapshot Request Handling."""
    error = leader_only(raft, request.cluster_id, request.epoch)
    snapshot = raft.log.snapshot
    if error is None and (snapshot is None or snapshot.id != request.snapshot_id):
        error = ErrorCode.snapshot_not_found
    if error is not None or snapshot is None:
        return FetchSnapshotResponse(error or ErrorCode.none, raft.leader_id, raft.epoch, request.snapshot_id)
    if isinstance(raft.role, Leader):
        elections.check_quorum(raft, now, raft.role, request.replica_id)
    file = snapshots.encode(snapshot)
    if not 0 <= request.position < len(file):
        error = ErrorCode.position_out_of_range
        return FetchSnapshotResponse(error, raft.leader_id, raft.epoch, request.snapshot_id)
    piece = file[request.position : request.position + request.max_bytes]
    return FetchSnapshotResponse(
        ErrorCode.none, raft.leader_id, raft.epoch, snapshot.id, len(file), request.position, piece
    )


def describe(raft: Raft) -> DescribeQuorumResponse:
    """KIP-642, DescribeQuorum Request Handling: only the leader knows how far the others are."""
    role = raft.role
    if not isinstance(role, Leader):
        return DescribeQuorumResponse(ErrorCode.not_leader_or_follower, raft.leader_id, raft.epoch)
    voters = raft.log.voters
    states = {
        replica: ReplicaState(replica, known.end_offset, known.last_fetch, known.last_caught_up)
        for replica, known in sorted(role.progress.items())
    }
    named = set(voters.current) | set(voters.target or ())
    return DescribeQuorumResponse(
        ErrorCode.none,
        raft.node_id,
        raft.epoch,
        raft.high_watermark,
        tuple(states[voter] for voter in voters.current if voter in states),
        tuple(states[voter] for voter in voters.target or () if voter in states),
        tuple(state for replica, state in states.items() if replica not in named),
    )


# The follower's end


def fetch_request(raft: Raft) -> FetchRequest:
    config, end = raft.config, raft.log.end
    return FetchRequest(
        config.cluster_id,
        raft.node_id,
        raft.epoch,
        end.offset,
        end.epoch,
        config.fetch_max_wait_ms,
        config.fetch_max_bytes,
    )


def next_request(raft: Raft, role: Follower) -> FetchRequest | FetchSnapshotRequest:
    """Records, or the next piece of the snapshot that has to come before them."""
    loading, config = role.loading, raft.config
    if loading is None:
        return fetch_request(raft)
    return FetchSnapshotRequest(
        config.cluster_id,
        raft.node_id,
        raft.epoch,
        loading.snapshot_id,
        len(loading.content),
        config.snapshot_max_bytes,
    )


def take_fetch(raft: Raft, now: int, peer: int, request: FetchRequest, response: FetchResponse) -> None:
    """KIP-595, Fetch Response Handling: append, truncate, or load a snapshot; then the high watermark."""
    role = raft.role
    if response.error is not ErrorCode.none:
        raft.back_off(now, peer, FetchRequest)
        return
    if not isinstance(role, Follower) or role.leader_id != peer or request.epoch != raft.epoch:
        return
    role.fetch_deadline = now + raft.config.fetch_timeout
    if OffsetAndEpoch(request.offset, request.last_fetched_epoch) != raft.log.end:
        return  # a snapshot was loaded meanwhile
    if response.snapshot_id is not None:
        role.loading = Loading(response.snapshot_id, bytearray())
        return
    if response.diverging is not None:
        truncate(raft, truncation_point(raft.log, response.diverging))
        return
    for batch in response.batches:
        raft.log.append(batch)
        raft.emit(Append(batch))
    advance_as_follower(raft, response.high_watermark)


def truncate(raft: Raft, offset: int) -> None:
    """BrokenInvariant if committed records would go."""
    if offset < raft.high_watermark:
        raise BrokenInvariant(f"truncation to {offset}, below the high watermark {raft.high_watermark}")
    left = raft.log.truncate(offset)
    raft.flushed_offset = min(raft.flushed_offset, left)
    raft.emit(Truncate(left))


def advance_as_follower(raft: Raft, leaders: int) -> None:
    """KIP-595, Fetch Response Handling: as far as the leader says, and as the own log goes."""
    reached = min(leaders, raft.log.end_offset)
    if reached > raft.high_watermark:
        raft.high_watermark = reached
        raft.emit(Committed(reached))


def take_piece(raft: Raft, now: int, peer: int, request: FetchSnapshotRequest, response: FetchSnapshotResponse) -> None:
    """KIP-630, FetchSnapshot Response Handling: piece by piece; the whole of it replaces the log, which lacks what it stands for."""
    role = raft.role
    if not isinstance(role, Follower) or role.leader_id != peer or request.epoch != raft.epoch:
        return
    loading = role.loading
    if loading is None or loading.snapshot_id != request.snapshot_id:
        return
    if response.error is not ErrorCode.none or response.position != len(loading.content):
        role.loading = None  # the next fetch says what to load now
        raft.back_off(now, peer, FetchRequest)
        return
    role.fetch_deadline = now + raft.config.fetch_timeout
    loading.content += response.content
    if len(loading.content) >= response.size:
        role.loading = None
        install(raft, snapshots.decode(bytes(loading.content), loading.snapshot_id))


def install(raft: Raft, snapshot: Snapshot) -> None:
    """KIP-630: what a snapshot stands for is committed."""
    raft.log.begin_at(snapshot)
    raft.flushed_offset = raft.log.end_offset
    raft.emit(StoreSnapshot(snapshot, whole=True))
    advance_as_follower(raft, snapshot.id.offset)


def keep_snapshot(raft: Raft, snapshot: Snapshot) -> None:
    """KIP-630, When to Increase the Log Start Offset: at once; a follower that is behind it loads it."""
    if snapshot.id.offset > raft.log.start_offset:
        raft.log.begin_at(snapshot)
        raft.emit(StoreSnapshot(snapshot, whole=False))
