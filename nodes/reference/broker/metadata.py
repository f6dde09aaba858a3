"""The broker's view of the metadata log: an image that follows what is committed, and who wants to hear what changed in it.

    metadata = Metadata()
    replica = Replica(environment, node_id, config, addresses, metadata)       # an observer: it has no vote
    metadata.watch(changed)                                                   # changed(Changes(partitions={...}, brokers=True, ...))
    metadata.offset                                                           # of the newest record in the image; -1: none

Watchers are told once for each batch of records, after all of it has been applied: what stands and falls together is seen together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from nodes.reference.metadata.entities import PartitionId
from nodes.reference.metadata.image import (
    BrokerChanged,
    ConfigChanged,
    FeatureChanged,
    Image,
    PartitionChanged,
    TopicRemoved,
)
from nodes.reference.metadata.records import decode
from nodes.reference.raft.log import Batch, Snapshot


@dataclass(slots=True)
class Changes:
    """everything: a snapshot was loaded; nothing is known of what it changed."""

    partitions: set[PartitionId] = field(default_factory=set)
    removed: list[TopicRemoved] = field(default_factory=list)
    brokers: bool = False
    configs: bool = False
    everything: bool = False


class Metadata:
    """A `StateMachine` for an observer."""

    def __init__(self) -> None:
        self.image = Image()
        self.offset = -1
        self.leader_id: int | None = None  # of the quorum: the active controller
        self.leader_known = asyncio.Event()
        self._watchers: list[Callable[[Changes], None]] = []

    def watch(self, changed: Callable[[Changes], None]) -> None:
        self._watchers.append(changed)

    def load(self, snapshot: Snapshot) -> None:
        self.image = Image.load(snapshot.values)
        self.offset = snapshot.id.offset - 1
        self._tell(Changes(everything=True))

    def apply(self, batch: Batch) -> None:
        changes = Changes()
        if batch.control is None:
            for value in batch.values:
                match self.image.apply(decode(value)):
                    case PartitionChanged(id):
                        changes.partitions.add(id)
                    case TopicRemoved() as removed:
                        changes.removed.append(removed)
                    case BrokerChanged():
                        changes.brokers = True
                    case ConfigChanged():
                        changes.configs = True
                    case FeatureChanged():
                        changes.brokers = True
                    case _:
                        pass
        self.offset = batch.next_offset - 1
        self._tell(changes)

    def snapshot(self) -> tuple[bytes, ...]:
        return self.image.values()

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        self.leader_id = leader_id
        if leader_id is None:
            self.leader_known.clear()
        else:
            self.leader_known.set()

    def _tell(self, changes: Changes) -> None:
        for changed in self._watchers:
            changed(changes)
