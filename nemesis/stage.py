"""What a fault may do to a cluster: the part of `nodes/cluster.py` that the nemesis uses, so that faults can be tried in memory.

The names are those of `nodes.cluster.Cluster`; with its gate (nemesis/wire/cluster.py) it is one such stage. Verbs take a node's name and
return when their effect is there; `start`, `kill`, `pause` and `resume` take a client's, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from nemesis.wire.gate import Gate
from nodes.backend import Capability
from nodes.metadata import MetadataView
from nodes.network import Network
from nodes.node import Node
from nodes.topology import Topology
from nodes.view import ClusterView


class Stage(Protocol):
    @property
    def run(self) -> str: ...
    @property
    def topology(self) -> Topology: ...
    @property
    def nodes(self) -> Mapping[str, Node]: ...
    @property
    def clients(self) -> Mapping[str, Node]: ...
    @property
    def network(self) -> Network: ...
    @property
    def capabilities(self) -> frozenset[Capability]: ...
    @property
    def gate(self) -> Gate | None:
        """The wire gate, in runs that have one (`wire` in the spec)."""
        ...

    @property
    def deaths(self) -> Mapping[str, str]:
        """Nodes that died although no verb ended them, and how; until they are started again."""
        ...

    async def view(self) -> ClusterView: ...
    async def metadata_told(self, met: Callable[[MetadataView], bool]) -> MetadataView:
        """Until the controllers' metadata log tells it; never, where there is no such log. No deadline of its own."""
        ...

    async def high_watermark(self, topic: str, partition: int) -> int | None:
        """As the partition's leader tells it, None when nobody does."""
        ...

    async def answers(self, name: str) -> bool:
        """Does the node answer a request of its own protocol, within a second or so?"""
        ...

    def flushed_every(self, name: str, topic: str) -> int | None:
        """See System.flushed_every."""
        ...

    async def start(self, name: str) -> None: ...
    async def kill(self, name: str) -> None: ...
    async def stop(self, name: str, *, timeout: float) -> int | None: ...
    async def pause(self, name: str) -> None: ...
    async def resume(self, name: str) -> None: ...
    async def reformat(self, name: str, *, keep_meta: bool, keep_directory_id: bool) -> None:
        """After a wipe: make the node startable again."""
        ...
