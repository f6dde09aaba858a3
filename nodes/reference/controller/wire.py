"""The controller's messages as Kafka's: what a real network sends in their place, and what it makes of those it gets.

    request_from_kafka(kio's CreateTopicsRequest of any version)       CreateTopicsRequest(...)
    response_to_kafka(CreateTopicsResponse(...), 19, version=5)        kio's CreateTopicsResponse of version 5
    request_to_kafka(AlterPartitionRequest(..., version=2))            kio's AlterPartitionRequest of version 2
    response_from_kafka(kio's AlterPartitionResponse)                  AlterPartitionResponse(...)

The first two are for whoever serves, in whatever version was asked; the other two for brokers and standby controllers, who ask in the
newest one (an AlterPartitionRequest says itself in which). `APIS` says which versions are understood: what a controller's ApiVersions
answers, together with the quorum's own APIs (`raft/wire.py`). A broker passes clients' requests on as messages of this package, so the
client's version concerns only that broker. `schemas` finds the classes, those that kio does not have included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from kio.index import load_request_schema, load_response_schema
from kio.static.protocol import Entity

from nodes.reference.controller import schema, wire_requests, wire_responses
from nodes.reference.controller.broker_messages import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerHeartbeatRequest,
    UnregisterBrokerRequest,
)
from nodes.reference.controller.client_messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)
from nodes.reference.controller.declared import DECLARED
from nodes.reference.controller.entities import Values, made
from nodes.reference.controller.messages import (
    Request,
    Response,
)


class Api(NamedTuple):
    key: int
    versions: tuple[int, ...]  # that are understood
    sent: int  # by whoever asks
    request: type[Request]
    values: Callable[..., Values]
    read: Callable[[Any], Request]
    response_values: Callable[..., Values]
    read_response: Callable[[Any], Response]


def _versions(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


_asked, _told = wire_requests, wire_responses
APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        Api(
            62, (0, 1), 1, BrokerRegistrationRequest, _asked.register, _asked.read_register,
            _told.registered, _told.read_registered,
        ),
        Api(
            schema.BROKER_HEARTBEAT, (0,), 0, BrokerHeartbeatRequest, _asked.heartbeat, _asked.read_heartbeat,
            _told.heartbeat, _told.read_heartbeat,
        ),
        Api(
            64, (0,), 0, UnregisterBrokerRequest, _asked.unregister, _asked.read_unregister,
            _told.unregistered, _told.read_unregistered,
        ),
        Api(
            56, _versions(0, 3), 3, AlterPartitionRequest, _asked.alter_partitions, _asked.read_alter_partitions,
            _told.altered_partitions, _told.read_altered_partitions,
        ),
        Api(
            67, (0,), 0, AllocateProducerIdsRequest, _asked.allocate, _asked.read_allocate,
            _told.allocated, _told.read_allocated,
        ),
        Api(
            schema.CONTROLLER_HEARTBEAT, (0,), 0, ControllerHeartbeatRequest,
            _asked.controller_heartbeat, _asked.read_controller_heartbeat,
            _told.controller_heartbeat, _told.read_controller_heartbeat,
        ),
        Api(
            19, _versions(2, 7), 7, CreateTopicsRequest, _asked.create_topics, _asked.read_create_topics,
            _told.created_topics, _told.read_created_topics,
        ),
        Api(
            20, _versions(1, 6), 6, DeleteTopicsRequest, _asked.delete_topics, _asked.read_delete_topics,
            _told.deleted_topics, _told.read_deleted_topics,
        ),
        Api(
            37, _versions(0, 3), 3, CreatePartitionsRequest, _asked.create_partitions, _asked.read_create_partitions,
            _told.created_partitions, _told.read_created_partitions,
        ),
        Api(
            33, _versions(0, 2), 2, AlterConfigsRequest, _asked.alter_configs, _asked.read_alter_configs,
            _told.altered_configs, _told.read_altered_configs,
        ),
        Api(
            44, _versions(0, 1), 1, IncrementalAlterConfigsRequest,
            _asked.incremental_alter_configs, _asked.read_incremental_alter_configs,
            _told.altered_configs, _told.read_altered_configs,
        ),
        Api(
            43, _versions(0, 2), 2, ElectLeadersRequest, _asked.elect_leaders, _asked.read_elect_leaders,
            _told.elected_leaders, _told.read_elected_leaders,
        ),
        Api(
            57, _versions(0, 1), 1, UpdateFeaturesRequest, _asked.update_features, _asked.read_update_features,
            _told.updated_features, _told.read_updated_features,
        ),
    )
}  # fmt: skip
_BY_REQUEST: Final = {api.request: api for api in APIS.values()}


def schemas(key: int, version: int) -> tuple[type[Entity], type[Entity]]:
    """The classes of request and response. ValueError unless that version is understood here."""
    api = APIS.get(key)
    if api is None or version not in api.versions:
        raise ValueError(f"version {version} of API {key} is not spoken by a controller")
    return DECLARED.get((key, version)) or (load_request_schema(key, version), load_response_schema(key, version))


def request_from_kafka(request: Entity) -> Request:
    """ValueError (INVALID_REQUEST) if it is none of the controller's, or has a value that its version does not know."""
    return _api(request).read(request)


def request_to_kafka(request: Request) -> Entity:
    api = _BY_REQUEST[type(request)]
    version = request.version if isinstance(request, AlterPartitionRequest) else api.sent
    return made(schemas(api.key, version)[0], api.values(request))


def response_to_kafka(response: Response, key: int, version: int) -> Entity:
    """In the version of the request. AlterConfigsResponse answers two APIs, so the key is needed."""
    return made(schemas(key, version)[1], APIS[key].response_values(response))


def response_from_kafka(response: Entity) -> Response:
    """Of the version in which `request_to_kafka` asks. ValueError if it is none of a controller's."""
    return _api(response).read_response(response)


def _api(entity: Entity) -> Api:
    key = int(cast(Any, type(entity)).__api_key__)
    if key not in APIS:
        raise ValueError(f"{type(entity).__name__} is not for a controller")
    return APIS[key]
