"""Each request of the controller as the values of Kafka's fields, and back; entities of any version are read, so a field may be missing."""

from __future__ import annotations

from itertools import groupby
from typing import Any
from uuid import UUID

from nodes.reference.controller.broker_messages import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerState,
    ControllerHeartbeatRequest,
    ProposedIsr,
    UnregisterBrokerRequest,
)
from nodes.reference.controller.client_messages import (
    AlterConfigsRequest,
    ConfigChange,
    ConfigOperation,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectionType,
    ElectLeadersRequest,
    FeatureUpdate,
    IncrementalAlterConfigsRequest,
    MorePartitions,
    NewTopic,
    ResourceChanges,
    ResourceConfigs,
    UpdateFeaturesRequest,
    UpgradeType,
)
from nodes.reference.controller.entities import MINUTE, Values
from nodes.reference.metadata.schema import Endpoint, SupportedFeature

NO_ID = UUID(int=0)  # kio reads it as None


def register(request: BrokerRegistrationRequest) -> Values:
    return {
        "broker_id": request.broker_id,
        "cluster_id": request.cluster_id,
        "incarnation_id": request.incarnation_id,
        "listeners": [
            {
                "name": endpoint.name,
                "host": endpoint.host,
                "port": endpoint.port,
                "security_protocol": endpoint.security_protocol,
            }
            for endpoint in request.endpoints
        ],
        "features": [
            {
                "name": feature.name,
                "min_supported_version": feature.min_supported_version,
                "max_supported_version": feature.max_supported_version,
            }
            for feature in request.features
        ],
        "rack": request.rack,
    }


def read_register(entity: Any) -> BrokerRegistrationRequest:
    if entity.incarnation_id is None:
        raise ValueError("a registration without an incarnation id")
    return BrokerRegistrationRequest(
        broker_id=entity.broker_id,
        cluster_id=entity.cluster_id,
        incarnation_id=entity.incarnation_id,
        endpoints=tuple(
            Endpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in entity.listeners
        ),
        features=tuple(
            SupportedFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in entity.features
        ),
        rack=entity.rack,
    )


def heartbeat(request: BrokerHeartbeatRequest) -> Values:
    return {
        "target_state": int(request.target),
        "broker_id": request.broker_id,
        "broker_epoch": request.broker_epoch,
        "lease_start_time_ms": request.lease_start_ms,
        "cur_metadata_offset": request.metadata_offset,
    }


def read_heartbeat(entity: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=entity.broker_id,
        broker_epoch=entity.broker_epoch,
        target=BrokerState(entity.target_state),
        metadata_offset=entity.cur_metadata_offset,
        lease_start_ms=entity.lease_start_time_ms,
    )


def unregister(request: UnregisterBrokerRequest) -> Values:
    return {"broker_id": request.broker_id}


def read_unregister(entity: Any) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(broker_id=entity.broker_id)


def alter_partitions(request: AlterPartitionRequest) -> Values:
    by_topic: dict[UUID | str, list[Values]] = {}
    for proposed in request.partitions:
        by_topic.setdefault(proposed.topic, []).append(_proposed(proposed))
    return {
        "broker_id": request.broker_id,
        "broker_epoch": request.broker_epoch,
        "topics": [{"topic_id": topic, "name": topic, "partitions": asked} for topic, asked in by_topic.items()],
    }


def _proposed(proposed: ProposedIsr) -> Values:
    members = tuple(member for member, _ in proposed.new_isr)
    with_epochs = [{"broker_id": member, "broker_epoch": epoch} for member, epoch in proposed.new_isr]
    return {
        "partition_index": proposed.index,
        "leader_epoch": proposed.leader_epoch,
        "new_isr": members,
        "new_isr_with_epochs": with_epochs,
        "leader_recovery_state": proposed.recovery,
        "partition_epoch": proposed.partition_epoch,
        "current_isr_version": proposed.partition_epoch,
    }


