"""NOT_CONTROLLER, in the place where each API has its errors."""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.reference.controller.broker_messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from nodes.reference.controller.client_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfigs,
    CreatedTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    NamedError,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from nodes.reference.controller.messages import (
    Request,
    Response,
)

ERROR = ErrorCode.not_controller
MESSAGE = "this is not the active controller"


def not_controller(request: Request, active_controller_id: int | None) -> Response:
    """The answer of one that is not active, or is no longer."""
    match request:
        case BrokerHeartbeatRequest():
            return BrokerHeartbeatResponse(
                error=ERROR, active_controller_id=-1 if active_controller_id is None else active_controller_id
            )
        case BrokerRegistrationRequest():
            return BrokerRegistrationResponse(error=ERROR)
        case UnregisterBrokerRequest():
            return UnregisterBrokerResponse(error=ERROR, message=MESSAGE)
        case AlterPartitionRequest():
            return AlterPartitionResponse(error=ERROR)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(error=ERROR)
        case ControllerHeartbeatRequest():
            return ControllerHeartbeatResponse(error=ERROR)
        case ElectLeadersRequest():
            return ElectLeadersResponse(error=ERROR)
        case UpdateFeaturesRequest():
            return UpdateFeaturesResponse(error=ERROR, message=MESSAGE)
        case CreateTopicsRequest(topics=topics):
            return CreateTopicsResponse(
                topics=tuple(CreatedTopic(name=topic.name, error=ERROR, message=MESSAGE) for topic in topics)
            )
        case DeleteTopicsRequest(topics=named):
            return DeleteTopicsResponse(topics=tuple(_not_deleted(topic) for topic in named))
        case CreatePartitionsRequest(topics=more):
            return CreatePartitionsResponse(
                topics=tuple(NamedError(name=topic.name, error=ERROR, message=MESSAGE) for topic in more)
            )
        case AlterConfigsRequest() | IncrementalAlterConfigsRequest():
            return AlterConfigsResponse(
                resources=tuple(
                    AlteredConfigs(
                        resource_type=resource.resource_type,
                        resource_name=resource.resource_name,
                        error=ERROR,
                        message=MESSAGE,
                    )
                    for resource in request.resources
                )
            )


def _not_deleted(named: UUID | str) -> DeletedTopic:
    by_id = isinstance(named, UUID)
    return DeletedTopic(
        name=None if isinstance(named, UUID) else named,
        topic_id=named if by_id and isinstance(named, UUID) else None,
        error=ERROR,
    )
