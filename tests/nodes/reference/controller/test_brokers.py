"""KIP-631, Broker Registration and State Management: epochs, conflicts, leases, fencing, controlled shutdown."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.controller.broker_messages import (
    OK,
    BrokerRegistrationRequest,
    BrokerState,
    UnregisterBrokerRequest,
)
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.environment import SECOND
from nodes.reference.metadata.image import Image
from nodes.reference.metadata.schema import FenceBrokerRecord, SupportedFeature, UnfenceBrokerRecord
from nodes.reference.partition.view import NO_LEADER
from nodes.reference.protections import Protection, Protections
from tests.nodes.reference.controller.stage import FEATURES, SESSION, Stage

ACTIVE, FENCED, SHUTDOWN = BrokerState.ACTIVE, BrokerState.FENCED, BrokerState.SHUTDOWN


def test_the_epoch_is_the_offset_of_the_registration() -> None:
    stage = Stage()
    for broker in (1, 2):
        offset = stage.store.end_offset
        assert stage.register(broker).broker_epoch == offset
    assert [broker.fenced for broker in stage.controller.image.brokers.values()] == [True, True]


def test_another_cluster_and_unsupported_features_are_rejected() -> None:
    stage = Stage()
    request = BrokerRegistrationRequest(broker_id=1, cluster_id="other", incarnation_id=UUID(int=1))
    assert stage.ask(request).error is ErrorCode.inconsistent_cluster_id
    old = (SupportedFeature(name="metadata.version", min_supported_version=1, max_supported_version=9),)
    assert stage.register(1, features=old).error is ErrorCode.unsupported_version
    assert stage.register(1, features=()).error is ErrorCode.unsupported_version
    assert stage.register(1, features=FEATURES).error is OK


def test_a_broker_is_fenced_until_it_has_its_own_registration() -> None:
    """KIP-631: "reject brokers whose metadata is too stale"."""
    stage = Stage()
    epoch = stage.register(1).broker_epoch
    assert stage.beat(1, offset=epoch).next_state is FENCED
    assert stage.beat(1, FENCED).next_state is FENCED
    assert stage.beat(1, offset=epoch + 1).next_state is ACTIVE
    assert stage.controller.image.active(1)


def test_a_lease_is_on_the_brokers_clock_and_outlasts_the_session() -> None:
    stage = Stage()
    stage.brokers(1)
    assert stage.beat(1, start=77).lease_end_ms == 77 + 13_500
    with pytest.raises(ValueError, match="longer"):
        ControllerSettings(cluster_id="k", broker_session_timeout=SECOND, broker_lease=SECOND)


def test_who_is_silent_is_fenced_and_loses_leadership_and_isr() -> None:
    stage = Stage()
    stage.brokers(1, 2, 3)
    id = stage.topic()
    stage.pass_time(SESSION - 1)
    stage.beat(2)
    stage.beat(3)
    assert stage.state(id) == (1, {1, 2, 3})
    stage.pass_time(2)
    assert stage.state(id) == (2, {2, 3})
    assert not stage.controller.image.active(1)
    assert (stage.partition(id).leader_epoch, stage.partition(id).partition_epoch) == (1, 1)


def test_the_last_member_stays_in_the_isr_and_leads_when_it_is_back() -> None:
    """KIP-903, "a notable exception"."""
    stage = Stage()
    stage.brokers(1, 2)
    id = stage.topic("t", (1, 2))
    stage.beat(2, FENCED)
    stage.beat(1, FENCED)
    assert stage.state(id) == (NO_LEADER, {1})
    stage.beat(2)
    assert stage.state(id) == (NO_LEADER, {1})
    stage.beat(1)
    assert stage.state(id) == (1, {1})


def test_unclean_election_by_the_topics_setting() -> None:
    stage = Stage()
    stage.brokers(1, 2)
    id = stage.topic("t", (1, 2), unclean_leader_election_enable="true")
    stage.beat(2, FENCED)
    stage.beat(2)
    assert stage.state(id) == (1, {1})
    stage.beat(1, FENCED)
    assert stage.state(id) == (2, {2})
    assert stage.partition(id).recovery == 1


def test_without_the_protection_unclean_election_is_always_on() -> None:
    stage = Stage(Protections([Protection.UNCLEAN_ELECTION_DISABLED]))
    stage.brokers(1, 2)
    id = stage.topic("t", (1, 2))
    stage.beat(2, FENCED)
    stage.beat(2)
    stage.beat(1, FENCED)
    assert stage.state(id) == (2, {2})


def test_without_fencing_at_the_controller_the_dead_lead_on() -> None:
    stage = Stage(Protections([Protection.CONTROLLER_SIDE_FENCING]))
    stage.brokers(1, 2)
    id = stage.topic("t", (1, 2))
    stage.pass_time(10 * SESSION)
    assert stage.state(id) == (1, {1, 2})


def test_a_controller_that_was_stopped_fences_nobody_for_that() -> None:
    stage = Stage()
    stage.brokers(1)
    stage.now += 5 * SESSION
    stage.take(stage.controller.tick(stage.now))
    stage.commit()
    assert stage.controller.image.active(1)
    stage.pass_time(SESSION + 1)
    assert not stage.controller.image.active(1)


def test_a_new_process_wins_and_the_old_one_is_told() -> None:
    """KIP-631, Broker ID Conflicts; KAFKA-18106: the new one begins outside of every ISR."""
    stage = Stage()
    stage.brokers(1, 2)
    id = stage.topic("t", (1, 2))
    old = stage.controller.image.brokers[1].epoch
    assert stage.register(1, incarnation=999).broker_epoch > old
    assert stage.state(id) == (2, {2})
    assert stage.beat(1, epoch=old).error is ErrorCode.stale_broker_epoch
    assert stage.register(1).error is ErrorCode.duplicate_broker_registration
    assert stage.beat(1).next_state is ACTIVE
    stage.pass_time(SESSION - 1)
    assert stage.register(1).error is ErrorCode.duplicate_broker_registration
    stage.pass_time(2)
    assert stage.register(1).error is OK, "the other one is gone"


def test_the_same_process_keeps_its_epoch() -> None:
    """Its answer may have been lost."""
    stage = Stage()
    assert stage.register(1) == stage.register(1)


def test_without_conflict_resolution_two_processes_have_one_epoch() -> None:
    stage = Stage(Protections([Protection.ID_CONFLICT_RESOLVED]))
    first, second = stage.register(1), stage.register(1, incarnation=999)
    assert first == second


def test_without_the_check_a_stale_process_renews_the_lease() -> None:
    stage = Stage(Protections([Protection.STALE_EPOCH_IN_HEARTBEAT]))
    stage.brokers(1)
    old = stage.controller.image.brokers[1].epoch
    stage.register(1, incarnation=999)
    assert stage.beat(1, epoch=old).next_state is ACTIVE
    assert stage.controller.image.active(1)


def test_unknown_brokers_are_told_so() -> None:
    stage = Stage()
    assert stage.beat(1, epoch=3).error is ErrorCode.broker_id_not_registered
    assert stage.ask(UnregisterBrokerRequest(broker_id=1)).error is ErrorCode.broker_id_not_registered
    stage.brokers(1, 2)
    id = stage.topic("t", (1, 2))
    assert stage.ask(UnregisterBrokerRequest(broker_id=1)).error is OK
    assert stage.state(id) == (2, {2})
    assert stage.beat(1, epoch=3).error is ErrorCode.broker_id_not_registered


def test_metadata_that_gets_too_old_fences() -> None:
    stage = Stage()
    stage.brokers(1, 2)
    behind = stage.controller.committed_offset
    stage.topic("t", (1,))
    states = []
    for _ in range(9):
        stage.pass_time(5 * SECOND)
        stage.topic(f"t{stage.now}", (2,))
        stage.beat(2)
        states.append(stage.beat(1, offset=behind).next_state)
    assert states[0] is ACTIVE
    assert states[-1] is FENCED
    assert stage.controller.image.active(2)
    assert stage.beat(1).next_state is ACTIVE


def test_one_that_follows_a_little_behind_is_not_too_old() -> None:
    stage = Stage()
    stage.brokers(1)
    for number in range(20):
        behind = stage.controller.committed_offset
        stage.topic(f"t{number}", (1,))
        stage.pass_time(4 * SECOND)
        assert stage.beat(1, offset=behind).next_state is ACTIVE


def test_controlled_shutdown_moves_leaders_and_waits_until_all_know() -> None:
    """KIP-631, Controlled Shutdown."""
    stage = Stage()
    stage.brokers(1, 2, 3)
    id = stage.topic()
    before = stage.controller.committed_offset
    assert stage.beat(1, SHUTDOWN).next_state is ACTIVE
    assert stage.state(id) == (2, {2, 3})
    assert stage.controller.image.brokers[1].in_controlled_shutdown
    stage.beat(2)
    stage.beat(3, offset=before)
    assert stage.beat(1, SHUTDOWN).next_state is ACTIVE
    stage.beat(3)
    assert stage.beat(1, SHUTDOWN).next_state is SHUTDOWN
    assert stage.controller.image.brokers[1].fenced
    assert stage.beat(1, SHUTDOWN).next_state is SHUTDOWN
    assert stage.register(1, incarnation=7).error is OK
    assert stage.beat(1).next_state is ACTIVE


def test_a_shutdown_goes_on_under_the_next_controller() -> None:
    stage = Stage()
    stage.brokers(1, 2)
    stage.beat(1, SHUTDOWN)
    stage.take(stage.controller.leader_changed(2, 6, stage.now))
    stage.take(stage.controller.leader_changed(1, 7, stage.now))
    assert stage.beat(1, SHUTDOWN).next_state is ACTIVE
    stage.beat(2)
    assert stage.beat(1, SHUTDOWN).next_state is SHUTDOWN


def test_before_3_3_other_records_say_the_same() -> None:
    stage = Stage(settings=ControllerSettings(cluster_id="k", metadata_version=5))
    stage.brokers(1, 2)
    id = stage.topic("t", (1, 2))
    stage.beat(1, SHUTDOWN)
    stage.beat(2)
    assert stage.beat(1, SHUTDOWN).next_state is SHUTDOWN
    kinds = {type(record) for record in stage.store.records()}
    assert {FenceBrokerRecord, UnfenceBrokerRecord} <= kinds
    assert stage.state(id) == (2, {2})
    assert Image.load(stage.controller.image.values()) == stage.controller.image
