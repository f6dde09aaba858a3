"""The table of a controller's listener: Kafka's requests become the controller's messages, and its answers Kafka's again.

Brokers and administrators send kio's entities, standby controllers and the quorum messages of their own, which a real network writes as
Kafka's (`process/codec.py`) and a simulated one carries as they are.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from types import ModuleType
from typing import Any

from nodes.reference.controller import wire
from nodes.reference.controller.shell import ControllerNode
from nodes.reference.environment import Caller, Refused
from nodes.reference.metadata.features import LATEST, METADATA_VERSION, OLDEST
from nodes.reference.raft import wire as quorum
from nodes.reference.raft.messages import DescribeQuorumRequest
from nodes.reference.server.handlers import Api, Feature, Features, Handlers
from nodes.reference.server.schema import fitted, names, response_module


def controller_handlers(node: ControllerNode) -> Handlers:
    def features() -> Features:
        level = node.core.image.features.get(METADATA_VERSION)
        return Features((Feature(METADATA_VERSION, OLDEST, LATEST, level),), epoch=node.core.committed_offset - 1)

    async def ask(caller: Caller, request: Any) -> object:
        try:
            asked = wire.request_from_kafka(request)
        except ValueError as error:
            raise Refused(str(error)) from error
        answer: Any = await node.serve(caller, asked)
        return wire.response_to_kafka(answer, int(request.__api_key__), int(request.__version__))

    async def describe_quorum(caller: Caller, request: Any) -> object:
        """Version 0, which raft/wire.py does not have; the other one comes as Raft's message."""
        described = quorum.response_to_kafka(
            await node.replica.serve(caller, DescribeQuorumRequest()), cluster_id=node.replica.raft.config.cluster_id
        )
        return _older(described, response_module(request))

    handlers = Handlers(features, quorum=node.serve)
    handlers.add(Api.DESCRIBE_QUORUM, 0, 1, describe_quorum)
    for key, api in wire.APIS.items():
        handlers.add(key, min(api.versions), max(api.versions), ask)
    return handlers


def _older(entity: Any, module: ModuleType) -> Any:
    """The same entity in another version, without the fields that one lacks."""
    values = {name: getattr(entity, name) for name in names(type(entity))}
    for name, value in values.items():
        if isinstance(value, tuple) and value and is_dataclass(value[0]):
            values[name] = tuple(_older(part, module) for part in value)
    return fitted(getattr(module, type(entity).__name__), **values)
