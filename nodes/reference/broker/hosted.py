"""One partition that this broker has a replica of, with those who wait for something to happen in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from nodes.reference.metadata.entities import PartitionId
from nodes.reference.partition.partition import Partition


class Hosted:
    """grown: set when followers can read more; committed: set when consumers can."""

    def __init__(self, id: PartitionId, topic: str, partition: Partition) -> None:
        self.id = id
        self.topic = topic
        self.partition = partition
        self.followers: dict[Waiter, None] = {}  # a set in a fixed order, so that the same seed gives the same history
        self.consumers: dict[Waiter, None] = {}
        self.fetch_after = 0  # ns: a follower that was refused tries again then
        self.checkpointed = -1  # high watermark in the checkpoint
        self.recovery_point = partition.local.log.recovery_point  # in the checkpoint, or about to be

    def wake_followers(self) -> None:
        for waiter in self.followers:
            waiter.event.set()

    def wake_consumers(self) -> None:
        for waiter in self.consumers:
            waiter.event.set()

    def wake_all(self) -> None:
        self.wake_followers()
        self.wake_consumers()


class Waiter:
    """A fetch that waits for any of its partitions."""

    def __init__(self, hosted: Iterable[Hosted], *, follower: bool) -> None:
        self.event = asyncio.Event()
        self._waiting = [each.followers if follower else each.consumers for each in hosted]

    def __enter__(self) -> Waiter:
        for waiting in self._waiting:
            waiting[self] = None
        return self

    def __exit__(self, *_: object) -> None:
        for waiting in self._waiting:
            waiting.pop(self, None)
