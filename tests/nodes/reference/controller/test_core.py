"""Pending and committed state, leadership, snapshots by turns, feature levels (KIP-631, KIP-584)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.controller.broker_messages import (
    OK,
    AllocateProducerIdsRequest,
    ControllerHeartbeatRequest,
)
from nodes.reference.controller.client_messages import (
    CreateTopicsRequest,
    FeatureUpdate,
    NewTopic,
    UpdateFeaturesRequest,
    UpgradeType,
)
from nodes.reference.controller.core import Resign, TakeSnapshot
from nodes.reference.controller.messages import Request
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.store import QuorumStatus
from nodes.reference.environment import SECOND
from nodes.reference.protections import Protection, Protections
from tests.nodes.reference.controller.stage import FEATURES, Stage
from tests.nodes.reference.controller.test_wire import EXCHANGES

NOT_CONTROLLER = ErrorCode.not_controller


def creating(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=(NewTopic(name=name, partition_count=1, replication_factor=1),))


def errors(response: Any) -> set[ErrorCode]:
    """All that a response has, wherever."""
    if hasattr(response, "error"):
        return {response.error}
    return {part.error for part in getattr(response, "topics", None) or response.resources}


@pytest.mark.parametrize("request_", [request for request, _ in EXCHANGES], ids=lambda request: type(request).__name__)
def test_a_standby_answers_nothing(request_: Request) -> None:
    stage = Stage(active=False)
    stage.take(stage.controller.leader_changed(3, 5, stage.now))
    assert errors(stage.ask(request_)) == {NOT_CONTROLLER}
    assert stage.store.end_offset == 0
    assert stage.controller.deadline(stage.now) is None


def test_an_answer_waits_for_its_commit_and_for_what_it_builds_on() -> None:
    stage = Stage()
    stage.brokers(1)
    first, again = stage.begin(creating("t")), stage.begin(creating("t"))
    assert not stage.answers.keys() & {first, again}
    assert stage.controller.image.topic("t") is None
    stage.commit()
    assert errors(stage.answers[first]) == {OK}
    assert errors(stage.answers[again]) == {ErrorCode.topic_already_exists}
    assert stage.controller.image == stage.controller.pending


def test_without_the_protection_it_does_not_wait() -> None:
    stage = Stage(Protections([Protection.COMMITTED_BEFORE_ANSWERED]))
    stage.brokers(1)
    ticket = stage.begin(creating("t"))
    assert errors(stage.answers[ticket]) == {OK}
    assert stage.controller.image.topic("t") is None


def test_who_loses_leadership_forgets_what_is_pending() -> None:
    stage = Stage()
    stage.brokers(1)
    ticket = stage.begin(creating("t"))
    stage.take(stage.controller.leader_changed(2, 6, stage.now))
    assert errors(stage.answers[ticket]) == {NOT_CONTROLLER}
    assert stage.controller.pending is None
    del stage.store.values[stage.controller.committed_offset :]  # what the next leader never had
    stage.store.batches.clear()
    stage.take(stage.controller.leader_changed(1, 7, stage.now))
    assert errors(stage.ask(creating("t"))) == {OK}


def test_one_that_has_lost_it_and_does_not_know_finds_out_when_it_writes() -> None:
    stage = Stage()
    stage.brokers(1)
    waiting = stage.begin(creating("t"))
    stage.store.lost = True
    ticket = stage.begin(creating("u"))
    assert errors(stage.answers[ticket]) == errors(stage.answers[waiting]) == {NOT_CONTROLLER}
    assert not stage.controller.active


def test_a_standby_is_hot_and_sessions_begin_anew() -> None:
    stage, standby = Stage(), Stage(active=False)
    stage.brokers(1, 2)
    standby.store = stage.store
    standby.controller._store = stage.store  # the same log
    standby.take(standby.controller.committed(stage.store.values, stage.store.end_offset, standby.now))
    assert standby.controller.image == stage.controller.image
    standby.take(standby.controller.leader_changed(1, 6, standby.now))
    standby.pass_time(8 * SECOND)
    assert standby.controller.image.active(1)
    standby.pass_time(2 * SECOND)
    assert not standby.controller.image.active(1)


def test_a_snapshot_is_the_state() -> None:
    stage, other = Stage(), Stage(active=False)
    stage.brokers(1, 2)
    stage.topic("t", (1, 2))
    values = stage.controller.image.values()
    other.take(other.controller.load(values, 40))
    assert other.controller.image == stage.controller.image
    assert other.controller.committed_offset == 40


def test_blocks_of_producer_ids_do_not_overlap() -> None:
    stage = Stage()
    stage.brokers(1, 2)
    epochs = {id: broker.epoch for id, broker in stage.controller.image.brokers.items()}
    blocks = [
        stage.ask(AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epochs[broker])) for broker in (1, 2, 1)
    ]
    assert [(block.start, block.count) for block in blocks] == [(0, 1000), (1000, 1000), (2000, 1000)]
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)
    assert stage.ask(stale).error is ErrorCode.stale_broker_epoch


# Snapshots (KIP-631, Snapshot Implementation)


def snapshots() -> Stage:
    """A snapshot is due at 10 records, at 30 while the quorum is at risk; there are some 20."""
    stage = Stage(settings=ControllerSettings(cluster_id="k", snapshot_every=10, snapshot_every_lagging=30))
    stage.brokers(1, 2, 3)
    for number in range(5):
        stage.topic(f"t{number}", (1,))
    assert 15 < stage.controller.committed_offset < 30
    return stage


def reports(stage: Stage, controller: int, offset: int) -> bool:
    request = ControllerHeartbeatRequest(controller_id=controller, last_snapshot_offset=offset)
    start = stage.ask(request).start_snapshot
    assert isinstance(start, bool)
    return start


def test_one_snapshot_at_a_time() -> None:
    stage = snapshots()
    assert reports(stage, 2, 0)
    assert not reports(stage, 3, 0)
    assert reports(stage, 2, 0), "its answer was lost"
    assert not reports(stage, 2, 20), "it is done"
    assert reports(stage, 3, 0)


def test_one_that_never_comes_is_given_up() -> None:
    stage = snapshots()
    assert reports(stage, 2, 0)
    stage.now += 59 * SECOND
    assert not reports(stage, 3, 0)
    stage.now += 2 * SECOND
    assert reports(stage, 3, 0)


def test_rarer_while_the_loss_of_one_would_cost_the_majority() -> None:
    stage = snapshots()
    stage.store.status = QuorumStatus((1, 2, 3), frozenset({1, 2}))
    assert not reports(stage, 2, 0)
    for number in range(5, 12):
        stage.topic(f"t{number}", (1,))
    assert reports(stage, 2, 0)


def test_the_active_controller_resigns_before_its_own_and_last() -> None:
    stage = snapshots()
    stage.pass_time(SECOND)
    stage.topic("a", (1,))
    assert stage.other_effects == [], "the others have not reported"
    end = stage.controller.committed_offset
    reports(stage, 2, end)
    assert reports(stage, 3, 0)
    stage.topic("b", (1,))
    assert stage.other_effects == [], "another one is at it"
    reports(stage, 3, end)
    stage.topic("c", (1,))
    assert stage.other_effects == [Resign()]


def test_a_lone_controller_takes_it_as_it_leads() -> None:
    stage = snapshots()
    stage.store.status = QuorumStatus((1,), frozenset({1}))
    stage.topic("a", (1,))
    assert stage.other_effects == [TakeSnapshot()]


# Feature levels (KIP-584)


def update(level: int, upgrade: UpgradeType = UpgradeType.UPGRADE, name: str = "metadata.version") -> Request:
    return UpdateFeaturesRequest(updates=(FeatureUpdate(name=name, level=level, upgrade=upgrade),))


def test_a_new_cluster_gets_the_level_that_is_configured() -> None:
    assert Stage().controller.image.features == {"metadata.version": 11}
    stage = Stage(settings=ControllerSettings(cluster_id="k", metadata_version=8))
    assert stage.controller.image.metadata_version == 8
    stage.take(stage.controller.leader_changed(1, 9, stage.now))
    assert stage.store.end_offset == 1, "only once"


def test_levels_that_everyone_supports() -> None:
    stage = Stage(settings=ControllerSettings(cluster_id="k", metadata_version=8))
    old = replace(FEATURES[0], max_supported_version=9)
    stage.register(1, features=(old,))
    assert stage.ask(update(10)).error is ErrorCode.invalid_update_version
    assert stage.ask(update(12)).error is ErrorCode.invalid_update_version
    assert stage.ask(update(1, name="other")).error is ErrorCode.invalid_update_version
    assert stage.ask(update(9)).error is OK
    assert stage.controller.image.metadata_version == 9
    both = UpdateFeaturesRequest(
        updates=(FeatureUpdate(name="metadata.version", level=8), FeatureUpdate(name="other", level=1))
    )
    assert stage.ask(both).error is ErrorCode.invalid_update_version
    assert stage.controller.image.metadata_version == 9, "all or none"


def test_downgrades_must_be_asked_for() -> None:
    stage = Stage()
    assert stage.ask(update(10)).error is ErrorCode.invalid_update_version
    assert stage.ask(update(10, UpgradeType.SAFE_DOWNGRADE)).error is OK
    assert stage.ask(update(5, UpgradeType.SAFE_DOWNGRADE)).error is ErrorCode.invalid_update_version
    assert stage.ask(update(5, UpgradeType.UNSAFE_DOWNGRADE)).error is OK


def test_topic_ids_come_from_the_given_randomness() -> None:
    first, second = Stage(), Stage()
    first.brokers(1)
    second.brokers(1)
    assert first.topic("t", (1,)) == second.topic("t", (1,))
    assert first.topic("u", (1,)).topic_id != UUID(int=0)
