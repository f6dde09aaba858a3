"""Raw requests about the cluster's members: who is registered, and how one is forgotten."""

from __future__ import annotations

from dataclasses import dataclass

from kio.schema.describe_cluster.v0 import DescribeClusterRequest, DescribeClusterResponse
from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0 import UnregisterBrokerRequest, UnregisterBrokerResponse

from nodes.protocol.connection import Connection
from nodes.protocol.requests import error_name


@dataclass(frozen=True, kw_only=True)
class Members:
    error: str
    cluster_id: str
    controller: int  # a broker to send controller requests to, not the active controller; -1: none
    brokers: frozenset[int]  # ids of the unfenced ones


async def describe(connection: Connection, *, timeout: float) -> Members:
    """DescribeCluster, of a broker (KIP-700)."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    answer = await connection.ask(request, DescribeClusterResponse, timeout=timeout)
    return Members(
        error=error_name(answer.error_code),
        cluster_id=answer.cluster_id,
        controller=int(answer.controller_id),
        brokers=frozenset(int(one.broker_id) for one in answer.brokers),
    )


async def unregister(connection: Connection, broker: int, *, timeout: float) -> str:
    """UnregisterBroker (KIP-631): NONE, BROKER_ID_NOT_REGISTERED, ..."""
    request = UnregisterBrokerRequest(broker_id=BrokerId(broker))
    return error_name((await connection.ask(request, UnregisterBrokerResponse, timeout=timeout)).error_code)
