"""Requests with acks=all that wait until the high watermark has passed their records, or until their time is over."""

from __future__ import annotations

import heapq
from typing import NamedTuple

from nodes.reference.partition.effects import Ticket


class Waiting(NamedTuple):
    ticket: Ticket
    base_offset: int
    required: int  # the high watermark that answers it
    deadline: int  # ns


class Purgatory:
    """Ordered by the high watermark that each request waits for."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Waiting]] = []
        self._count = 0  # so that two with the same offset are not compared further

    def add(self, waiting: Waiting) -> None:
        self._count += 1
        heapq.heappush(self._waiting, (waiting.required, self._count, waiting))

    def reached(self, high_watermark: int) -> list[Waiting]:
        """Take out those whose records are committed, in the order of their offsets."""
        done = []
        while self._waiting and self._waiting[0][0] <= high_watermark:
            done.append(heapq.heappop(self._waiting)[2])
        return done

    def expired(self, now: int) -> list[Waiting]:
        """Take out those whose deadline is over."""
        if all(waiting.deadline > now for _, _, waiting in self._waiting):
            return []
        done = [waiting for _, _, waiting in sorted(self._waiting) if waiting.deadline <= now]
        self._waiting = [entry for entry in self._waiting if entry[2].deadline > now]
        heapq.heapify(self._waiting)
        return done

    def all(self) -> list[Waiting]:
        """Take out everything: nobody here can answer it any more."""
        done = [waiting for _, _, waiting in sorted(self._waiting)]
        self._waiting = []
        return done

    @property
    def next_deadline(self) -> int | None:
        return min((waiting.deadline for _, _, waiting in self._waiting), default=None)
