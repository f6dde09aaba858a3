"""From a topology to a cluster that serves: nodes, disks, processes, topics. Everything that can happen at once does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from nodes import administration
from nodes.backend import Backend
from nodes.cluster import Cluster
from nodes.event import Event
from nodes.metadata_row import MetadataRow
from nodes.node import Node, NodeRequest, Role
from nodes.system import System, SystemUnavailable
from nodes.topology import Topology

T = TypeVar("T")


async def deploy(
    *,
    run: str,
    topology: Topology,
    system: System,
    backend: Backend,
    on_event: Callable[[Event], None],
    on_metadata: Callable[[MetadataRow], None] | None = None,
    progress: Callable[[str], None] = lambda _: None,
    deadline: float = 120,
    before_start: Callable[[Cluster], Awaitable[None]] | None = None,
    kind: type[Cluster] = Cluster,
) -> Cluster:
    """Add all nodes to an opened backend, start the servers, wait until every broker lists all, create the topics.

    on_metadata: told every row of the controllers' logs; None: they are followed only when somebody asks (nodes/cluster.py).
    Returns a watched cluster (end it with `close`). SystemUnavailable or NotReached says which node did not come up and why; what was
    started then is the backend's to remove. `before_start` is called when all nodes are there and nothing runs in them yet; `kind`: a
    subclass of Cluster to make.
    """
    check(topology)
    system.check(topology)
    progress(f"adding {len(topology.nodes)} servers and {topology.clients} clients")
    servers = await _together(backend.add(system.request(plan)) for plan in topology.nodes)
    requests = [NodeRequest(name=f"w{number}", role=Role.CLIENT) for number in range(1, topology.clients + 1)]
    clients = await _together(backend.add(request) for request in requests)
    cluster = kind(
        run=run,
        topology=topology,
        system=system,
        backend=backend,
        nodes=_by_name(servers),
        clients=_by_name(clients),
        on_event=on_event,
        on_metadata=on_metadata or (lambda row: None),
    )
    try:
        if on_metadata is not None:
            cluster.follow_metadata()
        if before_start is not None:
            await before_start(cluster)
        await _bring_up(cluster, progress, deadline)
    except BaseException:
        await cluster.close()
        raise
    return cluster


async def _bring_up(cluster: Cluster, progress: Callable[[str], None], deadline: float) -> None:
    plans = cluster.topology.nodes
    addresses = {name: node.address for name, node in cluster.nodes.items()}
    await _together(
        cluster.system.prepare(cluster.nodes[plan.name], plan, cluster.topology, addresses) for plan in plans
    )
    progress(f"starting {', '.join(plan.name for plan in plans)}")
    await _together(cluster.start(plan.name) for plan in plans)
    cluster.observer.start()
    await cluster.ready([plan.name for plan in plans], deadline=deadline)
    progress(f"creating {', '.join(topic.name for topic in cluster.topology.topics) or 'no topics'}")
    topics = (cluster.create_topic(topic, deadline=deadline) for topic in cluster.topology.topics)
    await _together([*topics, administration.warm_up(cluster, deadline=deadline)])


def check(topology: Topology) -> None:
    """SystemUnavailable names what cannot be deployed before anything is started."""
    if not topology.controllers or not topology.brokers:
        raise SystemUnavailable("a cluster needs at least one controller and one broker")
    for what, values in (
        ("name", [plan.name for plan in topology.nodes]),
        ("id", [str(plan.id) for plan in topology.nodes]),
    ):
        if twice := sorted({value for value in values if values.count(value) > 1}):
            raise SystemUnavailable(f"two nodes have the same {what}: {', '.join(twice)}")
    brokers = {plan.id for plan in topology.brokers}
    for topic in topology.topics:
        if topic.assignment is None and topic.replication > len(brokers):
            raise SystemUnavailable(
                f"topic {topic.name} wants {topic.replication} replicas; there are {len(brokers)} brokers"
            )
        unknown = {id for replicas in (topic.assignment or {}).values() for id in replicas} - brokers
        if unknown:
            raise SystemUnavailable(f"topic {topic.name} is assigned to unknown brokers {sorted(unknown)}")


async def _together(all_of: Iterable[Awaitable[T]]) -> list[T]:
    """All at once; the first failure cancels the rest and is raised as itself."""

    async def one(awaitable: Awaitable[T]) -> T:
        return await awaitable

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(awaitable)) for awaitable in all_of]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def _by_name(nodes: Iterable[Node]) -> dict[str, Node]:
    return {node.name: node for node in nodes}
