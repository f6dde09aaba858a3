"""What is asked of a replica of a partition: the parts of requests that concern one partition."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from nodes.reference.log.batch import Marker
from nodes.reference.log.epochs import NO_EPOCH
from nodes.reference.partition.effects import Ticket
from nodes.reference.partition.view import NO_BROKER_EPOCH


class Isolation(enum.IntEnum):
    """As in Fetch and ListOffsets."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Acks(enum.IntEnum):
    """How many must have a record before it is acknowledged."""

    ALL = -1
    NONE = 0
    LEADER = 1


class Timestamp(enum.IntEnum):
    """What ListOffsets asks for instead of a time (KIP-79, KIP-734)."""

    LATEST = -1
    EARLIEST = -2
    MAX = -3


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """One batch. deadline: ns, when acks=all gives up waiting (REQUEST_TIMED_OUT; the record stays).

    of_coordinator: written by a coordinator of this cluster, whose transactional batches have no sequence.
    """

    ticket: Ticket
    content: bytes
    acks: int
    deadline: int
    of_coordinator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarker:
    """End a transaction here; acknowledged as acks=all is."""

    ticket: Ticket
    marker: Marker
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    timestamp: int  # ms
    deadline: int  # ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetch:
    """What a follower asks its leader (Fetch v15: replica id and epoch are ReplicaState, KIP-903)."""

    replica: int
    replica_epoch: int = NO_BROKER_EPOCH  # -1: a version without epochs
    leader_epoch: int
    offset: int
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = -1
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFetch:
    offset: int
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    leader_epoch: int = NO_EPOCH  # -1: the client does not know
    last_fetched_epoch: int = NO_EPOCH
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetch:
    """What a follower's shell sends next, and to whom."""

    leader: int
    request: ReplicaFetch
