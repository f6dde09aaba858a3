"""Every message of the controller on Kafka's wire, in every version that is understood."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.controller.broker_messages import (
    OK,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    BrokerState,
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
    ProposedIsr,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from nodes.reference.controller.client_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfigs,
    ConfigChange,
    ConfigOperation,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    Election,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    FeatureUpdate,
    IncrementalAlterConfigsRequest,
    MorePartitions,
    NamedError,
    NewTopic,
    ResourceChanges,
    ResourceConfigs,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from nodes.reference.controller.messages import (
    Request,
    Response,
)
from nodes.reference.controller.wire import (
    APIS,
    request_from_kafka,
    request_to_kafka,
    response_from_kafka,
    response_to_kafka,
    schemas,
)
from nodes.reference.metadata.schema import Endpoint, SupportedFeature
from tests.nodes.reference.raft.test_wire import through_bytes

ID, OTHER = UUID(int=7), UUID(int=8)
PROPOSED = ProposedIsr(topic=ID, index=0, leader_epoch=3, partition_epoch=9, new_isr=((1, 120), (2, -1)))
NEXT = ProposedIsr(topic=ID, index=1, leader_epoch=3, partition_epoch=9, new_isr=((1, 120),), recovery=1)
NAMED = ProposedIsr(topic="t", index=0, leader_epoch=3, partition_epoch=9, new_isr=((1, -1), (2, -1)))
ALTERED = AlteredPartition(topic=ID, index=0, error=OK, leader=1, leader_epoch=3, isr=(1, 2), partition_epoch=10)
REFUSED = AlteredPartition(topic=OTHER, index=4, error=ErrorCode.ineligible_replica)

EXCHANGES: tuple[tuple[Request, Response], ...] = (
    (
        BrokerRegistrationRequest(
            broker_id=1,
            cluster_id="k",
            incarnation_id=ID,
            endpoints=(Endpoint(name="PLAINTEXT", host="10.0.0.1", port=60_000),),
            features=(SupportedFeature(name="metadata.version", min_supported_version=1, max_supported_version=11),),
            rack="a",
        ),
        BrokerRegistrationResponse(error=OK, broker_epoch=120),
    ),
    (
        BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=120, target=BrokerState.SHUTDOWN, metadata_offset=130, lease_start_ms=1 << 40
        ),
        BrokerHeartbeatResponse(
            error=OK, active_controller_id=3, next_state=BrokerState.ACTIVE, broker_epoch=120, lease_end_ms=1 << 41
        ),
    ),
    (UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse(error=OK, message="why")),
    (
        AlterPartitionRequest(broker_id=1, broker_epoch=120, partitions=(PROPOSED, NEXT)),
        AlterPartitionResponse(error=OK, partitions=(ALTERED, REFUSED)),
    ),
    (
        AllocateProducerIdsRequest(broker_id=1, broker_epoch=120),
        AllocateProducerIdsResponse(error=OK, start=1000, count=1000),
    ),
    (
        ControllerHeartbeatRequest(controller_id=2, last_snapshot_offset=55),
        ControllerHeartbeatResponse(error=OK, start_snapshot=True),
    ),
    (
        CreateTopicsRequest(
            topics=(
                NewTopic(name="t", partition_count=3, replication_factor=2, configs=(("min.insync.replicas", "2"),)),
                NewTopic(name="u", assignments=((0, (1, 2)), (1, (2, 1)))),
            ),
            validate_only=True,
        ),
        CreateTopicsResponse(
            topics=(
                CreatedTopic(
                    name="t",
                    error=OK,
                    topic_id=ID,
                    partition_count=3,
                    replication_factor=2,
                    configs=(("min.insync.replicas", "2"),),
                ),
                CreatedTopic(name="u", error=ErrorCode.topic_already_exists, message="why"),
            )
        ),
    ),
    (
        DeleteTopicsRequest(topics=("t", ID)),
        DeleteTopicsResponse(
            topics=(
                DeletedTopic(name="t", topic_id=ID, error=OK),
                DeletedTopic(name=None, topic_id=OTHER, error=ErrorCode.unknown_topic_id),
            )
        ),
    ),
    (
        CreatePartitionsRequest(
            topics=(MorePartitions(name="t", count=4), MorePartitions(name="u", count=3, assignments=((1, 2),)))
        ),
        CreatePartitionsResponse(topics=(NamedError(name="t", error=ErrorCode.invalid_partitions, message="why"),)),
    ),
    (
        AlterConfigsRequest(
            resources=(ResourceConfigs(resource_type=2, resource_name="t", configs=(("retention.ms", "1"),)),)
        ),
        AlterConfigsResponse(resources=(AlteredConfigs(resource_type=2, resource_name="t", error=OK),)),
    ),
    (
        IncrementalAlterConfigsRequest(
            resources=(
                ResourceChanges(
                    resource_type=2,
                    resource_name="t",
                    changes=(ConfigChange(name="cleanup.policy", operation=ConfigOperation.APPEND, value="compact"),),
                ),
            )
        ),
        AlterConfigsResponse(resources=(AlteredConfigs(resource_type=2, resource_name="t", error=OK, message="why"),)),
    ),
    (
        ElectLeadersRequest(election=ElectionType.UNCLEAN, partitions=(("t", 0), ("t", 1), ("u", 0))),
        ElectLeadersResponse(
            error=OK,
            partitions=(
                Election(topic="t", index=0, error=OK),
                Election(topic="t", index=1, error=ErrorCode.election_not_needed, message="why"),
            ),
        ),
    ),
    (
        UpdateFeaturesRequest(
            updates=(FeatureUpdate(name="metadata.version", level=9, upgrade=UpgradeType.UNSAFE_DOWNGRADE),)
        ),
        UpdateFeaturesResponse(error=OK, features=(NamedError(name="metadata.version", error=OK),)),
    ),
)
BY_NAME: dict[int, Response] = {  # before topics had ids
    56: AlterPartitionResponse(error=OK, partitions=(AlteredPartition(topic="t", index=0, error=OK),)),
    20: DeleteTopicsResponse(topics=(DeletedTopic(name="t", topic_id=None, error=OK),)),
}
KEYS = {api.request: api.key for api in APIS.values()}
EACH = pytest.mark.parametrize(
    ("request_", "response"), EXCHANGES, ids=[type(request).__name__ for request, _ in EXCHANGES]
)


@EACH
def test_what_is_asked_and_answered_comes_through(request_: Request, response: Response) -> None:
    key = KEYS[type(request_)]
    assert request_from_kafka(through_bytes(request_to_kafka(request_))) == request_
    answer = response_to_kafka(response, key, APIS[key].sent)
    assert response_from_kafka(through_bytes(answer)) == response


@EACH
def test_every_version_is_written(request_: Request, response: Response) -> None:
    api = APIS[KEYS[type(request_)]]
    for version in api.versions:
        answer = response if version == api.sent else BY_NAME.get(api.key, response)
        answer = response if (api.key, version) == (56, 2) else answer
        entity: Any = through_bytes(response_to_kafka(answer, api.key, version))
        assert (type(entity).__api_key__, type(entity).__version__) == (api.key, version)


def test_all_requests_have_an_api() -> None:
    assert {type(request) for request, _ in EXCHANGES} == set(Request.__args__) == set(KEYS)


@pytest.mark.parametrize(
    ("version", "proposed"),
    [
        (0, NAMED),
        (1, replace(NAMED, recovery=1)),
        (2, ProposedIsr(topic=ID, index=0, leader_epoch=3, partition_epoch=9, new_isr=((1, -1),))),
    ],
)
def test_before_kip_903_there_are_no_broker_epochs(version: int, proposed: ProposedIsr) -> None:
    request = AlterPartitionRequest(broker_id=1, broker_epoch=120, partitions=(proposed,), version=version)
    assert request_from_kafka(through_bytes(request_to_kafka(request))) == request


def test_old_clients_are_understood() -> None:
    deleting: Any = schemas(20, 1)[0]
    assert request_from_kafka(deleting(topic_names=("t",), timeout=None)) == DeleteTopicsRequest(topics=("t",))
    electing: Any = schemas(43, 0)[0]
    assert request_from_kafka(electing(topic_partitions=None)) == ElectLeadersRequest(
        election=ElectionType.PREFERRED, partitions=None
    )
    updating: Any = schemas(57, 0)[0]
    assert request_from_kafka(updating(feature_updates=())) == UpdateFeaturesRequest(updates=())


def test_what_is_not_for_a_controller_is_refused() -> None:
    registering: Any = schemas(62, 1)[0]
    with pytest.raises(ValueError, match="incarnation"):
        request_from_kafka(
            registering(broker_id=1, cluster_id="k", incarnation_id=None, listeners=(), features=(), rack=None)
        )
    with pytest.raises(ValueError, match="not spoken"):
        schemas(56, 4)
    with pytest.raises(ValueError, match="not spoken"):
        schemas(50, 0)
    electing: Any = schemas(43, 2)[0]
    with pytest.raises(ValueError, match="9"):
        request_from_kafka(electing(election_type=9, topic_partitions=None))
