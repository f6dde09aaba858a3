"""The reference cluster as a system under test (`--system reference`): nodes run in krash's own Python, configured as Kafka is.

Home of a node:

    etc/server.properties      Kafka's names; what this cluster has no use for is left out, what a spec sets is not
    etc/meta.properties        what identifies the node's current disk; survives a wipe
    data/                      log.dirs, in Kafka's layout: `__cluster_metadata-0/`, `orders-0/`, checkpoints
    log/stdout.log

Its metadata log and record batches are Kafka's formats, so the same code follows and reads them.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from nodes.backend import Requirement
from nodes.kafka import config, disk, metadata_follower, metadata_rows
from nodes.kafka.last_words import last_words
from nodes.kafka.metadata_log import BadLog
from nodes.metadata_row import MetadataRow
from nodes.node import Command, Node, NodeRequest
from nodes.reference.metadata.features import LATEST, LEVELS
from nodes.reference.process.configuration import known_names, parse
from nodes.system import QuorumState, SystemUnavailable
from nodes.topology import NodePlan, QuorumKind, Topic, Topology

VERSION: Final = "1"
PROPERTIES: Final = "etc/server.properties"
QUORUM_STATE: Final = f"{metadata_follower.LOG}/quorum-state"
METADATA: Final = "metadata"  # where `collect` puts the metadata log
PROTECTIONS_OFF: Final = "krash.protections.off"
METADATA_VERSION: Final = "krash.metadata.version"


class ReferenceSystem:
    name: ClassVar[str] = "reference"

    @classmethod
    def probe(cls) -> list[Requirement]:
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}, which runs krash itself"
        return [Requirement(name="Python", present=True, found=python, remedy="")]

    @classmethod
    def default_version(cls) -> str:
        return VERSION

    def check(self, topology: Topology) -> None:
        if topology.quorum is QuorumKind.DYNAMIC:
            raise SystemUnavailable("the reference cluster has no dynamic quorum yet: write `quorum: static`")
        if topology.features:
            raise SystemUnavailable("the reference cluster has no features but metadata.version: leave `features` out")
        if topology.metadata_version is not None:
            self._level(topology.metadata_version)
        for plan in topology.nodes:
            if plan.version not in (VERSION, "latest"):
                raise SystemUnavailable(
                    f"{plan.name} wants version {plan.version} of the reference cluster, there is only {VERSION}"
                )

    def fetch(self, version: str, *, progress: Callable[[str], None]) -> None:
        """It comes with krash."""

    def request(self, plan: NodePlan) -> NodeRequest:
        return NodeRequest(name=plan.name, python=True, memory_mib=plan.memory_mib, cpus=plan.cpus)

    async def prepare(self, node: Node, plan: NodePlan, topology: Topology, addresses: Mapping[str, str]) -> None:
        values = parse(config.properties(plan, topology, addresses, data=node.absolute("data")))
        wanted = known_names() | set(plan.config)
        values = {name: value for name, value in values.items() if name in wanted}
        if topology.metadata_version is not None:
            values[METADATA_VERSION] = str(self._level(topology.metadata_version))
        text = "".join(f"{name}={value}\n" for name, value in values.items())
        await node.write(PROPERTIES, text.encode())
        cluster = disk.cluster_id(addresses)
        meta = disk.meta_properties(cluster=cluster, node=plan.id, directory=disk.directory_id(cluster, plan.id))
        await self._write_meta(node, meta)

    async def start(self, node: Node, plan: NodePlan) -> None:
        command = (*node.python, "-m", "nodes.reference.process", node.absolute(PROPERTIES))
        await node.start(Command(argv=command, env={"PYTHONUNBUFFERED": "1"}))

    def flushed_every(self, plan: NodePlan, topic: Topic | None) -> int | None:
        return None  # its checkpoint is written with every flush

    async def reformat(self, node: Node, plan: NodePlan, *, keep_meta: bool, keep_directory_id: bool) -> None:
        """A disk is formatted by its meta.properties alone; a controller's first metadata come from the quorum."""
        known = disk.parse((await node.read(f"etc/{disk.META}")).decode())
        directory = known["directory.id"] if keep_directory_id else disk.next_directory_id(known["directory.id"])
        await self._write_meta(
            node, disk.meta_properties(cluster=known["cluster.id"], node=plan.id, directory=directory)
        )

    async def last_words(self, node: Node) -> str:
        path = "log/stdout.log"
        return last_words([(await node.read(path)).decode(errors="replace")] if await node.exists(path) else [])

    async def quorum_state(self, node: Node) -> QuorumState | None:
        if not await node.exists(QUORUM_STATE):
            return None
        return disk.quorum_state((await node.read(QUORUM_STATE)).decode())

    async def identity(self, node: Node) -> Mapping[str, str]:
        path = f"data/{disk.META}"
        return disk.parse((await node.read(path)).decode()) if await node.exists(path) else {}

    def metadata_level(self, version: str) -> int:
        try:
            return self._level(version)
        except SystemUnavailable as unknown:
            raise ValueError(str(unknown)) from unknown

    def follow_metadata(self, node: Node, *, run: str, clock: str) -> AsyncIterator[Sequence[MetadataRow]]:
        return metadata_follower.follow(node, run=run, clock=clock)

    def collected_metadata(self, directory: Path, *, run: str, clock: str, node: str) -> Iterator[MetadataRow]:
        try:
            yield from metadata_rows.collected(directory / METADATA, run=run, clock=clock, node=node)
        except BadLog as broken:
            raise SystemUnavailable(f"{node}: {broken}") from broken

    async def collect(self, node: Node, to: Path) -> None:
        for path in ("log", "etc"):
            await node.fetch(path, to / path)
        for path in await node.list(metadata_follower.LOG):
            await node.fetch(f"{metadata_follower.LOG}/{path}", to / METADATA / path)

    def _level(self, version: str) -> int:
        """ "3.5-IV1" is itself; "3.5" is the last one of that release."""
        levels = [level for level, name in LEVELS.items() if name == version or name.split("-")[0] == version]
        if not levels:
            raise SystemUnavailable(
                f"metadata.version {version!r} is not known to the reference cluster: {LEVELS[1]} to {LEVELS[LATEST]}"
            )
        return max(levels)

    async def _write_meta(self, node: Node, meta: str) -> None:
        await node.write(f"etc/{disk.META}", meta.encode())
        await node.write(f"data/{disk.META}", meta.encode())
