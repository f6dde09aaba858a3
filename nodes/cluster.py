"""A deployed cluster: its nodes, and what its own protocol says about leaders, ISRs and controllers. Faults and races act on this.

Views come from the protocol (Metadata to the brokers, DescribeQuorum to the controllers), never from logs. A view may be stale or differ
between brokers; `view()` asks all that answer and takes, per partition, the highest leader epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nodes.backend import Backend
from nodes.event import Event
from nodes.node import Node
from nodes.system import System
from nodes.topology import Topology


@dataclass(frozen=True, kw_only=True)
class PartitionView:
    topic: str
    partition: int
    leader: int  # broker id, -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    at_ns: int
    answered: frozenset[str]  # names of the brokers that answered
    brokers: frozenset[int]  # unfenced broker ids
    partitions: Mapping[tuple[str, int], PartitionView]
    controller: str | None  # name of the active controller, None: unknown


@dataclass(kw_only=True)
class Cluster:
    run: str
    topology: Topology
    system: System
    backend: Backend
    nodes: dict[str, Node]  # servers by name
    clients: dict[str, Node]
    on_event: Callable[[Event], None]
    versions: dict[str, str] = field(default_factory=dict)  # current version per node, for rolling upgrades

    # Verbs (implemented with the Kafka system): deploy, start, stop, kill, pause, resume, wipe, roll_back, view, ready, recovered ...
