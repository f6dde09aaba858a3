"""The states of a broker and its lease (KIP-631, The Broker State Machine), as a pure state machine: time is an argument.

    INITIAL ──registered──> FENCED ──caught up──> ACTIVE ──wants to stop──> SHUTDOWN
                               ^─────lease over─────┘

A registration gives the broker its epoch; each heartbeat's answer says which state comes next and when the lease ends, on the broker's
own monotonic clock, counted from when the heartbeat was sent: an answer that lay around while this process was paused renews nothing.
A broker without a lease serves no clients: nobody tells it any more what has become of its leadership.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.reference.controller.broker_messages import BrokerState
from nodes.reference.environment import MILLISECOND
from nodes.reference.protections import Protection, Protections

NO_EPOCH: Final = -1
_REGISTER_AGAIN: Final = (ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered)


class Lifecycle:
    """Of one process: a new one has a new incarnation id, and wins over those before it."""

    def __init__(self, protections: Protections) -> None:
        self._protections = protections
        self.state = BrokerState.INITIAL
        self.broker_epoch = NO_EPOCH
        self.lease_end = 0
        self.wants_shutdown = False

    @property
    def registered(self) -> bool:
        return self.broker_epoch != NO_EPOCH

    def may_serve(self, now: int) -> bool:
        """KIP-631, Fencing: "when a broker is fenced, it cannot process any client requests"."""
        self.time_passed(now)
        return self.state is BrokerState.ACTIVE

    def target(self, *, ready: bool) -> BrokerState:
        """What the next heartbeat asks for. ready: partitions are open, and metadata has this registration."""
        if self.wants_shutdown:
            return BrokerState.SHUTDOWN
        return BrokerState.ACTIVE if ready else BrokerState.FENCED

    def registration_answered(self, error: ErrorCode, broker_epoch: int) -> bool:
        """True: accepted. Refused (another process has the id, an unsupported feature): stay as we are, and ask again.

        Who has stopped meanwhile is not interested any more.
        """
        if error is not ErrorCode.none or self.state is BrokerState.SHUTDOWN:
            return False
        self.state, self.broker_epoch = BrokerState.FENCED, broker_epoch
        return True

    def heartbeat_answered(self, answer: Any, now: int) -> None:
        """answer: the BrokerHeartbeatResponse of controller/schema.py. An error that says nothing about this broker renews nothing.

        Whose epoch is stale, or unknown, begins anew; if another process has the id, its registration will be refused.
        """
        if answer.error_code in _REGISTER_AGAIN:
            self.state, self.broker_epoch, self.lease_end = BrokerState.INITIAL, NO_EPOCH, 0
        elif answer.error_code is ErrorCode.none and answer.broker_epoch == self.broker_epoch:
            self.state = BrokerState(answer.next_state)
            self.lease_end = answer.lease_end_time_ms * MILLISECOND
        self.time_passed(now)

    def time_passed(self, now: int) -> bool:
        """True: the lease has just ended, by the broker's own clock."""
        over = self.state is BrokerState.ACTIVE and now >= self.lease_end
        if over and self._protections.on(Protection.BROKER_SELF_FENCING):
            self.state = BrokerState.FENCED
            return True
        return False

    def give_up(self) -> None:
        """The controller has not let this broker stop in time: it stops all the same, and is fenced for it."""
        self.state = BrokerState.SHUTDOWN
