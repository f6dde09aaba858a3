"""What single brokers say when a race or an observer asks them: offsets, elections, coordinators. The verbs of nodes/cluster.py."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final

from nodes.administration import ATTEMPT_S, somewhere
from nodes.backends.namespaces import within
from nodes.protocol import partitions, transactions
from nodes.protocol.connection import Connection, Unreachable
from nodes.protocol.partitions import At, Offset
from nodes.protocol.transactions import Transaction
from nodes.topology import BROKER_PORT, CONTROLLER_PORT, ServerRole

if TYPE_CHECKING:
    from nodes.cluster import Cluster

ANSWER_S: Final = 5.0
NO_COPY: Final = frozenset({"UNKNOWN_TOPIC_OR_PARTITION", "NOT_LEADER_OR_FOLLOWER", "REPLICA_NOT_AVAILABLE"})
LOADING: Final = frozenset({"COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"})


async def connect(cluster: Cluster, name: str, *, via: str | None, timeout: float) -> Connection:
    port = BROKER_PORT if ServerRole.BROKER in cluster.topology.node(name).roles else CONTROLLER_PORT
    address = cluster.nodes[name].address
    if via is None:
        return await Connection.open(address, port, timeout=timeout)
    namespace = cluster.network.namespace(via)

    async def there() -> socket.socket:
        return await within(namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))

    return await Connection.open(address, port, timeout=timeout, dial=there)


async def offset(cluster: Cluster, topic: str, partition: int, at: At, *, on: str | None) -> Offset:
    name = on or await cluster.leader(topic, partition)
    if name is None:
        return Offset(error="LEADER_NOT_AVAILABLE", offset=-1, leader_epoch=-1)
    async with await connect(cluster, name, via=None, timeout=ANSWER_S) as connection:
        return await partitions.offset(connection, topic, partition, at, timeout=ANSWER_S)


async def log_end(cluster: Cluster, topic: str, partition: int, *, on: str) -> int | None:
    told = await offset(cluster, topic, partition, At.END, on=on)
    if told.error in NO_COPY:
        return None
    if told.error != "NONE":
        raise Unreachable(f"{on} does not tell where {topic}-{partition} ends: {told.error}")
    return told.offset


async def elect(cluster: Cluster, topic: str, partition: int, *, preferred: bool, deadline: float) -> str | None:
    async def ask(connection: Connection) -> str:
        return await partitions.elect(connection, topic, partition, preferred=preferred, timeout=ATTEMPT_S)

    said = await somewhere(cluster, ask, time.monotonic() + deadline)
    return None if said == "NONE" else said


async def coordinator_of(cluster: Cluster, key: str, *, group: bool, deadline: float) -> str:
    kind = transactions.GROUP if group else transactions.TRANSACTION
    until = time.monotonic() + deadline

    async def ask(connection: Connection) -> str:
        error, id = await transactions.coordinator(connection, key, kind=kind, timeout=ANSWER_S)
        if error != "NONE":
            raise Unreachable(f"nobody coordinates {key!r}: {connection.peer} says {error}")
        return cluster.name_of(id)

    return await somewhere(cluster, ask, until)


async def transaction_state(cluster: Cluster, transactional_id: str, *, deadline: float) -> Transaction:
    until = time.monotonic() + deadline

    async def ask(connection: Connection) -> Transaction:
        told = await transactions.describe(connection, transactional_id, timeout=ANSWER_S)
        if told.error in LOADING:
            raise Unreachable(f"{connection.peer} does not coordinate {transactional_id!r} now: {told.error}")
        return told

    while True:
        name = await coordinator_of(cluster, transactional_id, group=False, deadline=max(0.0, until - time.monotonic()))
        try:
            return await somewhere(cluster, ask, time.monotonic(), only=name)
        except Unreachable:
            if time.monotonic() > until:
                raise
        await cluster.observer.looked(0.25)
