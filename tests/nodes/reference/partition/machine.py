"""What the model of three replicas is made of: machines, and messages on their way between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nodes.reference.partition.partition import Partition
from tests.nodes.reference.lone_disk import LoneDisk


@dataclass
class Machine:
    """A broker: its disk stays, its process comes and goes."""

    id: int
    disk: LoneDisk
    checkpoint: int = 0  # of the high watermark
    epoch: int = -1
    partition: Partition | None = None
    applied: int = 0  # entries of the metadata log
    registered_at: int = 0  # a process acts on no metadata that is older than its registration
    fetching: bool = False

    def leads(self, epoch: int) -> bool:
        leader = self.partition.leader if self.partition is not None else None
        return leader is not None and leader.epoch == epoch


@dataclass(eq=False)
class Message:
    """Something on its way. `deliver` returns nothing; losing it is never calling that."""

    what: str
    deliver: Callable[[], None]

    @property
    def of_fetch(self) -> bool:
        return " -> " in self.what
