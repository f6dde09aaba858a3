"""Snapshots as files (KIP-630, Snapshot Format): record batches between a header and a footer, named by what they stand for.

    file_name(OffsetAndEpoch(100, 3))       "00000000000000000100-0000000003.checkpoint"
    decode(encode(snapshot), snapshot.id)   == snapshot

A file without its footer is not whole. Which offset names a snapshot is decided by `snapshot_id`, because a wrong answer loses records.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from nodes.reference.protections import Protection, Protections
from nodes.reference.raft.log import (
    Batch,
    MetadataLog,
    OffsetAndEpoch,
    Snapshot,
    SnapshotFooter,
    SnapshotHeader,
    Voters,
)
from nodes.reference.raft.records import CorruptBatch, decode_all
from nodes.reference.raft.records import encode as encode_batch

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_VALUES_IN_A_BATCH: Final = 500


def snapshot_id(log: MetadataLog, applied_offset: int, high_watermark: int, protections: Protections) -> OffsetAndEpoch:
    """KIP-630: a snapshot stands for what the state machine had applied when it was taken, which may be less than
    what is committed by now.
    """
    offset = applied_offset if protections.on(Protection.SNAPSHOT_HAS_ALL_COMMITTED) else high_watermark
    return OffsetAndEpoch(offset, log.epoch_before(offset))


def file_name(snapshot: OffsetAndEpoch) -> str:
    return f"{snapshot.offset:020}-{snapshot.epoch:010}.checkpoint"


def id_of(name: str) -> OffsetAndEpoch | None:
    """None for other files."""
    found = _NAME.fullmatch(name)
    return OffsetAndEpoch(int(found[1]), int(found[2])) if found else None


@lru_cache(maxsize=4)
def encode(snapshot: Snapshot) -> bytes:
    """The whole file. Offsets in it count its own records; what it stands for is its name."""
    contents: list[tuple[tuple[bytes, ...], SnapshotHeader | SnapshotFooter | Voters | None]] = [
        ((), SnapshotHeader(0))
    ]
    if snapshot.voters is not None:
        contents.append(((), snapshot.voters))
    for first in range(0, len(snapshot.values), _VALUES_IN_A_BATCH):
        contents.append((snapshot.values[first : first + _VALUES_IN_A_BATCH], None))
    contents.append(((), SnapshotFooter()))
    written, offset = bytearray(), 0
    for values, control in contents:
        batch = Batch(offset, snapshot.id.epoch, 0, values, control)
        written += encode_batch(batch, "")
        offset = batch.next_offset
    return bytes(written)


def decode(content: bytes, snapshot: OffsetAndEpoch) -> Snapshot:
    """CorruptBatch unless it is whole and intact."""
    batches = decode_all(content)
    if len(batches) < 2 or not isinstance(batches[0].control, SnapshotHeader):
        raise CorruptBatch(f"snapshot {file_name(snapshot)} does not begin with a header")
    if not isinstance(batches[-1].control, SnapshotFooter):
        raise CorruptBatch(f"snapshot {file_name(snapshot)} has no footer: it was not written to its end")
    voters = next((batch.control for batch in batches if isinstance(batch.control, Voters)), None)
    return Snapshot(snapshot, voters, tuple(value for batch in batches for value in batch.values))
