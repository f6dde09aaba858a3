"""The table of a controller's listener: Kafka's requests become the controller's messages, and its answers Kafka's again.

Brokers and administrators send kio's entities, standby controllers and the quorum messages of their own, which a real network writes as
Kafka's (`process/codec.py`) and a simulated one carries as they are.
"""

from __future__ import annotations

from typing import Any

from nodes.reference.controller import wire
from nodes.reference.controller.shell import ControllerNode
from nodes.reference.environment import Caller, Refused
from nodes.reference.metadata.features import LATEST, METADATA_VERSION, OLDEST
from nodes.reference.server.handlers import Feature, Features, Handlers


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

    handlers = Handlers(features, quorum=node.serve)
    for key, api in wire.APIS.items():
        handlers.add(key, min(api.versions), max(api.versions), ask)
    return handlers