def read_alter_partitions(entity: Any) -> AlterPartitionRequest:
    version = int(type(entity).__version__)
    return AlterPartitionRequest(
        version=version,
        broker_id=entity.broker_id,
        broker_epoch=entity.broker_epoch,
        partitions=tuple(
            ProposedIsr(
                topic=(topic.topic_id or NO_ID) if version >= 2 else topic.name,
                index=asked.partition_index,
                leader_epoch=asked.leader_epoch,
                partition_epoch=asked.partition_epoch if version >= 1 else asked.current_isr_version,
                new_isr=tuple((member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs)
                if version >= 3
                else tuple((member, -1) for member in asked.new_isr),
                recovery=getattr(asked, "leader_recovery_state", 0),
            )
            for topic in entity.topics
            for asked in topic.partitions
        ),
    )


def allocate(request: AllocateProducerIdsRequest) -> Values:
    return {"broker_id": request.broker_id, "broker_epoch": request.broker_epoch}


def read_allocate(entity: Any) -> AllocateProducerIdsRequest:
    return AllocateProducerIdsRequest(broker_id=entity.broker_id, broker_epoch=entity.broker_epoch)


def controller_heartbeat(request: ControllerHeartbeatRequest) -> Values:
    return {"controller_id": request.controller_id, "last_snapshot_offset": request.last_snapshot_offset}


def read_controller_heartbeat(entity: Any) -> ControllerHeartbeatRequest:
    return ControllerHeartbeatRequest(
        controller_id=entity.controller_id, last_snapshot_offset=entity.last_snapshot_offset
    )


def create_topics(request: CreateTopicsRequest) -> Values:
    return {
        "topics": [
            {
                "name": topic.name,
                "num_partitions": topic.partition_count,
                "replication_factor": topic.replication_factor,
                "assignments": [
                    {"partition_index": index, "broker_ids": replicas} for index, replicas in topic.assignments
                ],
                "configs": [{"name": name, "value": value} for name, value in topic.configs],
            }
            for topic in request.topics
        ],
        "timeout": MINUTE,
        "validate_only": request.validate_only,
    }


def read_create_topics(entity: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(
            NewTopic(
                name=topic.name,
                partition_count=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=tuple(
                    (assigned.partition_index, tuple(assigned.broker_ids)) for assigned in topic.assignments
                ),
                configs=tuple((config.name, config.value) for config in topic.configs),
            )
            for topic in entity.topics
        ),
        validate_only=entity.validate_only,
    )


def delete_topics(request: DeleteTopicsRequest) -> Values:
    return {
        "topics": [
            {"name": None, "topic_id": topic} if isinstance(topic, UUID) else {"name": topic, "topic_id": None}
            for topic in request.topics
        ],
        "timeout": MINUTE,
    }


def read_delete_topics(entity: Any) -> DeleteTopicsRequest:
    if hasattr(entity, "topic_names"):
        return DeleteTopicsRequest(topics=tuple(entity.topic_names))
    return DeleteTopicsRequest(
        topics=tuple(topic.topic_id or NO_ID if topic.name is None else topic.name for topic in entity.topics)
    )


def create_partitions(request: CreatePartitionsRequest) -> Values:
    return {
        "topics": [
            {
                "name": topic.name,
                "count": topic.count,
                "assignments": None
                if topic.assignments is None
                else [{"broker_ids": replicas} for replicas in topic.assignments],
            }
            for topic in request.topics
        ],
        "timeout": MINUTE,
        "validate_only": request.validate_only,
    }


def read_create_partitions(entity: Any) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=tuple(
            MorePartitions(
                name=topic.name,
                count=topic.count,
                assignments=None
                if topic.assignments is None
                else tuple(tuple(assigned.broker_ids) for assigned in topic.assignments),
            )
            for topic in entity.topics
        ),
        validate_only=entity.validate_only,
    )


def alter_configs(request: AlterConfigsRequest) -> Values:
    return {
        "resources": [
            {
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
                "configs": [{"name": name, "value": value} for name, value in resource.configs],
            }
            for resource in request.resources
        ],
        "validate_only": request.validate_only,
    }


def read_alter_configs(entity: Any) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=tuple(
            ResourceConfigs(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=tuple((config.name, config.value) for config in resource.configs),
            )
            for resource in entity.resources
        ),
        validate_only=entity.validate_only,
    )


def incremental_alter_configs(request: IncrementalAlterConfigsRequest) -> Values:
    return {
        "resources": [
            {
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
                "configs": [
                    {"name": change.name, "config_operation": int(change.operation), "value": change.value}
                    for change in resource.changes
                ],
            }
            for resource in request.resources
        ],
        "validate_only": request.validate_only,
    }


def read_incremental_alter_configs(entity: Any) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=tuple(
            ResourceChanges(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                changes=tuple(
                    ConfigChange(
                        name=config.name, operation=ConfigOperation(config.config_operation), value=config.value
                    )
                    for config in resource.configs
                ),
            )
            for resource in entity.resources
        ),
        validate_only=entity.validate_only,
    )


def elect_leaders(request: ElectLeadersRequest) -> Values:
    asked = request.partitions
    return {
        "election_type": int(request.election),
        "topic_partitions": None
        if asked is None
        else [
            {"topic": topic, "partitions": tuple(index for _, index in of_topic)}
            for topic, of_topic in groupby(asked, key=lambda partition: partition[0])
        ],
        "timeout": MINUTE,
    }


def read_elect_leaders(entity: Any) -> ElectLeadersRequest:
    asked = entity.topic_partitions
    return ElectLeadersRequest(
        election=ElectionType(getattr(entity, "election_type", ElectionType.PREFERRED)),
        partitions=None
        if asked is None
        else tuple((topic.topic, index) for topic in asked for index in topic.partitions),
    )


def update_features(request: UpdateFeaturesRequest) -> Values:
    return {
        "timeout": MINUTE,
        "feature_updates": [
            {"feature": update.name, "max_version_level": update.level, "upgrade_type": int(update.upgrade)}
            for update in request.updates
        ],
        "validate_only": request.validate_only,
    }


def read_update_features(entity: Any) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        updates=tuple(
            FeatureUpdate(name=update.feature, level=update.max_version_level, upgrade=_upgrade(update))
            for update in entity.feature_updates
        ),
        validate_only=getattr(entity, "validate_only", False),
    )


def _upgrade(update: Any) -> UpgradeType:
    if hasattr(update, "allow_downgrade"):
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return UpgradeType(update.upgrade_type)
