"""What is asked of a group's coordinator and what it answers, the same in all versions of the requests. Times in ms.

Join(group="g", member_id="", client_id="c", client_host="/127.0.0.1", session_timeout=10_000, rebalance_timeout=60_000,
     protocol_type="consumer", protocols=(("range", b"..."),), member_id_required=True)
Joined(error=none, generation=1, member_id="c-5f0...", leader="c-5f0...", protocol="range", members=(JoinedMember(...),))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kio.schema.errors import ErrorCode

UNKNOWN_MEMBER = ""
NO_GENERATION = -1
NO_OFFSET = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class Offset(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    timestamp: int = -1  # ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    group: str
    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None  # KIP-345
    client_id: str = ""
    client_host: str = ""
    session_timeout: int
    rebalance_timeout: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]  # name and metadata, the most wanted first
    member_id_required: bool = False  # KIP-394: from version 4 on
    may_skip_assignment: bool = False  # KIP-814: from version 9 on


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    error: ErrorCode
    member_id: str = UNKNOWN_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = UNKNOWN_MEMBER
    members: tuple[JoinedMember, ...] = ()  # only for the leader
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    group: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None  # None: a version that does not say
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)  # by member; from the leader


@dataclass(frozen=True, slots=True)
class Synced:
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """Answered with an ErrorCode."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None = None


class Leaving(NamedTuple):
    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Left:
    error: ErrorCode
    members: tuple[tuple[Leaving, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Answered with Committed. Without a member: an application that assigns partitions itself."""

    group: str
    offsets: Mapping[TopicPartition, Offset]
    generation: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalCommit:
    """TxnOffsetCommit (KIP-98, KIP-447): answered when it is in the log, counts when its transaction commits."""

    commit: Commit
    producer_id: int
    producer_epoch: int


Committed = Mapping[TopicPartition, ErrorCode]


class FetchedOffset(NamedTuple):
    error: ErrorCode
    offset: Offset


NOTHING_COMMITTED = FetchedOffset(ErrorCode.none, Offset(NO_OFFSET))


@dataclass(frozen=True, slots=True)
class Fetched:
    error: ErrorCode
    offsets: Mapping[TopicPartition, FetchedOffset] = field(default_factory=dict)


def unfetched(error: ErrorCode, partitions: Iterable[TopicPartition]) -> Fetched:
    """Versions 0 and 1 have no error of the whole, so each partition has it."""
    return Fetched(error, dict.fromkeys(partitions, FetchedOffset(error, Offset(NO_OFFSET))))


@dataclass(frozen=True, slots=True)
class DeletedOffsets:
    error: ErrorCode
    partitions: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Described:
    """state: as Kafka spells it; "Dead" for a group that does not exist."""

    group: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
