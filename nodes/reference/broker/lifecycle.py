"""The states of a broker and its lease (KIP-631, The Broker State Machine), as a pure state machine: time is an argument.

    INITIAL ──registered──> FENCED ──caught up──> ACTIVE ──wants to stop──> SHUTDOWN
                               ^─────lease over─────┘

A registration gives the broker its epoch. Heartbeats renew its lease: 1.5 times `broker.session.timeout.ms` from when the heartbeat was
sent, on the monotonic clock (KIP-631, LeaseStartTimeMs: an answer that lay around while this process was paused renews nothing). The
controller counts `broker.session.timeout.ms` from when the heartbeat came, so it fences first (KIP-343, Controller-Side Heartbeat Timeout:
"we do not want the broker to fence itself until it has been declared inactive by the controller"). A broker without a lease serves no
clients: nobody tells it any more what has become of its leadership.

What Kafka sends is used for all this: BrokerRegistration and BrokerHeartbeat with two wishes, to be fenced or to shut down. The
proposal's one message has a target state and lease times instead, which Kafka found no use for.
"""

from __future__ import annotations

import enum
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.reference.environment import MILLISECOND
from nodes.reference.protections import Protection, Protections

NO_EPOCH: Final = -1


class State(enum.Enum):
    INITIAL = "initial"
    FENCED = "fenced"
    ACTIVE = "active"
    SHUTDOWN = "shutdown"


class Lifecycle:
    """Of one process: a new one has a new incarnation id, and wins over those before it."""

    def __init__(self, session_timeout_ms: int, protections: Protections) -> None:
        self._lease = session_timeout_ms * 3 // 2 * MILLISECOND
        self._protections = protections
        self.state = State.INITIAL
        self.broker_epoch = NO_EPOCH
        self.lease_end = 0
        self.wants_shutdown = False

    @property
    def registered(self) -> bool:
        return self.broker_epoch != NO_EPOCH

    def may_serve(self, now: int) -> bool:
        """KIP-631, Fencing: "when a broker is fenced, it cannot process any client requests"."""
        self.time_passed(now)
        return self.state is State.ACTIVE

    def registration_answered(self, error: ErrorCode, broker_epoch: int) -> bool:
        """True: accepted. Refused (another process has the id, an unsupported feature): stay as we are, and ask again."""
        if error is not ErrorCode.none:
            return False
        self.state, self.broker_epoch = State.FENCED, broker_epoch
        return True

    def heartbeat_answered(self, answer: Any, sent: int) -> None:
        """answer: kio's BrokerHeartbeatResponse; sent: when it was asked for. Any error but "not registered" renews nothing, and the lease decides.

        STALE_BROKER_EPOCH: another process has this id now, and its registration is the newer one. This one stays fenced.
        """
        if answer.error_code is ErrorCode.broker_id_not_registered:
            self.state, self.broker_epoch, self.lease_end = State.INITIAL, NO_EPOCH, 0
        elif answer.error_code is ErrorCode.stale_broker_epoch:
            self._fence()
        elif answer.error_code is ErrorCode.none:
            self._renewed(answer, sent)

    def time_passed(self, now: int) -> bool:
        """True: the lease has just ended, by the broker's own clock."""
        if (
            self.state is State.ACTIVE
            and now >= self.lease_end
            and self._protections.on(Protection.BROKER_SELF_FENCING)
        ):
            self._fence()
            return True
        return False

    def give_up(self) -> None:
        """The controller has not let this broker stop in time: it stops all the same, and is fenced for it."""
        self.state = State.SHUTDOWN

    def _renewed(self, answer: Any, sent: int) -> None:
        if answer.should_shut_down and self.wants_shutdown:
            self.state = State.SHUTDOWN
        elif answer.is_fenced:
            self._fence()
        else:
            self.state, self.lease_end = State.ACTIVE, sent + self._lease

    def _fence(self) -> None:
        self.state, self.lease_end = State.FENCED, 0
