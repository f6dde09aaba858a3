"""Each response of the controller as the values of Kafka's fields, and back, as far as brokers and standby controllers wait for it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from nodes.reference.controller.broker_messages import (
    AllocateProducerIdsResponse,
    AlteredPartition,
    AlterPartitionResponse,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
    BrokerState,
    ControllerHeartbeatResponse,
    UnregisterBrokerResponse,
)
from nodes.reference.controller.client_messages import (
    AlterConfigsResponse,
    AlteredConfigs,
    CreatedTopic,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
    Election,
    ElectLeadersResponse,
    NamedError,
    UpdateFeaturesResponse,
)
from nodes.reference.controller.entities import NO_TIME, Values
from nodes.reference.controller.wire_requests import NO_ID

_TOPIC_CONFIG = 1  # config_source of CreateTopics: set for the topic itself


def registered(response: BrokerRegistrationResponse) -> Values:
    return {"throttle_time": NO_TIME, "error_code": response.error, "broker_epoch": response.broker_epoch}


def read_registered(entity: Any) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error=entity.error_code, broker_epoch=entity.broker_epoch)


def heartbeat(response: BrokerHeartbeatResponse) -> Values:
    return {
        "error_code": response.error,
        "active_controller_id": response.active_controller_id,
        "next_state": int(response.next_state),
        "broker_epoch": response.broker_epoch,
        "lease_end_time_ms": response.lease_end_ms,
    }


def read_heartbeat(entity: Any) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(
        error=entity.error_code,
        active_controller_id=entity.active_controller_id,
        next_state=BrokerState(entity.next_state),
        broker_epoch=entity.broker_epoch,
        lease_end_ms=entity.lease_end_time_ms,
    )


def unregistered(response: UnregisterBrokerResponse) -> Values:
    return {"throttle_time": NO_TIME, "error_code": response.error, "error_message": response.message}


def read_unregistered(entity: Any) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error=entity.error_code, message=entity.error_message)


def altered_partitions(response: AlterPartitionResponse) -> Values:
    by_topic: dict[UUID | str, list[Values]] = {}
    for altered in response.partitions:
        by_topic.setdefault(altered.topic, []).append(
            {
                "partition_index": altered.index,
                "error_code": altered.error,
                "leader_id": altered.leader,
                "leader_epoch": altered.leader_epoch,
                "isr": altered.isr,
                "leader_recovery_state": altered.recovery,
                "partition_epoch": altered.partition_epoch,
                "current_isr_version": altered.partition_epoch,
            }
        )
    return {
        "throttle_time": NO_TIME,
        "error_code": response.error,
        "topics": [{"topic_id": topic, "name": topic, "partitions": done} for topic, done in by_topic.items()],
    }


def read_altered_partitions(entity: Any) -> AlterPartitionResponse:
    version = int(type(entity).__version__)
    return AlterPartitionResponse(
        error=entity.error_code,
        partitions=tuple(
            AlteredPartition(
                topic=(topic.topic_id or NO_ID) if version >= 2 else topic.name,
                index=done.partition_index,
                error=done.error_code,
                leader=done.leader_id,
                leader_epoch=done.leader_epoch,
                isr=tuple(done.isr),
                partition_epoch=done.partition_epoch if version >= 1 else done.current_isr_version,
                recovery=getattr(done, "leader_recovery_state", 0),
            )
            for topic in entity.topics
            for done in topic.partitions
        ),
    )


def allocated(response: AllocateProducerIdsResponse) -> Values:
    return {
        "throttle_time": NO_TIME,
        "error_code": response.error,
        "producer_id_start": response.start,
        "producer_id_len": response.count,
    }


def read_allocated(entity: Any) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(
        error=entity.error_code, start=entity.producer_id_start, count=entity.producer_id_len
    )


def controller_heartbeat(response: ControllerHeartbeatResponse) -> Values:
    return {"error_code": response.error, "start_snapshot": response.start_snapshot}


def read_controller_heartbeat(entity: Any) -> ControllerHeartbeatResponse:
    return ControllerHeartbeatResponse(error=entity.error_code, start_snapshot=entity.start_snapshot)


def created_topics(response: CreateTopicsResponse) -> Values:
    return {
        "throttle_time": NO_TIME,
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "error_code": topic.error,
                "error_message": topic.message,
                "num_partitions": topic.partition_count,
                "replication_factor": topic.replication_factor,
                "configs": [
                    {
                        "name": name,
                        "value": value,
                        "read_only": False,
                        "config_source": _TOPIC_CONFIG,
                        "is_sensitive": False,
                    }
                    for name, value in topic.configs
                ],
            }
            for topic in response.topics
        ],
    }


def read_created_topics(entity: Any) -> CreateTopicsResponse:
    """Of version 7."""
    return CreateTopicsResponse(
        topics=tuple(
            CreatedTopic(
                name=topic.name,
                error=topic.error_code,
                message=topic.error_message,
                topic_id=topic.topic_id,
                partition_count=topic.num_partitions,
                replication_factor=topic.replication_factor,
                configs=tuple((config.name, config.value or "") for config in topic.configs or ()),
            )
            for topic in entity.topics
        )
    )


def deleted_topics(response: DeleteTopicsResponse) -> Values:
    return {
        "throttle_time": NO_TIME,
        "responses": [
            {"name": topic.name, "topic_id": topic.topic_id, "error_code": topic.error} for topic in response.topics
        ],
    }


def read_deleted_topics(entity: Any) -> DeleteTopicsResponse:
    """Of version 6."""
    return DeleteTopicsResponse(
        topics=tuple(
            DeletedTopic(name=topic.name, topic_id=topic.topic_id, error=topic.error_code) for topic in entity.responses
        )
    )


def created_partitions(response: CreatePartitionsResponse) -> Values:
    return {
        "throttle_time": NO_TIME,
        "results": [
            {"name": topic.name, "error_code": topic.error, "error_message": topic.message} for topic in response.topics
        ],
    }


def read_created_partitions(entity: Any) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        topics=tuple(
            NamedError(name=topic.name, error=topic.error_code, message=topic.error_message) for topic in entity.results
        )
    )


def altered_configs(response: AlterConfigsResponse) -> Values:
    return {
        "throttle_time": NO_TIME,
        "responses": [
            {
                "error_code": resource.error,
                "error_message": resource.message,
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
            for resource in response.resources
        ],
    }


def read_altered_configs(entity: Any) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        resources=tuple(
            AlteredConfigs(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error=resource.error_code,
                message=resource.error_message,
            )
            for resource in entity.responses
        )
    )


def elected_leaders(response: ElectLeadersResponse) -> Values:
    by_topic: dict[str, list[Values]] = {}
    for election in response.partitions:
        by_topic.setdefault(election.topic, []).append(
            {"partition_id": election.index, "error_code": election.error, "error_message": election.message}
        )
    return {
        "throttle_time": NO_TIME,
        "error_code": response.error,
        "replica_election_results": [
            {"topic": topic, "partition_result": results} for topic, results in by_topic.items()
        ],
    }


def read_elected_leaders(entity: Any) -> ElectLeadersResponse:
    """Of version 1 or 2."""
    return ElectLeadersResponse(
        error=entity.error_code,
        partitions=tuple(
            Election(
                topic=topic.topic, index=result.partition_id, error=result.error_code, message=result.error_message
            )
            for topic in entity.replica_election_results
            for result in topic.partition_result
        ),
    )


def updated_features(response: UpdateFeaturesResponse) -> Values:
    return {
        "throttle_time": NO_TIME,
        "error_code": response.error,
        "error_message": response.message,
        "results": [
            {"feature": feature.name, "error_code": feature.error, "error_message": feature.message}
            for feature in response.features
        ],
    }


def read_updated_features(entity: Any) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        error=entity.error_code,
        message=entity.error_message,
        features=tuple(
            NamedError(name=feature.feature, error=feature.error_code, message=feature.error_message)
            for feature in entity.results
        ),
    )
