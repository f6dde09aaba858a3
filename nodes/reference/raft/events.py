"""What happens to a quorum node, and what it wants done about it: the two sides of the pure core.

    effects = raft.handle(now, Asked(token=7, request=VoteRequest(...)))
    [Persist(ElectionState(epoch=3, leader_id=None, voted_id=2)), Respond(7, VoteResponse(granted=True, ...))]

Effects are of two kinds, and their order is what makes the protocol safe: **everything durable is on disk before anything visible is
done**. Whoever carries them out may gather the effects of many events: first all durable ones in their order, one sync, then the visible
ones in theirs. Then the core hears `Flushed`, because a leader's own records count only from there on (KIP-595, Log Compaction and Flush).
"""

from __future__ import annotations

from typing import NamedTuple

from nodes.reference.raft.log import Batch, Snapshot
from nodes.reference.raft.messages import Request, Response


class ElectionState(NamedTuple):
    """KIP-595, Quorum State: what a voter must remember; in the file `quorum-state`."""

    epoch: int = 0
    leader_id: int | None = None
    voted_id: int | None = None


# Events


class Woken(NamedTuple):
    """The core's deadline has come."""


class Asked(NamedTuple):
    """Another node asks; its answer is a Respond with the same token, now or later."""

    token: int
    request: Request


class Answered(NamedTuple):
    """The response to a Send."""

    peer: int
    request: Request
    response: Response


class Unanswered(NamedTuple):
    """A Send that was refused, cut off or timed out: exactly one of Answered and Unanswered follows each."""

    peer: int
    request: Request


class Proposed(NamedTuple):
    """The active controller appends records that stand or fall together. Raises NotLeader unless this node leads `epoch`."""

    epoch: int
    values: tuple[bytes, ...]
    timestamp: int  # ms since 1970


class Flushed(NamedTuple):
    """The disk has all that was appended, up to an end offset."""

    end_offset: int


class SnapshotTaken(NamedTuple):
    """The state machine has a snapshot of what was committed; the log before it may go."""

    snapshot: Snapshot


class Resigns(NamedTuple):
    """A leader gives up its leadership: it shuts down, or makes a snapshot (KIP-631, Snapshot Implementation)."""


Event = Woken | Asked | Answered | Unanswered | Proposed | Flushed | SnapshotTaken | Resigns


class NotLeader(Exception):
    """Only the leader of the epoch appends; `leader_id` may know better."""

    def __init__(self, leader_id: int | None, epoch: int) -> None:
        super().__init__(f"not the leader; leader {leader_id} of epoch {epoch} may be")
        self.leader_id, self.epoch = leader_id, epoch


class BrokenInvariant(Exception):
    """What Raft rules out has happened; the node must stop rather than go on."""


# Durable effects


class Persist(NamedTuple):
    state: ElectionState


class Append(NamedTuple):
    batch: Batch


class Truncate(NamedTuple):
    end_offset: int


class StoreSnapshot(NamedTuple):
    """Keep a snapshot. `whole`: it replaces all of the log, which is behind it or beside it; otherwise the log before it may go."""

    snapshot: Snapshot
    whole: bool


# Visible effects


class Send(NamedTuple):
    peer: int
    request: Request


class Respond(NamedTuple):
    token: int
    response: Response


class Committed(NamedTuple):
    """The high watermark has moved: what is before it may be applied, and never changes again."""

    high_watermark: int


class LeaderChanged(NamedTuple):
    """Who leads, as far as this node knows. Its own leadership is told when all earlier epochs' records are committed."""

    leader_id: int | None
    epoch: int


DURABLE = (Persist, Append, Truncate, StoreSnapshot)
Durable = Persist | Append | Truncate | StoreSnapshot
Visible = Send | Respond | Committed | LeaderChanged
Effect = Durable | Visible
