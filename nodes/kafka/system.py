"""Apache Kafka as a system under test: jars from `distribution`, text from `config` and `log_config`, disks from `disk` and `formats`.

Home of a node:

    etc/server.properties, log4j*.properties
    etc/meta.properties        what identifies the node's current disk; survives a wipe
    etc/format/...             what formatting writes on a controller's disk; survives a wipe
    etc/first/...              the same on its first disk in a dynamic quorum: it names the first voters as well
    data/                      log.dirs: everything the server knows
    log/{server,stdout}.log

The process is `sh -c 'cd DISTRIBUTION && exec java ...'`: the class path is relative (see nodes/kafka/distribution.py).
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

from nodes.backend import Requirement
from nodes.kafka import config, disk, formats, log_config, metadata_follower, metadata_rows
from nodes.kafka.abilities import check
from nodes.kafka.archive import archive_path, make_archive
from nodes.kafka.distribution import Distribution, cache_root, cached_versions, exclusive, fetch_jars, locate
from nodes.kafka.java import OLDEST, archive_flags, find_java, flags, requirement
from nodes.kafka.last_words import last_words
from nodes.kafka.metadata_log import BadLog
from nodes.kafka.version import LATEST, metadata_level, release
from nodes.metadata_row import MetadataRow
from nodes.node import Command, Node, NodeRequest
from nodes.system import QuorumState, SystemUnavailable
from nodes.topology import NodePlan, QuorumKind, ServerRole, Topic, Topology

CACHE: Final = "kafka"  # mount names
FORMAT: Final = "etc/format"
FIRST: Final = "etc/first"
UNPACKED: Final = "kafka-unpacked"
QUORUM_STATE: Final = f"{metadata_follower.LOG}/quorum-state"
METADATA: Final = "metadata"  # where `collect` puts the metadata log
BROKER_HEAP_MIB, CONTROLLER_HEAP_MIB = 256, 192


class KafkaSystem:
    name: ClassVar[str] = "kafka"

    def __init__(self) -> None:
        self._java: dict[str, str] = {}  # node name -> its java

    @classmethod
    def probe(cls) -> list[Requirement]:
        maven, cached = shutil.which("mvn"), cached_versions()
        found = f"{maven or 'no mvn on the PATH'}; cached releases: {', '.join(cached) or 'none'}"
        able = maven is not None or bool(
            cached
        )  # what is cached runs without it; fetching another release says what it lacks
        remedy = "" if able else "sudo apt-get install maven"
        return [
            requirement(),
            Requirement(name="Maven, or a cached Kafka", present=able, found=found, remedy=remedy),
        ]

    @classmethod
    def default_version(cls) -> str:
        return LATEST

    def check(self, topology: Topology) -> None:
        check(topology)

    def fetch(self, version: str, *, progress: Callable[[str], None]) -> None:
        """Jars, the default format and the class data archive, each only when it is missing."""
        java = find_java()
        if java is None or java.major < OLDEST:
            raise SystemUnavailable(f"Kafka needs Java {OLDEST} or newer: {requirement().remedy}")
        distribution = fetch_jars(version, progress=progress)
        if archive_path(distribution, java).is_file():
            return
        with exclusive(distribution.derived.name, progress=progress):
            formats.bootstrap_files(distribution)
            make_archive(distribution, java, progress=progress)

    def request(self, plan: NodePlan) -> NodeRequest:
        """Mounts the whole cache, so that a node can be restarted on any release in it."""
        distribution = locate(plan.version)
        mounts = {CACHE: cache_root()}
        if distribution.unpacked:
            mounts[UNPACKED] = distribution.home
        return NodeRequest(name=plan.name, mounts=mounts, memory_mib=plan.memory_mib, cpus=plan.cpus)

    async def prepare(self, node: Node, plan: NodePlan, topology: Topology, addresses: Mapping[str, str]) -> None:
        text = config.properties(plan, topology, addresses, data=node.absolute("data"))
        await node.write("etc/server.properties", text.encode())
        levels = {**log_config.LEVELS, **dict.fromkeys(topology.debug, "DEBUG")}
        for name, configuration in log_config.files(node.absolute(log_config.FILE), levels).items():
            await node.write(f"etc/{name}", configuration.encode())
        cluster = disk.cluster_id(addresses)
        meta = disk.meta_properties(cluster=cluster, node=plan.id, directory=disk.directory_id(cluster, plan.id))
        await self._write_meta(node, meta)
        if ServerRole.CONTROLLER in plan.roles:
            for place, format in _formats(cluster, topology, addresses).items():
                for path, content in (
                    await asyncio.to_thread(formats.bootstrap_files, _oldest(topology), format)
                ).items():
                    await node.write(f"{place}/{path}", content)
                await self._write_format(node, place)
        self._java[node.name] = await _java_of(node)

    async def start(self, node: Node, plan: NodePlan) -> None:
        """`plan.version` decides the release; it must be in the cache (or be the unpacked distribution that the node was added with)."""
        distribution = locate(plan.version)
        etc = node.absolute("etc")
        command = [
            self._java.get(node.name) or await _java_of(node),
            *flags(heap_mib=_heap_mib(plan), error_file=node.absolute("log/hs_err.log")),
            *_archive(node, distribution),
            log_config.flag(distribution.version, etc),
            *("-cp", distribution.class_path(), "kafka.Kafka", f"{etc}/server.properties"),
        ]
        await node.start(Command(argv=("sh", "-c", 'cd "$0" && exec "$@"', _home(node, distribution), *command)))

    def flushed_every(self, plan: NodePlan, topic: Topic | None) -> int | None:
        """`flush.messages`: Kafka flushes after each append that makes so many, and writes the checkpoint once a minute."""
        said = plan.config.get("log.flush.interval.messages")
        if topic is not None:
            said = topic.config.get("flush.messages", said)
        return None if said is None else int(said)

    async def reformat(self, node: Node, plan: NodePlan, *, keep_meta: bool, keep_directory_id: bool) -> None:
        """Make a wiped disk startable, as an operator would.

        keep_meta: meta.properties was saved and put back, nothing else: a controller comes back without bootstrap metadata. Otherwise the
        disk is formatted anew; in a dynamic quorum with `--no-initial-controllers`, since it joins a quorum that exists already.
        keep_directory_id: the disk keeps its name (3.7+), so the cluster cannot tell that it was replaced.
        """
        known = disk.parse((await node.read(f"etc/{disk.META}")).decode())
        directory = known["directory.id"] if keep_directory_id else disk.next_directory_id(known["directory.id"])
        await self._write_meta(
            node, disk.meta_properties(cluster=known["cluster.id"], node=plan.id, directory=directory)
        )
        if ServerRole.CONTROLLER in plan.roles and not keep_meta:
            await self._write_format(node, FORMAT)

    async def last_words(self, node: Node) -> str:
        texts = [await node.read(path) for path in (log_config.FILE, "log/stdout.log") if await node.exists(path)]
        return last_words(text.decode(errors="replace") for text in texts)

    async def quorum_state(self, node: Node) -> QuorumState | None:
        if not await node.exists(QUORUM_STATE):
            return None
        return disk.quorum_state((await node.read(QUORUM_STATE)).decode())

    async def identity(self, node: Node) -> Mapping[str, str]:
        path = f"data/{disk.META}"
        return disk.parse((await node.read(path)).decode()) if await node.exists(path) else {}

    def metadata_level(self, version: str) -> int:
        return metadata_level(version)

    def follow_metadata(self, node: Node, *, run: str, clock: str) -> AsyncIterator[Sequence[MetadataRow]]:
        return metadata_follower.follow(node, run=run, clock=clock)

    def collected_metadata(self, directory: Path, *, run: str, clock: str, node: str) -> Iterator[MetadataRow]:
        try:
            yield from metadata_rows.collected(directory / METADATA, run=run, clock=clock, node=node)
        except BadLog as broken:
            raise SystemUnavailable(f"{node}: {broken}") from broken

    async def collect(self, node: Node, to: Path) -> None:
        """Without the metadata log's indexes: they are preallocated (20 MiB a node), and nobody reads them."""
        for path in ("log", "etc"):
            await node.fetch(path, to / path)
        for path in await node.list(metadata_follower.LOG):
            if not path.endswith("index"):
                await node.fetch(f"{metadata_follower.LOG}/{path}", to / METADATA / path)

    async def _write_meta(self, node: Node, meta: str) -> None:
        await node.write(f"etc/{disk.META}", meta.encode())
        await node.write(f"data/{disk.META}", meta.encode())

    async def _write_format(self, node: Node, place: str) -> None:
        for path in await node.list(place):
            await node.write(f"data/{path}", await node.read(f"{place}/{path}"))


