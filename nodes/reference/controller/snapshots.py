"""Who takes a snapshot when (KIP-631, Snapshot Implementation): the active controller decides for all, so that no two do at once.

Controllers tell in their heartbeats how far their newest snapshot is, and are told in the answers to begin one. While the loss of one more
voter would probably cost the majority, snapshots are rarer. The active controller takes its own last: it resigns before, and whoever
follows will tell it to begin. All of this is soft state; a new active controller learns it again from the next heartbeats.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from nodes.reference.controller.broker_messages import (
    OK,
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
)
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.store import QuorumStatus


@dataclass(frozen=True, slots=True)
class Running:
    """One that a controller was told to take."""

    controller: int
    after: int  # its newest one before
    deadline: int


class OwnTurn(enum.Enum):
    NOT_YET = "not yet"
    RESIGN = "resign"
    SNAPSHOT = "snapshot"  # a lone voter has nobody to hand over to


class SnapshotSchedule:
    """Of one term of an active controller."""

    def __init__(self, controller_id: int, settings: ControllerSettings) -> None:
        self._controller_id = controller_id
        self._settings = settings
        self._newest: dict[int, int] = {}
        self.running: Running | None = None

    def heartbeat(
        self, request: ControllerHeartbeatRequest, committed_offset: int, quorum: QuorumStatus, now: int
    ) -> ControllerHeartbeatResponse:
        self._newest[request.controller_id] = request.last_snapshot_offset
        running = self.running
        if running is not None:
            taken = running.controller == request.controller_id and request.last_snapshot_offset > running.after
            if taken or now >= running.deadline:
                running = None
        if running is None and self._due(request.last_snapshot_offset, committed_offset, quorum):
            running = Running(
                request.controller_id, request.last_snapshot_offset, now + self._settings.snapshot_timeout
            )
        self.running = running
        start = running is not None and running.controller == request.controller_id
        return ControllerHeartbeatResponse(error=OK, start_snapshot=start)

    def own_turn(self, own_offset: int, committed_offset: int, quorum: QuorumStatus, now: int) -> OwnTurn:
        """Only when all others that are up to date have reported and need none; otherwise one resignation would bring the next."""
        if not self._due(own_offset, committed_offset, quorum):
            return OwnTurn.NOT_YET
        if self.running is not None and now < self.running.deadline:
            return OwnTurn.NOT_YET
        if quorum.voters == (self._controller_id,):
            return OwnTurn.SNAPSHOT
        others = [voter for voter in quorum.caught_up if voter != self._controller_id]
        ready = [
            voter
            for voter in others
            if voter in self._newest and not self._due(self._newest[voter], committed_offset, quorum)
        ]
        return OwnTurn.RESIGN if others and len(ready) == len(others) else OwnTurn.NOT_YET

    def _due(self, newest: int, committed_offset: int, quorum: QuorumStatus) -> bool:
        at_risk = len(quorum.caught_up) - 1 <= len(quorum.voters) // 2 and len(quorum.voters) > 1
        every = self._settings.snapshot_every_lagging if at_risk else self._settings.snapshot_every
        return committed_offset - newest >= every
