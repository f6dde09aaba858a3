"""A system under test: how its nodes are prepared, started, judged ready and stopped. Registered as `krash.systems` entry points.

`fetch` runs outside the backend's enclosure (it may need the network for jars) and before the run; everything else runs inside.
A node's disk is home-relative `data/`; configuration `etc/`; logs `log/`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from nodes.backend import Requirement
from nodes.metadata_row import MetadataRow
from nodes.node import Node, NodeRequest
from nodes.topology import NodePlan, Topic, Topology


class SystemUnavailable(Exception):
    """The system under test could not be fetched, configured or started; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class QuorumState:
    """What one controller has written down about the quorum: whom it follows or votes for, in which epoch."""

    leader: int  # node id, -1: knows of none
    epoch: int
    voted: int  # node id, -1: for nobody


class System(Protocol):
    name: ClassVar[str]

    @classmethod
    def probe(cls) -> list[Requirement]: ...
    @classmethod
    def default_version(cls) -> str: ...
    def check(self, topology: Topology) -> None:
        """SystemUnavailable names what in this topology the system cannot do, before anything is fetched or started."""
        ...

    def fetch(self, version: str, *, progress: Callable[[str], None]) -> None:
        """Make a version available on this machine; quick when it is cached already. SystemUnavailable names what is missing."""
        ...

    def request(self, plan: NodePlan) -> NodeRequest:
        """The node to ask a backend for (mounts for jars and the like)."""
        ...

    async def prepare(self, node: Node, plan: NodePlan, topology: Topology, addresses: Mapping[str, str]) -> None:
        """Write configuration and format the disk. `addresses`: node name -> IPv4 of every node."""
        ...

    async def start(self, node: Node, plan: NodePlan) -> None:
        """Start the process; returns at once, readiness is the cluster's question."""
        ...

    def flushed_every(self, plan: NodePlan, topic: Topic | None) -> int | None:
        """Records after which a node flushes a log of this topic (None: one of its own topics) although its
        `recovery-point-offset-checkpoint` does not say so yet; None: what the checkpoint says is all that it has flushed."""
        ...

    async def reformat(self, node: Node, plan: NodePlan, *, keep_meta: bool, keep_directory_id: bool) -> None:
        """After a wipe of the data directory: make it startable again (see nemesis/disks.py)."""
        ...

    async def last_words(self, node: Node) -> str:
        """Why a node that died by itself did, from the end of its logs: the likely cause, then the lines that say so."""
        ...

    async def quorum_state(self, node: Node) -> QuorumState | None:
        """From the node's disk, so also of one that is paused or gone; None when it has written none."""
        ...

    async def identity(self, node: Node) -> Mapping[str, str]:
        """What names the node's disk: {"cluster.id": ..., "node.id": "1", "directory.id": ...}; empty when it is wiped."""
        ...

    def metadata_level(self, version: str) -> int:
        """Level of a metadata.version by name ("3.9", "3.5-IV1"). ValueError names what is not one."""
        ...

    def follow_metadata(self, node: Node, *, run: str, clock: str) -> AsyncIterator[Sequence[MetadataRow]]:
        """A controller's copy of the metadata log as rows, while it grows, until the iterator is closed.

        In the order of the log, some rows at a time, soon (50 ms) after they are in the file. An empty sequence: what follows is told from
        the log's beginning, at first and whenever it was cut or replaced. A system without such a log yields nothing.
        """
        ...

    def collected_metadata(self, directory: Path, *, run: str, clock: str, node: str) -> Iterator[MetadataRow]:
        """The same, complete, from what `collect` copied to `nodes/<name>/`; SystemUnavailable when it cannot be read."""
        ...

    async def collect(self, node: Node, to: Path) -> None:
        """Copy logs, configuration and the metadata log into a run directory's `nodes/<name>/`."""
        ...
