"""Which brokers get the replicas of a new partition, when nobody says so.

Racks take turns, and within a rack its brokers; each partition begins one further, so that leaders spread. Brokers that cannot serve come
last: they get a replica only where there are too few others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from random import Random

from nodes.reference.metadata.entities import Broker


def interleaved(brokers: Sequence[Broker]) -> list[int]:
    """By rack, in turns: a1 b1 c1 a2 b2 ..."""
    racks: dict[str | None, list[int]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack, []).append(broker.id)
    return [id for round in zip_longest(*racks.values()) for id in round if id is not None]


def place(
    brokers: Sequence[Broker], partitions: int, replication_factor: int, random: Random
) -> tuple[tuple[int, ...], ...]:
    """The replicas of each partition, the preferred leader first. There are enough brokers, and one of them at least is active."""
    active = interleaved([broker for broker in brokers if broker.active])
    others = interleaved([broker for broker in brokers if not broker.active])
    start = random.randrange(len(active))
    placed = []
    for number in range(partitions):
        first = (start + number) % len(active)
        placed.append((active[first:] + active[:first] + others)[:replication_factor])
    return tuple(tuple(replicas) for replicas in placed)
