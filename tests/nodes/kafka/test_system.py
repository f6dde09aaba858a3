"""Disks of an Apache Kafka node, on a node in memory and jars that are never run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from nodes.deploy import check
from nodes.kafka import disk
from nodes.kafka.formats import Format
from nodes.kafka.java import find_java
from nodes.kafka.system import KafkaSystem
from nodes.node import Command, Completed
from nodes.system import SystemUnavailable
from nodes.topology import QuorumKind, Topic, Topology, separate

PLAN = separate(system="kafka", version="3.9.2", controllers=1, brokers=1)
ADDRESSES = {"c1": "10.0.0.1", "b1": "10.0.0.2"}


class MemoryNode:
    def __init__(self, name: str) -> None:
        self.name, self.address, self.clock, self.python = name, ADDRESSES[name], "host", ()
        self.files: dict[str, bytes] = {}
        self.started: list[Command] = []

    def absolute(self, path: str) -> str:
        return f"/home/{self.name}/{path}"

    def mounted(self, name: str) -> str:
        return f"/mnt/{name}"

    async def run(self, argv: tuple[str, ...], *, timeout: float, stdin: bytes = b"") -> Completed:
        return Completed(code=1, stdout=b"", stderr=b"")

    async def start(self, command: Command) -> None:
        self.started.append(command)

    async def write(self, path: str, content: bytes) -> None:
        self.files[path] = content

    async def read(self, path: str) -> bytes:
        return self.files[path]

    async def list(self, path: str) -> list[str]:
        return sorted(name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/"))

    def disk(self) -> dict[str, bytes]:
        return {name: content for name, content in self.files.items() if name.startswith("data/")}

    def wipe(self) -> None:
        self.files = {name: content for name, content in self.files.items() if not name.startswith("data/")}

    def directory_id(self) -> str:
        return disk.parse(self.files["data/meta.properties"].decode())["directory.id"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release in the cache: a jar that is none, its format, and an archive for this Java where there is one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    home = tmp_path / "krash" / "kafka" / "3.9.2"
    for path in (
        "libs/kafka_2.13-3.9.2.jar",
        "formats/default/bootstrap.checkpoint",
        "formats/3.4/bootstrap.checkpoint",
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(path.encode())
    return home


def prepared(name: str, topology: Topology = PLAN) -> tuple[KafkaSystem, MemoryNode]:
    system, node = KafkaSystem(), MemoryNode(name)
    asyncio.run(system.prepare(node, topology.node(name), topology, ADDRESSES))  # type: ignore[arg-type]
    return system, node


def reformat(system: KafkaSystem, node: MemoryNode, *, keep_meta: bool, keep_directory_id: bool) -> None:
    plan = PLAN.node(node.name)
    asyncio.run(system.reformat(node, plan, keep_meta=keep_meta, keep_directory_id=keep_directory_id))  # type: ignore[arg-type]


def test_a_controller_s_disk_holds_its_identity_and_the_metadata_version_to_begin_with() -> None:
    _, node = prepared("c1", replace(PLAN, metadata_version="3.4"))
    assert set(node.disk()) == {"data/meta.properties", "data/bootstrap.checkpoint"}
    assert node.files["data/bootstrap.checkpoint"] == b"formats/3.4/bootstrap.checkpoint"
    assert disk.parse(node.files["data/meta.properties"].decode()).keys() == {
        "version",
        "cluster.id",
        "node.id",
        "directory.id",
    }


def test_all_nodes_belong_to_one_cluster_and_have_disks_of_their_own() -> None:
    (_, controller), (_, broker) = prepared("c1"), prepared("b1")
    ids = [disk.parse(node.files["data/meta.properties"].decode()) for node in (controller, broker)]
    assert ids[0]["cluster.id"] == ids[1]["cluster.id"]
    assert ids[0]["directory.id"] != ids[1]["directory.id"]
    assert set(broker.disk()) == {"data/meta.properties"}


def test_a_mixed_cluster_begins_at_what_its_oldest_node_knows(cache: Path) -> None:
    for path in ("libs/kafka_2.13-4.3.1.jar", "formats/default/bootstrap.checkpoint"):
        target = cache.parent / "4.3.1" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"4.3.1")
    mixed = replace(PLAN, nodes=(replace(PLAN.nodes[0], version="4.3.1"), PLAN.nodes[1]))
    _, node = prepared("c1", mixed)
    assert node.files["data/bootstrap.checkpoint"] == b"formats/default/bootstrap.checkpoint"


@pytest.mark.parametrize("keep_meta", [True, False])
def test_a_replaced_disk_keeps_or_changes_its_directory_id(keep_meta: bool) -> None:
    system, node = prepared("b1")
    first = node.directory_id()
    node.wipe()
    reformat(system, node, keep_meta=keep_meta, keep_directory_id=True)
    assert node.directory_id() == first
    seen = {first}
    for _ in range(2):
        node.wipe()
        reformat(system, node, keep_meta=keep_meta, keep_directory_id=False)
        assert node.directory_id() not in seen
        seen.add(node.directory_id())
    node.wipe()
    reformat(system, node, keep_meta=keep_meta, keep_directory_id=True)
    assert node.directory_id() in seen - {first}


def test_a_controller_that_only_got_its_meta_properties_back_has_no_bootstrap_metadata() -> None:
    system, node = prepared("c1")
    for keep_meta, files in (
        (True, {"data/meta.properties"}),
        (False, {"data/meta.properties", "data/bootstrap.checkpoint"}),
    ):
        node.wipe()
        reformat(system, node, keep_meta=keep_meta, keep_directory_id=True)
        assert set(node.disk()) == files


def test_only_the_first_disk_of_a_dynamic_quorum_names_the_voters(cache: Path) -> None:
    """A controller that comes back without its disk joins a quorum that exists: `format --no-initial-controllers`."""
    dynamic = replace(PLAN, quorum=QuorumKind.DYNAMIC)
    cluster = disk.cluster_id(ADDRESSES)
    voters = f"101@10.0.0.1:9093:{disk.directory_id(cluster, 101)}"
    snapshot = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    for path in ("bootstrap.checkpoint", snapshot):
        target = cache / "formats" / Format(voters=voters).name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"")
    system, node = prepared("c1", dynamic)
    first = node.directory_id()
    assert set(node.disk()) == {"data/meta.properties", "data/bootstrap.checkpoint", f"data/{snapshot}"}
    for keep in (True, False):
        node.wipe()
        reformat(system, node, keep_meta=False, keep_directory_id=keep)
        assert set(node.disk()) == {"data/meta.properties", "data/bootstrap.checkpoint"}
        assert (node.directory_id() == first) is keep


def test_more_loggers_write_at_debug_level_when_asked_to() -> None:
    for debug, said in (((), False), (("kafka.cluster.Partition",), True)):
        _, node = prepared("b1", replace(PLAN, debug=debug))
        assert (b"log4j.logger.kafka.cluster.Partition=DEBUG" in node.files["etc/log4j.properties"]) is said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"quorum": QuorumKind.DYNAMIC}, r"b1 runs Kafka 3.4.1, but a dynamic quorum \(KIP-853\) needs 3.9 or newer"),
        ({"features": {"transaction.version": 1}}, "b1 runs Kafka 3.4.1, but features at format time needs 3.9"),
    ],
)
def test_what_a_release_cannot_do_is_refused(asked: dict[str, object], said: str) -> None:
    topology = replace(PLAN, **asked)  # type: ignore[arg-type]
    KafkaSystem().check(topology)
    old = replace(topology, nodes=(topology.nodes[0], replace(topology.nodes[1], version="3.4.1")))
    with pytest.raises(SystemUnavailable, match=said):
        KafkaSystem().check(old)


def test_before_3_3_there_is_no_metadata_version_to_choose_and_nothing_to_bootstrap(cache: Path) -> None:
    old = separate(system="kafka", version="3.2.3", controllers=1, brokers=1)
    KafkaSystem().check(old)
    with pytest.raises(SystemUnavailable, match=r"c1 runs Kafka 3\.2\.3, but a metadata\.version needs 3\.3"):
        KafkaSystem().check(replace(old, metadata_version="3.4"))
    (cache.parent / "3.2.3" / "libs").mkdir(parents=True)
    _, node = prepared("c1", old)
    assert set(node.disk()) == {"data/meta.properties"}


def test_a_server_is_started_inside_its_distribution_with_a_relative_class_path(cache: Path) -> None:
    system, node = prepared("b1")
    asyncio.run(system.start(node, PLAN.node("b1")))  # type: ignore[arg-type]
    argv = node.started[0].argv
    assert argv[:4] == ("sh", "-c", 'cd "$0" && exec "$@"', "/mnt/kafka/3.9.2")
    assert argv[4] == "java"  # this node has not the harness's own
    assert argv[-4:] == ("-cp", "libs/kafka_2.13-3.9.2.jar", "kafka.Kafka", "/home/b1/etc/server.properties")
    assert not any(flag.startswith("-XX:SharedArchiveFile") for flag in argv)

    java = find_java()
    if java is not None:
        (cache / "archives").mkdir()
        (cache / "archives" / f"{java.key}.jsa").write_bytes(b"")
        asyncio.run(system.start(node, PLAN.node("b1")))  # type: ignore[arg-type]
        assert f"-XX:SharedArchiveFile=/mnt/kafka/3.9.2/archives/{java.key}.jsa" in node.started[1].argv


def test_heap_follows_the_node_s_memory() -> None:
    system, node = prepared("b1")
    for memory, heap in ((None, "-Xmx256m"), (400, "-Xmx200m"), (100, "-Xmx96m"), (4096, "-Xmx256m")):
        asyncio.run(system.start(node, replace(PLAN.node("b1"), memory_mib=memory)))  # type: ignore[arg-type]
        assert heap in node.started[-1].argv


def test_a_format_has_a_name_of_its_own() -> None:
    formats = [
        Format(),
        Format(metadata_version="3.4"),
        Format(features={"transaction.version": 1}),
        Format(features={"transaction.version": 2}),
        Format(voters="101@10.0.0.1:9093:x"),
        Format(voters="101@10.0.0.2:9093:x"),
    ]
    assert len({format.name for format in formats}) == len(formats)
    with pytest.raises(SystemUnavailable, match=r"'\.\./x' is not a feature"):
        _ = Format(features={"../x": 1}).name


def test_a_metadata_version_is_never_a_path() -> None:
    with pytest.raises(SystemUnavailable, match=r"is not a metadata\.version"):
        prepared("c1", replace(PLAN, metadata_version="../../etc"))


def test_maven_is_only_needed_when_nothing_is_cached(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert KafkaSystem.probe()[1].present
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    lacking = KafkaSystem.probe()[1]
    assert (lacking.present, lacking.remedy) == (False, "sudo apt-get install maven")


def test_a_node_asks_for_the_cache_and_for_an_unpacked_distribution(cache: Path, tmp_path: Path) -> None:
    assert KafkaSystem().request(PLAN.node("b1")).mounts == {"kafka": cache.parent}
    own = tmp_path / "own"
    (own / "libs").mkdir(parents=True)
    (own / "libs" / "kafka_2.13-4.4.0-SNAPSHOT.jar").write_bytes(b"")
    request = KafkaSystem().request(replace(PLAN.node("b1"), version=str(own)))
    assert request.mounts == {"kafka": cache.parent, "kafka-unpacked": own}


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        (replace(PLAN, nodes=PLAN.nodes[:1]), "at least one controller and one broker"),
        (replace(PLAN, nodes=(*PLAN.nodes, PLAN.nodes[0])), "two nodes have the same name: c1"),
        (replace(PLAN, nodes=(*PLAN.nodes, replace(PLAN.nodes[0], name="c2"))), "two nodes have the same id: 101"),
        (
            replace(PLAN, topics=(Topic(name="t", partitions=1, replication=3),)),
            "topic t wants 3 replicas; there are 1 brokers",
        ),
        (
            replace(PLAN, topics=(Topic(name="t", partitions=1, replication=1, assignment={0: (1, 7)}),)),
            r"topic t is assigned to unknown brokers \[7\]",
        ),
    ],
)
def test_what_cannot_be_deployed_is_named_first(topology: Topology, said: str) -> None:
    with pytest.raises(SystemUnavailable, match=said):
        check(topology)


def test_indexes_of_the_metadata_log_are_not_collected(tmp_path: Path) -> None:
    class Fetched(MemoryNode):
        async def fetch(self, path: str, to: Path) -> None:
            fetched[path] = to

    fetched: dict[str, Path] = {}
    node = Fetched("c1")
    log = "data/__cluster_metadata-0"
    node.files = dict.fromkeys(
        (f"{log}/0.log", f"{log}/0.index", f"{log}/0.timeindex", f"{log}/quorum-state", "log/server.log"), b""
    )
    asyncio.run(KafkaSystem().collect(node, tmp_path))  # type: ignore[arg-type]  # as much of a node as it needs
    assert fetched == {
        "log": tmp_path / "log",
        "etc": tmp_path / "etc",
        f"{log}/0.log": tmp_path / "metadata" / "0.log",
        f"{log}/quorum-state": tmp_path / "metadata" / "quorum-state",
    }
