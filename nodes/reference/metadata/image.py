"""The cluster's state as the metadata log tells it, for controllers and brokers alike (KIP-631, Metadata).

    image = Image()
    image.apply(TopicRecord(name="t", topic_id=id))                  TopicChanged(id, "t")
    image.apply(PartitionRecord(partition_id=0, topic_id=id, ...))   PartitionChanged(PartitionId(id, 0))
    image.partition(PartitionId(id, 0)).view                         what partition/view.py shows to a replica
    image.broker_views                                               {1: BrokerView(epoch=120), ...}
    Image.load(image.values()) == image                              a snapshot, in as few records as it takes

`apply` is the only way to change one, and it returns a notice of what changed, which is all that a broker has to look at again. What an
image holds is immutable (`entities.py`); `copy` makes an independent one, which is how a controller has a state that is a little
ahead of what is committed. Records are applied as they come: whether they make sense was decided by whoever wrote them, so an image
raises KeyError for a record about something it does not know, which only a broken log explains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from nodes.reference.metadata.entities import Broker, Partition, PartitionId, Topic
from nodes.reference.metadata.features import METADATA_VERSION, OLDEST
from nodes.reference.metadata.records import decode, encode
from nodes.reference.metadata.schema import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from nodes.reference.partition.view import BrokerView

TOPIC: Final = 2  # resource types of configurations
BROKER: Final = 4
EVERY_BROKER: Final = ""


class BrokerChanged(NamedTuple):
    """Registered, unregistered, fenced, stopping: look at `image.brokers.get(id)`."""

    id: int


class TopicChanged(NamedTuple):
    """Created."""

    id: UUID
    name: str


class TopicRemoved(NamedTuple):
    """With the partitions that it had."""

    id: UUID
    name: str
    partitions: tuple[int, ...]


class PartitionChanged(NamedTuple):
    id: PartitionId


class ConfigChanged(NamedTuple):
    resource_type: int
    resource_name: str
    name: str


class FeatureChanged(NamedTuple):
    name: str
    level: int


class ProducerIdsChanged(NamedTuple):
    next_producer_id: int


class SecurityChanged(NamedTuple):
    """An ACL or a quota; kept and handed on, enforced by nobody here."""


Notice = (
    BrokerChanged
    | TopicChanged
    | TopicRemoved
    | PartitionChanged
    | ConfigChanged
    | FeatureChanged
    | ProducerIdsChanged
    | SecurityChanged
)
Resource = tuple[int, str]  # type, name
_Value = TypeVar("_Value")
_Quota = tuple[tuple[str, str | None], ...]


@dataclass
class Image:
    """Read it; change it by `apply` only."""

    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[UUID, Topic] = field(default_factory=dict)
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    configs: dict[Resource, Mapping[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: dict[UUID, AccessControlEntryRecord] = field(default_factory=dict)
    quotas: dict[tuple[_Quota, str], ClientQuotaRecord] = field(default_factory=dict)

    # Reading

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, OLDEST)

    @property
    def broker_views(self) -> dict[int, BrokerView]:
        """For `nodes.reference.partition`: only those that are registered."""
        return {id: broker.view for id, broker in self.brokers.items()}

    def topic(self, name: str) -> Topic | None:
        id = self.topic_ids.get(name)
        return None if id is None else self.topics[id]

    def partition(self, id: PartitionId) -> Partition | None:
        topic = self.topics.get(id.topic_id)
        return None if topic is None else topic.partitions.get(id.number)

    def partitions(self) -> Iterator[tuple[PartitionId, Partition]]:
        for topic in self.topics.values():
            for index, partition in topic.partitions.items():
                yield PartitionId(topic.id, index), partition

    def partitions_of(self, broker: int) -> Iterator[tuple[PartitionId, Partition]]:
        """Those of which a broker has a replica."""
        return ((id, partition) for id, partition in self.partitions() if broker in partition.replicas)

    def active(self, broker: int) -> bool:
        """KIP-841: registered, neither fenced nor stopping."""
        known = self.brokers.get(broker)
        return known is not None and known.active

    def config(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """What is set for a resource itself."""
        return self.configs.get((resource_type, resource_name), {})

    def topic_config(self, topic: str, name: str) -> str | None:
        """What counts for a topic: its own setting, else that of all brokers; None: the broker's file, else the default."""
        own = self.config(TOPIC, topic).get(name)
        return self.config(BROKER, EVERY_BROKER).get(name) if own is None else own

    # Changing

    def apply(self, record: Record) -> Notice | None:
        """None if nothing changed that anyone could see."""
        match record:
            case PartitionChangeRecord():
                return self._partition_changed(record)
            case PartitionRecord(partition_id=index, topic_id=topic_id):
                self.topics[topic_id].partitions[index] = Partition.of(record)
                return PartitionChanged(PartitionId(topic_id, index))
            case TopicRecord(name=name, topic_id=topic_id):
                self.topics[topic_id] = Topic(topic_id, name)
                self.topic_ids[name] = topic_id
                return TopicChanged(topic_id, name)
            case RemoveTopicRecord(topic_id=topic_id):
                return self._topic_removed(topic_id)
            case ConfigRecord():
                return self._configured(record)
            case FeatureLevelRecord(name=name, feature_level=level):
                self.features = {**self.features, name: level} if level else _without(self.features, name)
                return FeatureChanged(name, level)
            case ProducerIdsRecord(next_producer_id=next_producer_id):
                self.next_producer_id = next_producer_id
                return ProducerIdsChanged(next_producer_id)
            case NoOpRecord():
                return None
            case ClientQuotaRecord() | AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
                return self._secured(record)
            case _:
                return self._broker_changed(record)

    def _broker_changed(
        self,
        record: RegisterBrokerRecord
        | UnregisterBrokerRecord
        | FenceBrokerRecord
        | UnfenceBrokerRecord
        | BrokerRegistrationChangeRecord,
    ) -> BrokerChanged:
        match record:
            case RegisterBrokerRecord(broker_id=id):
                self.brokers[id] = Broker.of(record)
            case UnregisterBrokerRecord(broker_id=id):
                del self.brokers[id]
            case FenceBrokerRecord(id=id):
                self.brokers[id] = replace(self.brokers[id], fenced=True)
            case UnfenceBrokerRecord(id=id):
                self.brokers[id] = replace(self.brokers[id], fenced=False)
            case BrokerRegistrationChangeRecord(broker_id=id):
                broker = self.brokers[id]
                self.brokers[id] = replace(
                    broker,
                    fenced=record.fenced > 0 if record.fenced else broker.fenced,
                    in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
                )
        return BrokerChanged(id)

    def _partition_changed(self, record: PartitionChangeRecord) -> PartitionChanged:
        partitions = self.topics[record.topic_id].partitions
        partitions[record.partition_id] = partitions[record.partition_id].changed(record)
        return PartitionChanged(PartitionId(record.topic_id, record.partition_id))

    def _topic_removed(self, topic_id: UUID) -> TopicRemoved:
        topic = self.topics.pop(topic_id)
        del self.topic_ids[topic.name]
        self.configs.pop((TOPIC, topic.name), None)
        return TopicRemoved(topic_id, topic.name, tuple(topic.partitions))

    def _configured(self, record: ConfigRecord) -> ConfigChanged:
        resource = (record.resource_type, record.resource_name)
        settings = self.configs.get(resource, {})
        if record.value is not None:
            self.configs[resource] = {**settings, record.name: record.value}
        elif left := _without(settings, record.name):
            self.configs[resource] = left
        else:
            self.configs.pop(resource, None)
        return ConfigChanged(record.resource_type, record.resource_name, record.name)

    def _secured(
        self, record: ClientQuotaRecord | AccessControlEntryRecord | RemoveAccessControlEntryRecord
    ) -> SecurityChanged:
        match record:
            case AccessControlEntryRecord(id=id):
                self.acls[id] = record
            case RemoveAccessControlEntryRecord(id=id):
                del self.acls[id]
            case ClientQuotaRecord(key=key, remove=remove):
                of = (tuple((entity.entity_type, entity.entity_name) for entity in record.entity), key)
                if remove:
                    self.quotas.pop(of, None)
                else:
                    self.quotas[of] = record
        return SecurityChanged()

    # As a whole

    def copy(self) -> Image:
        """Independent of this one."""
        return Image(
            brokers=dict(self.brokers),
            topics={id: Topic(topic.id, topic.name, dict(topic.partitions)) for id, topic in self.topics.items()},
            topic_ids=dict(self.topic_ids),
            configs=dict(self.configs),
            features=self.features,
            next_producer_id=self.next_producer_id,
            acls=dict(self.acls),
            quotas=dict(self.quotas),
        )

    def records(self) -> Iterator[Record]:
        """The fewest that make this image; the feature levels first, because they say how to read the rest. Their order depends on
        nothing but the state, so two nodes with the same state write the same snapshot.
        """
        for name, level in sorted(self.features.items()):
            yield FeatureLevelRecord(name=name, feature_level=level)
        for _, broker in sorted(self.brokers.items()):
            yield broker.record()
        for _, topic in sorted(self.topics.items()):
            yield TopicRecord(name=topic.name, topic_id=topic.id)
            for index, partition in sorted(topic.partitions.items()):
                yield partition.record(PartitionId(topic.id, index))
        for (resource_type, resource_name), settings in sorted(self.configs.items()):
            for name, value in sorted(settings.items()):
                yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
        if self.next_producer_id:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
        yield from (acl for _, acl in sorted(self.acls.items()))
        yield from (quota for _, quota in sorted(self.quotas.items(), key=lambda item: repr(item[0])))

    def values(self) -> tuple[bytes, ...]:
        """`StateMachine.snapshot`."""
        return tuple(encode(record) for record in self.records())

    @classmethod
    def load(cls, values: Iterable[bytes]) -> Image:
        """`StateMachine.load`: what a snapshot's values say."""
        image = cls()
        for value in values:
            image.apply(decode(value))
        return image


def _without(mapping: Mapping[str, _Value], name: str) -> dict[str, _Value]:
    return {key: value for key, value in mapping.items() if key != name}
