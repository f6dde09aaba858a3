"""The states of a quorum node (KIP-595, State Machine), each with what it must know and no more.

    Unattached -> Voted -> Follower          nobody leads as far as known | has voted | knows the leader
    Unattached | Voted | Follower -> Candidate -> Leader -> Resigned

Voters and observers differ only in this: an observer is never Voted, Candidate, Leader or Resigned. All times are ns of the node's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.raft.log import OffsetAndEpoch, Voters
from nodes.reference.raft.messages import FetchRequest


@dataclass(frozen=True, kw_only=True)
class RaftConfig:
    """Kafka's `controller.quorum.*` settings with Kafka's defaults, in ns; `voters` is who votes until the log says."""

    cluster_id: str
    voters: Voters
    election_timeout: int = 1 * SECOND  # randomised up to twice this
    election_backoff_max: int = 1 * SECOND
    fetch_timeout: int = 2 * SECOND
    request_timeout: int = 2 * SECOND
    retry_backoff: int = 20 * MILLISECOND
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20  # of a response, which has one batch at least
    snapshot_max_bytes: int = 1 << 20  # of a piece

    @property
    def check_quorum_timeout(self) -> int:
        """KAFKA-15489: 1.5 times the fetch timeout, so that the followers give up first."""
        return self.fetch_timeout * 3 // 2


@dataclass(slots=True)
class Unattached:
    election_deadline: int


@dataclass(slots=True)
class Voted:
    voted_id: int
    election_deadline: int


@dataclass(slots=True)
class Loading:
    """KIP-630: a snapshot on its way from the leader."""

    snapshot_id: OffsetAndEpoch
    content: bytearray


@dataclass(slots=True)
class Follower:
    leader_id: int
    fetch_deadline: int
    loading: Loading | None = None


@dataclass(slots=True)
class Candidate:
    election_deadline: int
    retries: int
    granted: set[int]
    rejected: set[int] = field(default_factory=set)
    backoff_until: int | None = None  # lost: stands again from then on


@dataclass(slots=True)
class Progress:
    """What a leader knows of a replica."""

    end_offset: int = -1
    last_fetch: int = -1
    last_caught_up: int = -1
    told_high_watermark: int = -1


class Parked(NamedTuple):
    """A fetch that waits for records (long poll)."""

    token: int
    request: FetchRequest
    deadline: int


@dataclass(slots=True)
class Leader:
    epoch_start_offset: int  # of its LeaderChange
    began: int
    quorum_deadline: int
    acknowledged: set[int] = field(default_factory=set)  # have heard of this epoch
    fetched: set[int] = field(default_factory=set)  # voters that have fetched since the quorum was last checked
    progress: dict[int, Progress] = field(default_factory=dict)
    parked: list[Parked] = field(default_factory=list)


@dataclass(slots=True)
class Resigned:
    election_deadline: int
    preferred_successors: tuple[int, ...]
    acknowledged: set[int] = field(default_factory=set)


Role = Unattached | Voted | Follower | Candidate | Leader | Resigned
