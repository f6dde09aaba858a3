"""What clients are told of the brokers."""

from __future__ import annotations

import asyncio
import io
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest
from kio.serial import entity_writer
from kio.static.primitive import i8

from nodes.reference.broker.cluster_view import ClusterViewHandlers
from nodes.reference.broker.serving import Serving
from nodes.reference.environment import Caller
from nodes.reference.metadata.entities import Broker
from nodes.reference.metadata.schema import Endpoint
from nodes.reference.server.schema import fitted, request_module

NOBODY = UUID(int=0)
ASKED = MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)


async def create(name: str) -> Any:
    raise AssertionError("nothing is created here")


def view(*, fenced: bool) -> ClusterViewHandlers:
    """Of broker 1; broker 3 is fenced, the others, too, if fenced."""
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
    return ClusterViewHandlers(cast(Serving, serving), create)


@pytest.mark.parametrize("fenced", [True, False])
def test_a_broker_that_serves_names_itself_before_it_has_heard_of_that(fenced: bool) -> None:
    """librdkafka that is told of no broker and no controller waits for minutes before it asks again."""
    answer: Any = asyncio.run(view(fenced=fenced).metadata(Caller("c", "client", 1), ASKED))
    assert answer.controller_id == 1
    assert [broker.node_id for broker in answer.brokers] == ([1] if fenced else [1, 2])


@pytest.mark.parametrize(
    ("version", "told"), [(10, [("", ErrorCode.invalid_request)] * 2), (12, [(None, ErrorCode.unknown_topic_id)])]
)
def test_topics_without_a_name_are_asked_for_by_id_or_not_at_all(
    version: int, told: list[tuple[str | None, ErrorCode]]
) -> None:
    """A fuzz test asked for a topic with neither: the broker tried to create it, and the request could not be served."""
    asked = request_module(3, version)
    topics = tuple(asked.MetadataRequestTopic(topic_id=id, name=None) for id in (None, UUID(int=7)))
    request = fitted(
        asked.MetadataRequest,
        topics=topics,
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    answer: Any = asyncio.run(view(fenced=False).metadata(Caller("c", "client", 1), request))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == told
    entity_writer(type(answer))(io.BytesIO(), answer)


@pytest.mark.parametrize(
    ("endpoint_type", "error", "brokers"),
    [
        (1, ErrorCode.none, [(1, False), (2, False), (3, True)]),
        (2, ErrorCode.mismatched_endpoint_type, []),
        (7, ErrorCode.unsupported_endpoint_type, []),
    ],
)
def test_a_cluster_is_described_with_its_fenced_brokers(
    endpoint_type: int, error: ErrorCode, brokers: list[tuple[int, bool]]
) -> None:
    """KIP-919, KIP-1073."""
    asked = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=i8(endpoint_type), include_fenced_brokers=True
    )
    answer: Any = asyncio.run(view(fenced=False).describe_cluster(Caller("c", "client", 1), asked))
    assert (answer.error_code, answer.endpoint_type) == (error, 1)
    assert [(broker.broker_id, broker.is_fenced) for broker in answer.brokers] == brokers
