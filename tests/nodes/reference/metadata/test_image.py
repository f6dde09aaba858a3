"""The image: records in, state and notices out; state -> records -> the same state."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.reference.metadata.entities import PartitionId
from nodes.reference.metadata.image import (
    TOPIC,
    BrokerChanged,
    ConfigChanged,
    Image,
    PartitionChanged,
    TopicChanged,
    TopicRemoved,
)
from nodes.reference.metadata.schema import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    Record,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from nodes.reference.partition.view import BrokerView, PartitionView

ID = UUID(int=7)


def registered(broker: int, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker, incarnation_id=UUID(int=epoch), broker_epoch=epoch, end_points=(), features=(), rack="r"
    )


def partition(number: int = 0, topic: UUID = ID) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic,
        replicas=(1, 2, 3),
        isr=(1, 2),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
    )


def test_changes_are_told_and_epochs_grow() -> None:
    image, id = Image(), PartitionId(ID, 0)
    assert image.apply(TopicRecord(name="t", topic_id=ID)) == TopicChanged(ID, "t")
    assert image.apply(partition()) == PartitionChanged(id)
    assert image.apply(PartitionChangeRecord(partition_id=0, topic_id=ID, isr=(2,))) == PartitionChanged(id)
    assert image.partition(id).view == PartitionView(  # type: ignore[union-attr]
        replicas=(1, 2, 3), isr=frozenset({2}), leader=1, leader_epoch=0, partition_epoch=1
    )
    image.apply(PartitionChangeRecord(partition_id=0, topic_id=ID, leader=-1))
    changed = image.partition(id)
    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (-1, 1, 2)
    image.apply(ConfigRecord(resource_type=TOPIC, resource_name="t", name="a", value="1"))
    assert image.apply(RemoveTopicRecord(topic_id=ID)) == TopicRemoved(ID, "t", (0,))
    assert image == Image()


def test_registrations() -> None:
    image = Image()
    assert image.apply(registered(1, 20)) == BrokerChanged(1)
    assert image.broker_views == {1: BrokerView(epoch=20, fenced=True)}
    image.apply(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, fenced=-1))
    assert image.active(1)
    image.apply(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, in_controlled_shutdown=1))
    assert not image.brokers[1].fenced
    assert not image.active(1)
    image.apply(registered(1, 30))
    assert image.broker_views == {1: BrokerView(epoch=30, fenced=True)}
    image.apply(UnfenceBrokerRecord(id=1, epoch=30))
    assert image.active(1)
    image.apply(FenceBrokerRecord(id=1, epoch=30))
    assert not image.active(1)
    image.apply(UnregisterBrokerRecord(broker_id=1, broker_epoch=30))
    assert image == Image()


def test_settings_of_all_brokers_count_where_a_topic_has_none() -> None:
    image = Image()
    change = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")
    assert image.apply(change) == ConfigChanged(4, "", "min.insync.replicas")
    assert image.topic_config("t", "min.insync.replicas") == "2"
    image.apply(ConfigRecord(resource_type=TOPIC, resource_name="t", name="min.insync.replicas", value="1"))
    assert image.topic_config("t", "min.insync.replicas") == "1"
    image.apply(ConfigRecord(resource_type=TOPIC, resource_name="t", name="min.insync.replicas", value=None))
    image.apply(ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value=None))
    assert image == Image()


brokers, topics, numbers = st.integers(1, 3), st.integers(1, 3).map(lambda number: UUID(int=number)), st.integers(0, 2)
names, some = st.sampled_from(("a", "b")), st.lists(st.integers(1, 3), unique=True).map(tuple)
records: st.SearchStrategy[Record] = st.one_of(
    st.builds(registered, brokers, st.integers(1, 99)),
    st.builds(
        BrokerRegistrationChangeRecord,
        broker_id=brokers,
        broker_epoch=st.just(0),
        fenced=st.integers(-1, 1),
        in_controlled_shutdown=st.integers(0, 1),
    ),
    st.builds(UnregisterBrokerRecord, broker_id=brokers, broker_epoch=st.just(0)),
    st.builds(lambda id: TopicRecord(name=f"t{id.int}", topic_id=id), topics),
    st.builds(partition, numbers, topics),
    st.builds(
        PartitionChangeRecord,
        partition_id=numbers,
        topic_id=topics,
        isr=st.none() | some,
        leader=st.integers(-2, 3),
        replicas=st.none() | some,
        removing_replicas=st.none() | some,
        adding_replicas=st.none() | some,
        leader_recovery_state=st.integers(-1, 1),
    ),
    st.builds(RemoveTopicRecord, topic_id=topics),
    st.builds(ConfigRecord, resource_type=st.just(TOPIC), resource_name=names, name=names, value=st.none() | st.text()),
    st.builds(FeatureLevelRecord, name=names, feature_level=st.integers(0, 3)),
    st.builds(
        ProducerIdsRecord,
        broker_id=st.just(-1),
        broker_epoch=st.just(-1),
        next_producer_id=st.integers(1, 1 << 40),
    ),
    st.builds(
        AccessControlEntryRecord,
        id=topics,
        resource_type=st.just(2),
        resource_name=names,
        pattern_type=st.just(3),
        principal=names,
        host=st.just("*"),
        operation=st.just(2),
        permission_type=st.just(3),
    ),
    st.builds(RemoveAccessControlEntryRecord, id=topics),
    st.builds(
        ClientQuotaRecord,
        entity=st.tuples(st.builds(QuotaEntity, entity_type=st.just("user"), entity_name=st.none() | names)),
        key=names,
        value=st.floats(0, 10),
        remove=st.booleans(),
    ),
)


def applied(sequence: list[Record]) -> Image:
    """Those that the log could have in this order."""
    image = Image()
    for record in sequence:
        try:
            image.apply(record)
        except KeyError:
            continue
    return image


@settings(max_examples=300, deadline=None)
@given(st.lists(records, max_size=40))
def test_a_snapshot_is_the_same_state(sequence: list[Record]) -> None:
    image = applied(sequence)
    assert Image.load(image.values()) == image
    assert Image.load(image.values()).values() == image.values()
    assert len(image.values()) <= len(sequence)


@settings(max_examples=100, deadline=None)
@given(st.lists(records, max_size=30), st.lists(records, max_size=30))
def test_a_copy_is_independent(before: list[Record], after: list[Record]) -> None:
    image = applied(before)
    values, copy = image.values(), image.copy()
    assert copy == image
    for record in after:
        try:
            copy.apply(record)
        except KeyError:
            continue
    assert image.values() == values
