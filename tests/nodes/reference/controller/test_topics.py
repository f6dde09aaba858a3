"""Topics, partitions, configurations and elections, as administrators ask for them."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.controller.broker_messages import (
    OK,
    BrokerRegistrationRequest,
    BrokerState,
    ProposedIsr,
)
from nodes.reference.controller.client_messages import (
    AlterConfigsRequest,
    ConfigChange,
    ConfigOperation,
    CreatedTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    Election,
    ElectionType,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    MorePartitions,
    NewTopic,
    ResourceChanges,
    ResourceConfigs,
)
from nodes.reference.partition.view import NO_LEADER
from tests.nodes.reference.controller.stage import FEATURES, Stage
from tests.nodes.reference.controller.test_isr import alter, epochs


def stage_of(*brokers: int) -> Stage:
    stage = Stage()
    stage.brokers(*brokers)
    return stage


def create(stage: Stage, new: NewTopic, *, validate_only: bool = False) -> CreatedTopic:
    (created,) = stage.ask(CreateTopicsRequest(topics=(new,), validate_only=validate_only)).topics
    assert isinstance(created, CreatedTopic)
    return created


def test_replicas_and_leaders_are_spread() -> None:
    stage = stage_of(1, 2, 3)
    created = create(stage, NewTopic(name="t", partition_count=30, replication_factor=2))
    assert (created.partition_count, created.replication_factor) == (30, 2)
    topic = stage.controller.image.topic("t")
    assert topic is not None
    assert Counter(partition.leader for partition in topic.partitions.values()) == {1: 10, 2: 10, 3: 10}
    for partition in topic.partitions.values():
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_racks_take_turns() -> None:
    stage = Stage()
    for broker in (1, 2, 3, 4):
        stage.ask(
            BrokerRegistrationRequest(
                broker_id=broker,
                cluster_id="k",
                incarnation_id=UUID(int=broker),
                features=FEATURES,
                rack="a" if broker < 3 else "b",
            )
        )
        stage.beat(broker)
    create(stage, NewTopic(name="t", partition_count=8, replication_factor=2))
    topic = stage.controller.image.topic("t")
    assert topic is not None
    for partition in topic.partitions.values():
        assert {replica < 3 for replica in partition.replicas} == {True, False}


def test_fenced_brokers_come_last_and_are_not_in_the_isr() -> None:
    stage = stage_of(1, 2)
    stage.register(3)
    create(stage, NewTopic(name="t", partition_count=4, replication_factor=3))
    topic = stage.controller.image.topic("t")
    assert topic is not None
    for partition in topic.partitions.values():
        assert partition.replicas[-1] == 3
        assert set(partition.isr) == {1, 2}


@pytest.mark.parametrize(
    ("new", "error"),
    [
        (NewTopic(name="", partition_count=1, replication_factor=1), ErrorCode.invalid_topic_exception),
        (NewTopic(name="..", partition_count=1, replication_factor=1), ErrorCode.invalid_topic_exception),
        (NewTopic(name="a/b", partition_count=1, replication_factor=1), ErrorCode.invalid_topic_exception),
        (NewTopic(name="x" * 250, partition_count=1, replication_factor=1), ErrorCode.invalid_topic_exception),
        (NewTopic(name="a_b", partition_count=1, replication_factor=1), ErrorCode.invalid_topic_exception),
        (NewTopic(name="a.b", partition_count=1, replication_factor=1), ErrorCode.topic_already_exists),
        (NewTopic(name="t", partition_count=0, replication_factor=1), ErrorCode.invalid_partitions),
        (NewTopic(name="t", partition_count=1, replication_factor=3), ErrorCode.invalid_replication_factor),
        (NewTopic(name="t", partition_count=1, replication_factor=0), ErrorCode.invalid_replication_factor),
        (NewTopic(name="t", partition_count=1, assignments=((0, (1,)),)), ErrorCode.invalid_request),
        (NewTopic(name="t", assignments=((1, (1,)),)), ErrorCode.invalid_replica_assignment),
        (NewTopic(name="t", assignments=((0, (1, 1)),)), ErrorCode.invalid_replica_assignment),
        (NewTopic(name="t", assignments=((0, ()),)), ErrorCode.invalid_replica_assignment),
        (NewTopic(name="t", assignments=((0, (9,)),)), ErrorCode.invalid_replica_assignment),
        (NewTopic(name="t", assignments=((0, (1, 2)), (1, (1,)))), ErrorCode.invalid_replica_assignment),
        (NewTopic(name="t", configs=(("nonsense", "1"),)), ErrorCode.invalid_config),
        (NewTopic(name="t", configs=(("min.insync.replicas", "0"),)), ErrorCode.invalid_config),
        (NewTopic(name="t", configs=(("retention.ms", "soon"),)), ErrorCode.invalid_config),
        (NewTopic(name="t", configs=(("cleanup.policy", "burn"),)), ErrorCode.invalid_config),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_created(new: NewTopic, error: ErrorCode) -> None:
    stage = stage_of(1, 2)
    stage.topic("a.b", (1,))
    written = stage.store.end_offset
    created = create(stage, new)
    assert created.error is error
    assert created.message
    assert stage.store.end_offset == written


def test_no_topic_without_an_active_broker() -> None:
    stage = Stage()
    stage.register(1)
    assert create(stage, NewTopic(name="t")).error is ErrorCode.invalid_replication_factor
    assigned = NewTopic(name="t", assignments=((0, (1,)),))
    assert create(stage, assigned).error is ErrorCode.invalid_replica_assignment


def test_a_topic_that_is_named_twice_is_created_not_at_all() -> None:
    stage = stage_of(1)
    new = NewTopic(name="t", partition_count=1, replication_factor=1)
    response = stage.ask(CreateTopicsRequest(topics=(new, new)))
    assert [topic.error for topic in response.topics] == [ErrorCode.invalid_request] * 2


def test_validation_alone_writes_nothing() -> None:
    stage = stage_of(1)
    written = stage.store.end_offset
    assert create(stage, NewTopic(name="t"), validate_only=True).error is OK
    more = MorePartitions(name="t", count=3)
    assert stage.ask(CreatePartitionsRequest(topics=(more,))).topics[0].error is ErrorCode.unknown_topic_or_partition
    assert stage.store.end_offset == written
    assert stage.controller.pending == stage.controller.image


def test_topics_are_deleted_by_name_and_by_id() -> None:
    stage = stage_of(1)
    first, second = stage.topic("t", (1,)), stage.topic("u", (1,), retention_ms="5")
    response = stage.ask(DeleteTopicsRequest(topics=("t", second.topic_id, "v", UUID(int=9))))
    assert [(topic.name, topic.error) for topic in response.topics] == [
        ("t", OK),
        ("u", OK),
        ("v", ErrorCode.unknown_topic_or_partition),
        (None, ErrorCode.unknown_topic_id),
    ]
    assert stage.controller.image.topics == {}
    assert stage.controller.image.configs == {}
    assert stage.topic("t", (1,)).topic_id != first.topic_id


def test_partitions_can_only_be_added() -> None:
    stage = stage_of(1, 2)
    stage.topic("t", (1, 2))

    def grow(count: int, *assignments: tuple[int, ...]) -> ErrorCode:
        more = MorePartitions(name="t", count=count, assignments=assignments or None)
        error = stage.ask(CreatePartitionsRequest(topics=(more,))).topics[0].error
        assert isinstance(error, ErrorCode)
        return error

    assert grow(1) is ErrorCode.invalid_partitions
    assert grow(3, (1, 2)) is ErrorCode.invalid_replica_assignment
    assert grow(2, (1,)) is ErrorCode.invalid_replica_assignment
    assert grow(2, (2, 1)) is OK
    assert grow(4) is OK
    topic = stage.controller.image.topic("t")
    assert topic is not None
    assert [topic.partitions[number].leader for number in range(2)] == [1, 2]
    assert all(len(partition.isr) == 2 for partition in topic.partitions.values())


def change(
    stage: Stage,
    name: str,
    operation: ConfigOperation,
    value: str | None = None,
    *,
    resource: tuple[int, str] = (2, "t"),
) -> ErrorCode:
    changes = (ConfigChange(name=name, operation=operation, value=value),)
    changed = ResourceChanges(resource_type=resource[0], resource_name=resource[1], changes=changes)
    (altered,) = stage.ask(IncrementalAlterConfigsRequest(resources=(changed,))).resources
    assert isinstance(altered.error, ErrorCode)
    return altered.error


def test_settings_are_changed_one_by_one() -> None:
    """KIP-339."""
    stage = stage_of(1)
    stage.topic("t", (1,))
    assert change(stage, "retention.ms", ConfigOperation.SET, "5") is OK
    assert change(stage, "cleanup.policy", ConfigOperation.APPEND, "compact") is OK
    assert change(stage, "cleanup.policy", ConfigOperation.APPEND, "delete,compact") is OK
    assert stage.controller.image.config(2, "t") == {"retention.ms": "5", "cleanup.policy": "compact,delete"}
    assert change(stage, "cleanup.policy", ConfigOperation.SUBTRACT, "delete") is OK
    assert change(stage, "retention.ms", ConfigOperation.DELETE) is OK
    assert stage.controller.image.config(2, "t") == {"cleanup.policy": "compact"}
    assert change(stage, "retention.ms", ConfigOperation.APPEND, "5") is ErrorCode.invalid_config
    assert change(stage, "retention.ms", ConfigOperation.SET) is ErrorCode.invalid_request
    missing = ErrorCode.unknown_topic_or_partition
    assert change(stage, "retention.ms", ConfigOperation.SET, "5", resource=(2, "u")) is missing
    assert change(stage, "x", ConfigOperation.SET, "5", resource=(4, "one")) is ErrorCode.invalid_request
    assert change(stage, "x", ConfigOperation.SET, "5", resource=(9, "")) is ErrorCode.invalid_request
    assert change(stage, "x", ConfigOperation.SET, "5", resource=(4, "1")) is OK


def test_all_settings_at_once() -> None:
    stage = stage_of(1)
    stage.topic("t", (1,), retention_ms="5")
    wanted = ResourceConfigs(resource_type=2, resource_name="t", configs=(("segment.ms", "9"), ("flush.ms", None)))
    (altered,) = stage.ask(AlterConfigsRequest(resources=(wanted,))).resources
    assert altered.error is OK
    assert stage.controller.image.config(2, "t") == {"segment.ms": "9"}
    (altered,) = stage.ask(AlterConfigsRequest(resources=(wanted,), validate_only=True)).resources
    bad = ResourceConfigs(resource_type=2, resource_name="t", configs=(("segment.ms", "9"), ("flush.ms", "x")))
    (altered,) = stage.ask(AlterConfigsRequest(resources=(bad,))).resources
    assert altered.error is ErrorCode.invalid_config
    assert "flush.ms" in (altered.message or "")
    assert stage.controller.image.config(2, "t") == {"segment.ms": "9"}


def test_allowing_unclean_elections_elects() -> None:
    stage = stage_of(1, 2)
    id = stage.topic("t", (1, 2))
    stage.beat(2, BrokerState.FENCED)
    stage.beat(2)
    stage.beat(1, BrokerState.FENCED)
    assert stage.state(id) == (NO_LEADER, {1})
    assert change(stage, "unclean.leader.election.enable", ConfigOperation.SET, "true", resource=(4, "")) is OK
    assert stage.state(id) == (2, {2})


def elect(stage: Stage, election: ElectionType, *partitions: tuple[str, int]) -> list[tuple[int, ErrorCode]]:
    outcomes: tuple[Election, ...] = stage.ask(
        ElectLeadersRequest(election=election, partitions=partitions or None)
    ).partitions
    return [(outcome.index, outcome.error) for outcome in outcomes]


def test_preferred_leaders() -> None:
    stage = stage_of(1, 2)
    id = stage.topic("t", (1, 2), (2, 1))
    assert elect(stage, ElectionType.PREFERRED) == []
    assert elect(stage, ElectionType.PREFERRED, ("t", 0), ("t", 9)) == [
        (0, ErrorCode.election_not_needed),
        (9, ErrorCode.unknown_topic_or_partition),
    ]
    stage.beat(1, BrokerState.FENCED)
    stage.beat(1)
    assert stage.state(id) == (2, {2})
    unavailable = ErrorCode.preferred_leader_not_available
    assert elect(stage, ElectionType.PREFERRED, ("t", 0)) == [(0, unavailable)]


def test_a_preferred_leader_in_the_isr_gets_the_partition_back() -> None:
    stage = stage_of(1, 2)
    stage.beat(1, BrokerState.FENCED)
    id = stage.topic("t", (1, 2))
    assert stage.state(id) == (2, {2})
    stage.beat(1)
    now = stage.partition(id)
    asked = ProposedIsr(
        topic=id.topic_id,
        index=0,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr=epochs(stage, 1, 2),
    )
    assert alter(stage, asked, sender=2).error is OK
    assert elect(stage, ElectionType.PREFERRED) == [(0, OK)]
    assert stage.state(id) == (1, {1, 2})
    assert stage.partition(id).leader_epoch == now.leader_epoch + 1


def test_unclean_elections_on_demand() -> None:
    """KIP-460: whatever the topic allows, but only where nobody leads."""
    stage = stage_of(1, 2)
    id = stage.topic("t", (1, 2))
    assert elect(stage, ElectionType.UNCLEAN, ("t", 0)) == [(0, ErrorCode.election_not_needed)]
    stage.beat(2, BrokerState.FENCED)
    stage.beat(1, BrokerState.FENCED)
    assert elect(stage, ElectionType.UNCLEAN, ("t", 0)) == [(0, ErrorCode.eligible_leaders_not_available)]
    stage.beat(2)
    assert stage.state(id) == (NO_LEADER, {1})
    assert elect(stage, ElectionType.UNCLEAN) == [(0, OK)]
    assert stage.state(id) == (2, {2})
