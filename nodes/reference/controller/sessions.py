"""What the active controller knows of brokers only from their heartbeats (KIP-631, Broker Heartbeats); gone when it is not active any more.

Times are those of its own monotonic clock. A new active controller gives every broker a whole session from then on, so that nobody is
fenced because controllers changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from nodes.reference.protections import Protection, Protections


@dataclass(slots=True)
class Session:
    last_contact: int
    caught_up: int  # when it was last seen to have all metadata that was committed at its heartbeat before
    metadata_offset: int = -1
    committed_then: int = -1  # at its newest heartbeat
    stopping_since: int | None = None  # the end of the log when its controlled shutdown was begun


class Sessions:
    def __init__(self, timeout: int, protections: Protections) -> None:
        self._timeout = timeout
        self._protections = protections
        self._sessions: dict[int, Session] = {}
        self._superseded: defaultdict[int, set[UUID]] = defaultdict(set)

    def begin(self, broker: int, now: int) -> None:
        """Anew: nothing that was known of it counts."""
        self._sessions[broker] = Session(last_contact=now, caught_up=now)

    def end(self, broker: int) -> None:
        self._sessions.pop(broker, None)

    def heard(self, broker: int, metadata_offset: int, committed_offset: int, now: int) -> Session:
        """A heartbeat. One that has what was committed at the last one has caught up then, although it never is at the very end."""
        if broker not in self._sessions:
            self.begin(broker, now)
        session = self._sessions[broker]
        if metadata_offset >= committed_offset:
            session.caught_up = now
        elif metadata_offset >= session.committed_then:
            session.caught_up = max(session.caught_up, session.last_contact)
        session.last_contact = now
        session.metadata_offset = metadata_offset
        session.committed_then = committed_offset
        return session

    def have_metadata(self, offset: int, brokers: Iterable[int]) -> bool:
        """Do all of these brokers know everything before an offset?"""
        return all(broker in self._sessions and self._sessions[broker].metadata_offset >= offset for broker in brokers)

    def expired(self, brokers: Iterable[int], now: int) -> list[int]:
        """KIP-631, Fencing; KIP-343, Controller-Side Heartbeat Timeout: those of these brokers that were silent for too long."""
        return [broker for broker in brokers if now >= self._deadline(broker, now)]

    def next_expiry(self, brokers: Iterable[int], now: int) -> int | None:
        """When the next of these sessions ends if nothing is heard."""
        return min((self._deadline(broker, now) for broker in brokers), default=None)

    def supersede(self, broker: int, incarnation_id: UUID) -> None:
        self._superseded[broker].add(incarnation_id)

    def superseded(self, broker: int, incarnation_id: UUID, now: int) -> bool:
        """Has this process lost its id to one that is still there? (A late message of a dead one must not keep others out for ever.)"""
        session = self._sessions.get(broker)
        alive = session is not None and now < session.last_contact + self._timeout
        return alive and incarnation_id in self._superseded[broker]

    def _deadline(self, broker: int, now: int) -> int:
        if broker not in self._sessions:
            self.begin(broker, now)
        since = self._sessions[broker].last_contact
        return (since if self._protections.on(Protection.CONTROLLER_SIDE_FENCING) else now) + self._timeout
