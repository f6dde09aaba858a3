"""AlterPartition: what is refused, in which order, and what a change does (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.controller.broker_messages import (
    OK,
    AlteredPartition,
    AlterPartitionRequest,
    BrokerState,
    ProposedIsr,
)
from nodes.reference.metadata.entities import PartitionId
from nodes.reference.protections import ALL_ON, Protection, Protections
from tests.nodes.reference.controller.stage import Stage


def shrunk(protections: Protections = ALL_ON) -> tuple[Stage, PartitionId]:
    """Brokers 1, 2, 3; 1 leads with an ISR of 1 and 2; 3 was fenced and is back."""
    stage = Stage(protections)
    stage.brokers(1, 2, 3, 4)
    id = stage.topic("t", (1, 2, 3))
    stage.beat(3, BrokerState.FENCED)
    stage.beat(3)
    assert stage.state(id) == (1, {1, 2})
    return stage, id


def epochs(stage: Stage, *brokers: int) -> tuple[tuple[int, int], ...]:
    return tuple((broker, stage.controller.image.brokers[broker].epoch) for broker in brokers)


def proposal(stage: Stage, id: PartitionId) -> ProposedIsr:
    """Add 3 again; as it must be."""
    partition = stage.partition(id)
    return ProposedIsr(
        topic=id.topic_id,
        index=id.number,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr=epochs(stage, 1, 2, 3),
    )


def alter(
    stage: Stage, proposed: ProposedIsr, *, sender: int = 1, version: int = 3, epoch: int | None = None
) -> AlteredPartition:
    broker_epoch = stage.controller.image.brokers[sender].epoch if epoch is None else epoch
    request = AlterPartitionRequest(
        broker_id=sender, broker_epoch=broker_epoch, partitions=(proposed,), version=version
    )
    response = stage.ask(request)
    assert response.error is OK
    (altered,) = response.partitions
    assert isinstance(altered, AlteredPartition)
    return altered


def test_a_change_is_written_and_answered_as_it_is_then() -> None:
    stage, id = shrunk()
    before = stage.partition(id)
    assert alter(stage, proposal(stage, id)) == AlteredPartition(
        topic=id.topic_id,
        index=0,
        error=OK,
        leader=1,
        leader_epoch=before.leader_epoch,
        isr=(1, 2, 3),
        partition_epoch=before.partition_epoch + 1,
    )
    assert stage.state(id) == (1, {1, 2, 3})


def test_what_changes_nothing_is_no_record() -> None:
    stage, id = shrunk()
    written = stage.store.end_offset
    same = replace(proposal(stage, id), new_isr=epochs(stage, 2, 1))
    assert alter(stage, same).error is OK
    assert stage.store.end_offset == written


def test_the_requester_must_be_the_process_that_has_the_id() -> None:
    stage, id = shrunk()
    for epoch, sender, error in ((3_000, 1, ErrorCode.stale_broker_epoch), (1, 9, ErrorCode.broker_id_not_registered)):
        request = AlterPartitionRequest(broker_id=sender, broker_epoch=epoch, partitions=(proposal(stage, id),))
        assert stage.ask(request).error is error


def faults(stage: Stage, id: PartitionId) -> list[tuple[dict[str, object], ErrorCode]]:
    """Each breaks one rule; a proposal that breaks several gets the error of the first."""
    now = stage.partition(id)
    return [
        ({"topic": UUID(int=9)}, ErrorCode.unknown_topic_id),
        ({"index": 7}, ErrorCode.unknown_topic_or_partition),
        ({"leader_epoch": now.leader_epoch + 1}, ErrorCode.not_controller),
        ({"partition_epoch": now.partition_epoch + 1}, ErrorCode.not_controller),
        ({"leader_epoch": now.leader_epoch - 1}, ErrorCode.fenced_leader_epoch),
        ({}, ErrorCode.invalid_request),  # from broker 2, which does not lead
        ({"partition_epoch": now.partition_epoch - 1}, ErrorCode.invalid_update_version),
        ({"new_isr": (*epochs(stage, 1, 2, 3), (4, -1))}, ErrorCode.invalid_request),
        ({"recovery": 1}, ErrorCode.invalid_request),
        ({"new_isr": ((1, -1), (2, -1), (3, 1))}, ErrorCode.ineligible_replica),
    ]


def test_errors_come_in_kafkas_order() -> None:
    stage, id = shrunk()
    good, rules = proposal(stage, id), faults(stage, id)
    for position, (fault, error) in enumerate(rules):
        asked = good
        for later, _ in reversed(rules[position:]):
            asked = replace(asked, **{name: value for name, value in later.items() if later is not fault})  # type: ignore[arg-type]
        asked = replace(asked, **fault)  # type: ignore[arg-type]
        not_leading = any(not later for later, _ in rules[position:])
        assert alter(stage, asked, sender=2 if not_leading else 1).error is error, error
    assert alter(stage, good).error is OK


@pytest.mark.parametrize("new_isr", [((1, -1), (1, -1)), ((2, -1),), (), ((1, -1), (9, -1))])
def test_an_isr_is_a_set_of_replicas_with_the_leader(new_isr: tuple[tuple[int, int], ...]) -> None:
    stage, id = shrunk()
    assert alter(stage, replace(proposal(stage, id), new_isr=new_isr)).error is ErrorCode.invalid_request


def test_by_name_before_version_2() -> None:
    stage, id = shrunk()
    named = replace(proposal(stage, id), topic="t", new_isr=((1, -1), (2, -1), (3, -1)))
    unknown = replace(named, topic="u")
    assert alter(stage, unknown, version=0).error is ErrorCode.unknown_topic_or_partition
    stage.beat(3, BrokerState.FENCED)
    assert alter(stage, named, version=1).error is ErrorCode.operation_not_attempted
    stage.beat(3)
    assert alter(stage, named, version=0).error is OK


@pytest.mark.parametrize("target", [BrokerState.FENCED, BrokerState.SHUTDOWN])
def test_kip_841_fenced_and_stopping_brokers_are_not_eligible(target: BrokerState) -> None:
    for off, error in (([], ErrorCode.ineligible_replica), ([Protection.ISR_ELIGIBILITY_AT_CONTROLLER], OK)):
        stage, id = shrunk(Protections(off))
        stage.beat(3, target)
        assert alter(stage, proposal(stage, id)).error is error


def test_kip_903_a_broker_that_was_restarted_is_not_eligible_by_what_its_former_life_had() -> None:
    """KAFKA-14139."""
    for off, error in (([], ErrorCode.ineligible_replica), ([Protection.BROKER_EPOCH_AT_CONTROLLER], OK)):
        stage, id = shrunk(Protections(off))
        asked = proposal(stage, id)
        stage.register(3, incarnation=999)
        stage.beat(3)
        assert asked.partition_epoch == stage.partition(id).partition_epoch
        assert alter(stage, asked).error is error
        assert (3 in stage.partition(id).isr) == bool(off)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_unknown_epoch_is_not_checked(version: int) -> None:
    """KIP-903: -1 if the sender's level has none; so below 3.5-IV1 a broker that was restarted gets in (KAFKA-14139)."""
    stage, id = shrunk()
    named = id.topic_id if version >= 2 else "t"
    asked = replace(proposal(stage, id), topic=named, new_isr=((1, -1), (2, -1), (3, -1)))
    stage.register(3, incarnation=999)
    stage.beat(3)
    assert alter(stage, asked, version=version).error is OK


