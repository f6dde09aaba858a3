"""A broker's states and its lease, rule by rule."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.broker.lifecycle import NO_EPOCH, Lifecycle
from nodes.reference.controller.broker_messages import BrokerState
from nodes.reference.controller.schema import BrokerHeartbeatResponse
from nodes.reference.environment import MILLISECOND
from nodes.reference.protections import ALL_ON, Protection, Protections

NOW = 1_000 * MILLISECOND


def answer(
    state: BrokerState = BrokerState.ACTIVE,
    *,
    epoch: int = 7,
    lease_end_ms: int = 2_000,
    error: ErrorCode = ErrorCode.none,
) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        error_code=error, active_controller_id=1, next_state=state, broker_epoch=epoch, lease_end_time_ms=lease_end_ms
    )


def registered(protections: Protections = ALL_ON) -> Lifecycle:
    lifecycle = Lifecycle(protections)
    assert lifecycle.registration_answered(ErrorCode.none, 7)
    return lifecycle


def active(protections: Protections = ALL_ON) -> Lifecycle:
    lifecycle = registered(protections)
    lifecycle.heartbeat_answered(answer(), NOW)
    return lifecycle


def test_it_serves_nobody_before_the_controller_says_so() -> None:
    lifecycle = Lifecycle(ALL_ON)
    assert not lifecycle.registration_answered(ErrorCode.duplicate_broker_registration, -1)
    assert lifecycle.broker_epoch == NO_EPOCH
    assert lifecycle.registration_answered(ErrorCode.none, 7)
    assert not lifecycle.may_serve(NOW)
    lifecycle.heartbeat_answered(answer(BrokerState.FENCED), NOW)
    assert not lifecycle.may_serve(NOW)
    lifecycle.heartbeat_answered(answer(), NOW)
    assert lifecycle.may_serve(NOW)


@pytest.mark.parametrize(
    ("protections", "serves"), [(ALL_ON, False), (Protections(off=[Protection.BROKER_SELF_FENCING]), True)]
)
def test_its_lease_ends_by_its_own_clock(protections: Protections, serves: bool) -> None:
    lifecycle = active(protections)
    assert lifecycle.may_serve(2_000 * MILLISECOND - 1)
    assert lifecycle.may_serve(2_000 * MILLISECOND) is serves


def test_an_answer_that_lay_around_renews_nothing() -> None:
    """The process was paused: the lease counts from when the heartbeat was sent."""
    lifecycle = active()
    lifecycle.heartbeat_answered(answer(lease_end_ms=2_500), 60_000 * MILLISECOND)
    assert not lifecycle.may_serve(60_000 * MILLISECOND)


def test_an_answer_for_an_earlier_registration_renews_nothing() -> None:
    lifecycle = registered()
    lifecycle.heartbeat_answered(answer(epoch=6), NOW)
    assert not lifecycle.may_serve(NOW)


@pytest.mark.parametrize("error", [ErrorCode.stale_broker_epoch, ErrorCode.broker_id_not_registered])
def test_who_is_not_known_any_more_registers_again(error: ErrorCode) -> None:
    lifecycle = active()
    lifecycle.heartbeat_answered(answer(error=error), NOW)
    assert not lifecycle.registered
    assert not lifecycle.may_serve(NOW)


def test_an_error_that_says_nothing_of_this_broker_leaves_the_lease_as_it_is() -> None:
    lifecycle = active()
    lifecycle.heartbeat_answered(answer(error=ErrorCode.request_timed_out), NOW)
    assert lifecycle.may_serve(NOW)


def test_what_it_asks_for() -> None:
    lifecycle = registered()
    assert lifecycle.target(ready=False) is BrokerState.FENCED
    assert lifecycle.target(ready=True) is BrokerState.ACTIVE
    lifecycle.wants_shutdown = True
    assert lifecycle.target(ready=True) is BrokerState.SHUTDOWN
    lifecycle.heartbeat_answered(answer(BrokerState.SHUTDOWN), NOW)
    assert lifecycle.state is BrokerState.SHUTDOWN
    assert not lifecycle.may_serve(NOW)


def test_a_registration_that_comes_after_the_end_changes_nothing() -> None:
    lifecycle = Lifecycle(ALL_ON)
    lifecycle.give_up()
    assert not lifecycle.registration_answered(ErrorCode.none, 7)
    assert lifecycle.state is BrokerState.SHUTDOWN
