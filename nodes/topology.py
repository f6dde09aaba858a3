"""Roles, versions, configuration and topics of a cluster, as data: what a spec or a race asks for and a system deploys.

Topology(
    system="kafka", nodes=(NodePlan(name="c1", id=101, roles=frozenset({ServerRole.CONTROLLER}), version="4.3.1"), ...),
    topics=(Topic(name="log", partitions=4, replication=3),), clients=2)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

BROKER_PORT: Final = 9092  # every node has an address of its own, so ports are fixed
CONTROLLER_PORT: Final = 9093


class ServerRole(StrEnum):
    CONTROLLER = "controller"
    BROKER = "broker"


class QuorumKind(StrEnum):
    STATIC = "static"  # controller.quorum.voters
    DYNAMIC = "dynamic"  # voters are in the metadata log, by id and directory id (KIP-853)


@dataclass(frozen=True, kw_only=True)
class NodePlan:
    name: str  # "b1", "c1"; combined nodes are "n1"
    id: int  # node.id; brokers from 1, separate controllers from 101
    roles: frozenset[ServerRole]
    version: str  # "4.3.1", or a path to an unpacked distribution
    config: Mapping[str, str] = field(default_factory=dict)  # overrides, last word
    memory_mib: int | None = None
    cpus: float | None = None


@dataclass(frozen=True, kw_only=True)
class Topic:
    name: str
    partitions: int
    replication: int
    assignment: Mapping[int, tuple[int, ...]] | None = None  # partition -> broker ids, preferred leader first
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Topology:
    system: str  # name of the krash.systems entry point
    nodes: tuple[NodePlan, ...]
    topics: tuple[Topic, ...] = ()
    clients: int = 1  # client nodes "w1".."wN", each a network namespace of its own
    metadata_version: str | None = (
        None  # as `kafka-storage format --release-version` takes it; None: the version's default
    )
    features: Mapping[str, int] = field(default_factory=dict)  # other features at format time: name -> level
    quorum: QuorumKind = QuorumKind.STATIC
    debug: tuple[str, ...] = ()  # loggers of the servers to write at DEBUG, besides those that always are

    @property
    def controllers(self) -> tuple[NodePlan, ...]:
        return tuple(node for node in self.nodes if ServerRole.CONTROLLER in node.roles)

    @property
    def brokers(self) -> tuple[NodePlan, ...]:
        return tuple(node for node in self.nodes if ServerRole.BROKER in node.roles)

    def node(self, name: str) -> NodePlan:
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(f"no node {name}; there are {', '.join(n.name for n in self.nodes)}")


def separate(*, system: str, version: str, controllers: int, brokers: int, **rest: object) -> Topology:
    """The usual shape: controllers c1.. (ids 101..) and brokers b1.. (ids 1..)."""
    nodes = tuple(
        NodePlan(name=f"c{n}", id=100 + n, roles=frozenset({ServerRole.CONTROLLER}), version=version)
        for n in range(1, controllers + 1)
    ) + tuple(
        NodePlan(name=f"b{n}", id=n, roles=frozenset({ServerRole.BROKER}), version=version)
        for n in range(1, brokers + 1)
    )
    return Topology(system=system, nodes=nodes, **rest)  # type: ignore[arg-type]  # the rest is Topology's own fields
