"""What a quorum node keeps on its disk: `quorum-state`, segments of the metadata log, snapshots. Carries out the durable effects.

    __cluster_metadata-0/quorum-state                     {"leaderId": 2, "leaderEpoch": 3, "votedId": -1, ...} as Kafka writes it
    .../00000000000000000100.log                          record batches from offset 100 on
    .../00000000000000000100-0000000003.checkpoint        the snapshot they continue

Recovery takes the newest whole snapshot and reads segments until the first batch that is torn or does not continue the log; what is behind
it was never synced, so nobody was told of it, and it is cut off. A new segment begins at each snapshot, so that what a snapshot stands for
can be removed as whole files.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from nodes.reference.environment import Disk, File
from nodes.reference.protections import Protection, Protections
from nodes.reference.raft import snapshots
from nodes.reference.raft.events import Append, Durable, ElectionState, Persist, StoreSnapshot, Truncate
from nodes.reference.raft.log import LogConflict, MetadataLog, Snapshot, Voters
from nodes.reference.raft.records import CorruptBatch, decode, encode

DIRECTORY: Final = "__cluster_metadata-0"
QUORUM_STATE: Final = f"{DIRECTORY}/quorum-state"
_NOBODY: Final = -1


def format_quorum_state(state: ElectionState, cluster_id: str) -> bytes:
    """KIP-595, Quorum State; keys as in Kafka."""
    content = {
        "clusterId": cluster_id,
        "leaderId": _NOBODY if state.leader_id is None else state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": _NOBODY if state.voted_id is None else state.voted_id,
        "data_version": 0,
    }
    return json.dumps(content).encode()


def parse_quorum_state(content: bytes) -> ElectionState:
    """ValueError if it is not a quorum-state file; a node must not start without what it has promised."""
    try:
        state = json.loads(content)
        leader, voted = int(state["leaderId"]), int(state["votedId"])
        epoch = int(state["leaderEpoch"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{QUORUM_STATE} cannot be read: {error!r}; restore it, or remove the node's data and let it catch up"
        ) from error
    return ElectionState(epoch, None if leader == _NOBODY else leader, None if voted == _NOBODY else voted)


class Recovered(NamedTuple):
    log: MetadataLog
    election: ElectionState
    storage: Storage


class Segment:
    """One file of the log, and where each of its batches begins."""

    def __init__(self, base_offset: int, path: str, file: File) -> None:
        self.base_offset = base_offset
        self.path = path
        self.file = file
        self.positions: list[tuple[int, int]] = []  # offset, position


class Storage:
    """`carry_out` several effects, then one `sync`: what came before is safe when it returns."""

    def __init__(self, disk: Disk, cluster_id: str, protections: Protections) -> None:
        self._disk = disk
        self._cluster_id = cluster_id
        self._protections = protections
        self._segments: list[Segment] = []
        self._dirty: list[File] = []

    @classmethod
    def recover(cls, disk: Disk, cluster_id: str, static_voters: Voters, protections: Protections) -> Recovered:
        """ValueError if the quorum state cannot be read; CorruptBatch never: what is torn is cut off."""
        storage = cls(disk, cluster_id, protections)
        disk.make_directory(DIRECTORY)
        content = disk.read(QUORUM_STATE)
        election = parse_quorum_state(content) if content else ElectionState()
        log = MetadataLog(static_voters)
        snapshot = storage._newest_snapshot()
        if snapshot is not None:
            log.begin_at(snapshot)
        storage._read_segments(log)
        return Recovered(log, election, storage)

    def carry_out(self, effect: Durable) -> None:
        match effect:
            case Persist(state):
                content = format_quorum_state(state, self._cluster_id)
                self._disk.replace(QUORUM_STATE, content, sync=self._protections.on(Protection.FSYNC_ON_VOTE))
            case Append(batch):
                segment = self._segments[-1]
                segment.positions.append((batch.base_offset, segment.file.size()))
                segment.file.append(encode(batch, self._cluster_id))
                self._dirties(segment.file)
            case Truncate(end_offset):
                self._truncate(end_offset)
            case StoreSnapshot(snapshot, whole):
                self._store(snapshot, whole=whole)

    async def sync(self) -> None:
        dirty, self._dirty = self._dirty, []
        if self._protections.on(Protection.FSYNC_ON_APPEND):
            for file in dirty:
                await file.sync_aside()

    def close(self) -> None:
        for segment in self._segments:
            segment.file.close()

    def _dirties(self, file: File) -> None:
        if file not in self._dirty:
            self._dirty.append(file)

    def _newest_snapshot(self) -> Snapshot | None:
        found: Snapshot | None = None
        for name in reversed(self._disk.list(DIRECTORY)):
            snapshot_id = snapshots.id_of(name)
            if snapshot_id is None:
                continue
            path = f"{DIRECTORY}/{name}"
            try:
                if found is None:
                    found = snapshots.decode(self._disk.read(path) or b"", snapshot_id)
                    continue
            except CorruptBatch:
                pass  # not whole: written by a machine that lost power
            self._disk.remove(path)
        return found

    def _read_segments(self, log: MetadataLog) -> None:
        bases = [int(name.removesuffix(".log")) for name in self._disk.list(DIRECTORY) if name.endswith(".log")]
        whole = True
        for base_offset in bases:
            if not whole or base_offset > log.end_offset:
                self._disk.remove(self._path(base_offset))
                continue
            segment = self._open(base_offset)
            whole = self._read_segment(log, segment)
        if not self._segments:
            self._open(log.end_offset)

    def _read_segment(self, log: MetadataLog, segment: Segment) -> bool:
        """False: it was torn, and has been cut."""
        content = segment.file.read(0, segment.file.size())
        position = 0
        while position < len(content):
            try:
                batch, after = decode(content, position)
                if batch.next_offset > log.start_offset:  # else the snapshot has it
                    log.append(batch)
            except (CorruptBatch, LogConflict):
                segment.file.truncate(position)
                segment.file.sync()
                return False
            segment.positions.append((batch.base_offset, position))
            position = after
        return True

    def _truncate(self, end_offset: int) -> None:
        while len(self._segments) > 1 and self._segments[-1].base_offset >= end_offset:
            self._drop(self._segments.pop())
        segment = self._segments[-1]
        gone = [(offset, position) for offset, position in segment.positions if offset >= end_offset]
        if gone:
            segment.positions = segment.positions[: -len(gone)]
            segment.file.truncate(gone[0][1])
            self._dirties(segment.file)

    def _store(self, snapshot: Snapshot, *, whole: bool) -> None:
        older = [
            name for name in self._disk.list(DIRECTORY) if (found := snapshots.id_of(name)) and found != snapshot.id
        ]
        self._disk.replace(f"{DIRECTORY}/{snapshots.file_name(snapshot.id)}", snapshots.encode(snapshot))
        if whole:
            while self._segments:
                self._drop(self._segments.pop())
            self._open(snapshot.id.offset)
        else:
            self._roll()
            while len(self._segments) > 1 and self._segments[1].base_offset <= snapshot.id.offset:
                self._drop(self._segments.pop(0))
        for name in older:
            self._disk.remove(f"{DIRECTORY}/{name}")

    def _roll(self) -> None:
        """What was appended stays in a file of its own."""
        last = self._segments[-1]
        if last.positions:
            content = last.file.read(last.positions[-1][1], last.file.size())
            batch, _ = decode(content, 0)
            self._open(batch.next_offset)

    def _open(self, base_offset: int) -> Segment:
        path = self._path(base_offset)
        segment = Segment(base_offset, path, self._disk.open(path))
        self._segments.append(segment)
        return segment

    def _drop(self, segment: Segment) -> None:
        segment.file.close()
        if segment.file in self._dirty:
            self._dirty.remove(segment.file)
        self._disk.remove(segment.path)

    def _path(self, base_offset: int) -> str:
        return f"{DIRECTORY}/{base_offset:020}.log"
