"""What coordinators (groups, transactions) may ask of the broker they live in: partitions of internal topics, other brokers, producer ids.

    services.watch_leadership("__consumer_offsets", changed)       # changed(7, 3): leads partition 7 in epoch 3; changed(7, None): no more
    read = services.read("__consumer_offsets", 7, offset=0)        # after an election: everything, up to the end of the log
    written = await services.append("__consumer_offsets", 7, batch, leader_epoch=3, deadline=now + 5 * SECOND)
    answer = await services.ask_broker(2, WriteTxnMarkersRequest(...), deadline=...)

`batch` is one record batch (format 2) as a producer would send it; it is acknowledged as acks=all is, so what was answered with no error
survives every failover that the topic's replication survives. The broker implements this (`broker/services.py`); tests of a coordinator
need no broker, but a dict of lists behind the same methods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kio.schema.errors import ErrorCode

Marked = Callable[[int, int, bool], None]  # partition, producer id, committed
LeadershipChanged = Callable[[int, int | None], None]  # partition, leader epoch or None


@dataclass(frozen=True, slots=True)
class Written:
    """error: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT (then it may be there) and so on."""

    error: ErrorCode
    base_offset: int = -1
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Whole batches from the offset's on. Nothing more to read when `records` is empty."""

    error: ErrorCode
    records: bytes = b""
    high_watermark: int = -1
    log_end_offset: int = -1


class Services(Protocol):
    @property
    def broker_id(self) -> int: ...

    @property
    def may_serve(self) -> bool:
        """KIP-631, Fencing: the lease lasts."""
        ...

    def partition_count(self, topic: str) -> int | None:
        """None: there is no such topic, as far as this broker knows."""
        ...

    def leader_of(self, topic: str, partition: int) -> int | None:
        """Broker id by the newest metadata; None: there is no such partition, or nobody leads it."""
        ...

    def host_and_port(self, broker: int) -> tuple[str, int] | None:
        """Where clients reach a broker that is not fenced."""
        ...

    def leads(self, topic: str, partition: int) -> int | None:
        """The leader epoch in which this broker leads; None: it does not."""
        ...

    def watch_leadership(self, topic: str, changed: LeadershipChanged) -> None:
        """Told at once of what this broker leads, then of every change. A new epoch of the same leader is told as one: None, then it."""
        ...

    async def create_internal(self, topic: str) -> ErrorCode:
        """Have the controller create it, with the partitions and replicas that this broker's configuration says. None if it exists."""
        ...

    def read(self, topic: str, partition: int, offset: int, max_bytes: int = 1 << 20) -> Read:
        """As the leader, up to the end of the log (a coordinator that loads must see what its predecessor could not commit any more)."""
        ...

    def watch_markers(self, topic: str, marked: Marked) -> None:
        """marked(7, 4711, True): the transaction of producer 4711 has been committed in partition 7, which this broker leads."""
        ...

    async def append(self, topic: str, partition: int, batch: bytes, *, leader_epoch: int, deadline: int) -> Written:
        """As acks=all; sequences of the batch are not looked at. NOT_LEADER_OR_FOLLOWER unless this broker leads in that very epoch."""
        ...

    async def ask_broker(self, broker: int, request: object, *, deadline: int) -> object:
        """kio's response. Disconnected when there is none."""
        ...

    async def producer_id(self, *, deadline: int) -> int | None:
        """One that nobody else has or will have; None: no controller gave a block of them in time."""
        ...
