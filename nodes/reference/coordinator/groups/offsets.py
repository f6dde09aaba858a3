"""What one group has committed, and what open transactions are about to commit for it (KIP-98, KIP-447).

    offsets.committed[TopicPartition("t", 0)]     Stored(Offset(120), position=7)
    offsets.pending[producer_id]                  {TopicPartition("t", 0): Stored(Offset(130), position=9)}

A function of the log: of two commits the one that is later in the log counts, also where it is one of a transaction that ended after the
other was written (Kafka's CommitRecordMetadataAndOffset.olderThan). `position` is the offset of its batch in `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nodes.reference.coordinator.groups.requests import Offset, TopicPartition


class Stored(NamedTuple):
    offset: Offset
    position: int


@dataclass(slots=True)
class Offsets:
    committed: dict[TopicPartition, Stored] = field(default_factory=dict)
    pending: dict[int, dict[TopicPartition, Stored]] = field(default_factory=dict)  # by producer id; in the log
    on_their_way: list[Mapping[TopicPartition, Offset]] = field(default_factory=list)  # into the log, in a transaction
    writes: int = 0  # commits on their way into the log

    def commit(self, offsets: Mapping[TopicPartition, Offset], position: int) -> None:
        for partition, offset in offsets.items():
            self.commit_one(partition, Stored(offset, position))

    def commit_unwritten(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """A commit that no log has, which is a defect: it counts until something is committed."""
        for partition, offset in offsets.items():
            known = self.committed.get(partition)
            self.committed[partition] = Stored(offset, -1 if known is None else known.position)

    def commit_one(self, partition: TopicPartition, stored: Stored) -> None:
        known = self.committed.get(partition)
        if known is None or known.position <= stored.position:
            self.committed[partition] = stored

    def commit_in_transaction(self, producer_id: int, offsets: Mapping[TopicPartition, Offset], position: int) -> None:
        pending = self.pending.setdefault(producer_id, {})
        for partition, offset in offsets.items():
            pending[partition] = Stored(offset, position)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        for partition, stored in self.pending.pop(producer_id, {}).items():
            if commit:
                self.commit_one(partition, stored)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self.committed.pop(partition, None)
            for pending in self.pending.values():
                pending.pop(partition, None)

    @property
    def at_rest(self) -> bool:
        """Nothing is on its way into the log, and no transaction is open."""
        return self.writes == 0 and not any(self.pending.values())

    def is_unstable(self, partition: TopicPartition) -> bool:
        """KIP-447: an open transaction is about to commit another offset."""
        return any(partition in pending for pending in (*self.pending.values(), *self.on_their_way))

    @property
    def partitions(self) -> set[TopicPartition]:
        return set(self.committed).union(*self.pending.values())
