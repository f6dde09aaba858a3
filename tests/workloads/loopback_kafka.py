"""Real Apache Kafka on loopback, without namespaces: one controller and a few brokers, each at an address of its own.

For tests and benchmarks of clients. Servers die with this process. Runs of krash go through a backend instead.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from nodes.kafka import archive, config, disk, distribution, formats, log_config
from nodes.kafka.java import archive_flags, find_java, flags
from nodes.topology import BROKER_PORT, NodePlan, ServerRole, Topology, separate


@dataclass(frozen=True)
class LoopbackKafka:
    bootstrap: str
    commands: Mapping[str, tuple[list[str], Path]]  # node -> argv and its directory
    servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    home: Path = Path()

    def start(self, node: str) -> None:
        command, directory = self.commands[node]
        with (directory / "stdout.log").open("ab") as out:
            self.servers[node] = subprocess.Popen(command, cwd=self.home, stdout=out, stderr=out)

    def kill(self, node: str) -> None:
        self.servers[node].kill()
        self.servers[node].wait()

    def create(self, topic: str, partitions: int, replication: int, **settings: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        (created,) = admin.create_topics([NewTopic(topic, partitions, replication, config=settings)]).values()
        created.result(60)

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        (deleted,) = admin.delete_topics([topic]).values()
        deleted.result(60)
        deadline = time.monotonic() + 60
        while topic in admin.list_topics(timeout=10).topics:
            assert time.monotonic() < deadline, f"{topic} is still there"


@contextmanager
def loopback_kafka(directory: Path, *, version: str = "4.3.1", brokers: int = 1) -> Iterator[LoopbackKafka]:
    """Start a cluster, wait until it lists all its brokers, and kill it at the end."""
    jars, java = distribution.fetch_jars(version, progress=print), find_java()
    assert java is not None, "tests marked `kafka` need Java"
    archive.make_archive(jars, java, progress=print)
    topology = separate(system="kafka", version=version, controllers=1, brokers=brokers)
    net = f"127.{random.randrange(1, 250)}.{random.randrange(250)}"
    addresses = {node.name: f"{net}.{place}" for place, node in enumerate(topology.nodes, start=1)}
    commands = {}
    for node in topology.nodes:
        home = directory / node.name
        _write_disk(home, node, topology, addresses, jars)
        command = [
            *("setpriv", "--pdeathsig", "KILL", java.path),
            *flags(heap_mib=256, error_file=str(home / "hs_err.log")),
            *archive_flags(str(archive.archive_path(jars, java))),
            log_config.flag(jars.version, str(home)),
            *("-cp", jars.class_path(), "kafka.Kafka", str(home / "server.properties")),
        ]
        commands[node.name] = (command, home)
    bootstrap = ",".join(f"{addresses[node.name]}:{BROKER_PORT}" for node in topology.brokers)
    kafka = LoopbackKafka(bootstrap, commands, home=jars.home)
    try:
        for name in commands:
            kafka.start(name)
        _wait_until_up(kafka, brokers, within_s=90)
        yield kafka
    finally:
        for name in kafka.servers:
            kafka.kill(name)
        shutil.rmtree(directory, ignore_errors=True)


def _write_disk(
    home: Path, node: NodePlan, topology: Topology, addresses: Mapping[str, str], jars: distribution.Distribution
) -> None:
    data = home / "data"
    data.mkdir(parents=True)
    cluster = disk.cluster_id(addresses)
    (data / disk.META).write_text(
        disk.meta_properties(cluster=cluster, node=node.id, directory=disk.directory_id(cluster, node.id))
    )
    if ServerRole.CONTROLLER in node.roles:
        for name, content in formats.bootstrap_files(jars).items():
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_bytes(content)
    for name, text in log_config.files(str(home / "server.log")).items():
        (home / name).write_text(text)
    (home / "server.properties").write_text(config.properties(node, topology, addresses, data=str(data)))


def _wait_until_up(kafka: LoopbackKafka, brokers: int, within_s: float) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0}, logger=None)
    deadline = time.monotonic() + within_s
    while True:
        try:
            if len(admin.list_topics(timeout=2).brokers) == brokers:
                return
        except Exception:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, f"fewer than {brokers} brokers after {within_s} s (pid {os.getpid()})"