def test_the_second_of_two_proposals_is_too_late() -> None:
    stage, id = shrunk()
    asked = proposal(stage, id)
    request = AlterPartitionRequest(broker_id=1, broker_epoch=epochs(stage, 1)[0][1], partitions=(asked,))
    first, second = stage.begin(request), stage.begin(request)
    assert stage.answers.keys().isdisjoint({first, second})
    stage.commit()
    assert stage.answers[first].partitions[0].error is OK
    assert stage.answers[second].partitions[0].error is ErrorCode.invalid_update_version


def test_recovery_ends_with_the_first_proposal() -> None:
    """KIP-704."""
    stage = Stage()
    stage.brokers(1, 2)
    id = stage.topic("t", (1, 2), unclean_leader_election_enable="true")
    stage.beat(2, BrokerState.FENCED)
    stage.beat(2)
    stage.beat(1, BrokerState.FENCED)
    now = stage.partition(id)
    assert (now.leader, now.recovery) == (2, 1)
    asked = ProposedIsr(
        topic=id.topic_id,
        index=0,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr=epochs(stage, 2),
    )
    stage.beat(1)
    both = replace(asked, new_isr=epochs(stage, 1, 2), recovery=1)
    assert alter(stage, both, sender=2).error is ErrorCode.invalid_request
    assert alter(stage, replace(asked, recovery=1), sender=2).error is OK
    assert stage.partition(id).recovery == 1
    assert alter(stage, asked, sender=2).recovery == 0
    assert stage.partition(id).recovery == 0