def _formats(cluster: str, topology: Topology, addresses: Mapping[str, str]) -> dict[str, formats.Format]:
    """Where each format of a controller's disk is kept; the last one is the first disk's."""
    plain = formats.Format(metadata_version=topology.metadata_version, features=topology.features)
    if topology.quorum is QuorumKind.STATIC:
        return {FORMAT: plain}
    directories = {voter.id: disk.directory_id(cluster, voter.id) for voter in topology.controllers}
    voters = config.initial_controllers(topology, addresses, directories)
    return {FORMAT: plain, FIRST: replace(plain, voters=voters)}


def _oldest(topology: Topology) -> Distribution:
    """Formats all controllers: a cluster must not begin at a metadata.version that one of its nodes does not know."""
    return min(
        (locate(plan.version) for plan in topology.nodes), key=lambda distribution: release(distribution.version)
    )


def _heap_mib(plan: NodePlan) -> int:
    """At most half of the node's memory, if that is limited: the rest is for the JVM itself and for buffers."""
    wanted = BROKER_HEAP_MIB if ServerRole.BROKER in plan.roles else CONTROLLER_HEAP_MIB
    return wanted if plan.memory_mib is None else max(96, min(wanted, plan.memory_mib // 2))


def _home(node: Node, distribution: Distribution) -> str:
    if distribution.unpacked:
        return node.mounted(UNPACKED)
    return f"{node.mounted(CACHE)}/{distribution.home.name}"


def _archive(node: Node, distribution: Distribution) -> list[str]:
    java = find_java()
    path = archive_path(distribution, java) if java else None
    if path is None or not path.is_file():
        return []
    return archive_flags(f"{node.mounted(CACHE)}/{path.relative_to(cache_root())}")


async def _java_of(node: Node) -> str:
    """The harness's own Java where the node has it (archives are made for it), else whatever the node calls java."""
    java = find_java()
    if java is None:
        return "java"
    return java.path if (await node.run(("test", "-x", java.path), timeout=30)).code == 0 else "java"
