"""What clients are told of the brokers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.metadata.v12.request import MetadataRequest

from nodes.reference.broker.cluster_view import ClusterViewHandlers
from nodes.reference.broker.serving import Serving
from nodes.reference.environment import Caller
from nodes.reference.metadata.entities import Broker
from nodes.reference.metadata.schema import Endpoint

NOBODY = UUID(int=0)
ASKED = MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)


async def create(name: str) -> Any:
    raise AssertionError("nothing is created here")


@pytest.mark.parametrize("fenced", [True, False])
def test_a_broker_that_serves_names_itself_before_it_has_heard_of_that(fenced: bool) -> None:
    """librdkafka that is told of no broker and no controller waits for minutes before it asks again."""
    endpoint = Endpoint(name="PLAINTEXT", host="b", port=9092, security_protocol=0)
    brokers = {
        id: Broker(id=id, epoch=id, incarnation_id=NOBODY, endpoints=(endpoint,), fenced=id == 3 or fenced)
        for id in (1, 2, 3)
    }
    serving = SimpleNamespace(
        may_serve=True,
        image=SimpleNamespace(brokers=brokers, topics={}),
        settings=SimpleNamespace(node_id=1, cluster_id="k"),
    )
    view = ClusterViewHandlers(cast(Serving, serving), create)
    answer: Any = asyncio.run(view.metadata(Caller("c", "client", 1), ASKED))
    assert answer.controller_id == 1
    assert [broker.node_id for broker in answer.brokers] == ([1] if fenced else [1, 2])
