"""The disk of the simulation by itself: no node, and no clock, because nothing here waits for it."""

from __future__ import annotations

from random import Random
from typing import cast

from nodes.reference.environment import Clock
from nodes.reference.simulation.disk import Contents, MountedDisk, SimulatedDisk


class LoneDisk(MountedDisk):
    """seed: of what a loss of power leaves."""

    def __init__(self, seed: int = 0) -> None:
        random = Random(seed)
        super().__init__(SimulatedDisk(random), cast(Clock, None), random, (0, 0))

    @property
    def files(self) -> dict[str, Contents]:
        return self.disk.files

    @property
    def syncs(self) -> int:
        return self.disk.syncs

    def fill(self) -> None:
        """Nothing more fits."""
        self.disk.capacity = 0

    def make_room(self) -> None:
        self.disk.capacity = 1 << 40

    def lose_power(self) -> None:
        self.disk.lose_power()

    def lose_all_unsynced(self) -> None:
        """The worst that a loss of power can do."""
        for contents in self.files.values():
            contents.seen = bytearray(contents.safe or b"")
            contents.unsynced.clear()
