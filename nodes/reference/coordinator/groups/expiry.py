"""What is forgotten of groups that nobody uses any more (KIP-211; Kafka's GroupMetadata.removeExpiredOffsets).

    an empty group               all of its offsets, `offsets.retention.minutes` after its last member went
    one that only ever commits   (simple consumers, no group protocol) each offset, so long after it was committed
    a stable group of consumers  so, too, but only of topics that nobody in it is subscribed to
    otherwise                    nothing

and a group without members and offsets goes as a whole. Tombstones are written first, and what they delete goes when they are committed:
the next coordinator finds the same. As in Kafka an offset that is committed for a group which has been empty for long goes with the rest,
however new it is; and what OffsetCommit up to version 4 says of retention is not heeded.
"""

from __future__ import annotations

from collections.abc import Collection

from nodes.reference.coordinator.groups.commits import subscribed_topics
from nodes.reference.coordinator.groups.group import NOT_KNOWN, Group, GroupState
from nodes.reference.coordinator.groups.requests import TopicPartition


def expired(group: Group, wall: int, retention_ms: int) -> list[TopicPartition]:
    """Partitions whose offsets are to be forgotten, in order; none while anything is on its way that could bring new ones."""
    if not group.offsets.at_rest:
        return []
    match group.state:
        case GroupState.EMPTY if group.protocol_type is not None and group.since != NOT_KNOWN:
            return sorted(group.offsets.committed) if wall - group.since >= retention_ms else []
        case GroupState.EMPTY:
            return _old(group, wall - retention_ms)
        case GroupState.STABLE if (subscribed := subscribed_topics(group)) is not None:
            return _old(group, wall - retention_ms, but=subscribed)
        case _:
            return []


def may_go(group: Group, without: Collection[TopicPartition]) -> bool:
    """Nobody is in it, nobody is about to be, and these are all the offsets that it has."""
    return (
        group.state is GroupState.EMPTY
        and not group.pending
        and group.offsets.at_rest
        and len(without) == len(group.offsets.committed)
    )


def _old(group: Group, until: int, *, but: Collection[str] = ()) -> list[TopicPartition]:
    return sorted(
        partition
        for partition, stored in group.offsets.committed.items()
        if stored.offset.timestamp <= until and partition.topic not in but
    )
