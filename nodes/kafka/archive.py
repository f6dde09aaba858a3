"""A class data archive per release and Java runtime: starting then maps classes instead of parsing 40 jars (AppCDS).

Made once, by running one combined node on loopback with `-XX:ArchiveClassesAtExit` through what every run does (create a topic, get a
producer id) and stopping it. A missing or unfitting archive only costs time, so failing to make one is told and no error.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nodes.kafka import formats, log_config
from nodes.kafka.config import COMMON, replication
from nodes.kafka.disk import META, cluster_id, directory_id, meta_properties
from nodes.kafka.distribution import Distribution
from nodes.kafka.java import Java, flags
from nodes.protocol import requests
from nodes.protocol.connection import Connection, Unreachable
from nodes.topology import Topic

START_S: Final = 90.0
STOP_S: Final = 180.0
HEAP_MIB: Final = 256


def archive_path(distribution: Distribution, java: Java) -> Path:
    return distribution.derived / "archives" / f"{java.key}.jsa"


def make_archive(distribution: Distribution, java: Java, *, progress: Callable[[str], None]) -> bool:
    """Make the archive unless it is there; whether it is there afterwards."""
    path = archive_path(distribution, java)
    if path.is_file():
        return True
    progress(f"preparing quick starts of Kafka {distribution.version} on Java {java.version} (once, about 15 s)")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".train-") as scratch:
        made = Path(scratch) / "archive.jsa"
        try:
            _train(distribution, java, Path(scratch), made)
        except (OSError, subprocess.SubprocessError, Unreachable, requests.Declined, TimeoutError) as error:
            progress(
                f"could not prepare quick starts of Kafka {distribution.version}; it will start more slowly ({error})"
            )
            return False
        made.rename(path)
    return True


def _train(distribution: Distribution, java: Java, scratch: Path, made: Path) -> None:
    broker, controller = _free_ports(2)
    _disk(distribution, scratch, broker, controller)
    for name, content in log_config.files(str(scratch / "server.log")).items():
        (scratch / name).write_text(content)
    command = [
        java.path,
        *flags(heap_mib=HEAP_MIB, error_file=str(scratch / "hs_err.log")),
        f"-XX:ArchiveClassesAtExit={made}",
    ]
    command += [
        log_config.flag(distribution.version, str(scratch)),
        "-cp",
        distribution.class_path(),
        "kafka.Kafka",
        str(scratch / "server.properties"),
    ]
    guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    with (scratch / "stdout.log").open("wb") as out:
        server = subprocess.Popen(
            [*guard, *command], cwd=distribution.home, stdout=out, stderr=out, start_new_session=True
        )
        try:
            asyncio.run(_exercise(server, broker))
            server.send_signal(signal.SIGTERM)
            server.wait(STOP_S)
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
    if not made.is_file():
        said = (scratch / "stdout.log").read_text(errors="replace").strip()[-300:]
        raise OSError(f"the JVM wrote no archive: {said or f'exit code {server.returncode}'}")


def _disk(distribution: Distribution, scratch: Path, broker: int, controller: int) -> None:
    data = scratch / "data"
    data.mkdir()
    for path, content in formats.bootstrap_files(distribution).items():
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_bytes(content)
    cluster = cluster_id({})
    (data / META).write_text(meta_properties(cluster=cluster, node=1, directory=directory_id(cluster, 1)))
    values = {name: value for name, (value, _) in COMMON.items()} | replication(1)
    values |= {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{broker}",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(data),
    }
    (scratch / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in values.items()))


async def _exercise(server: subprocess.Popen[bytes], port: int) -> None:
    async with asyncio.timeout(START_S):
        while True:
            try:
                connection = await Connection.open("127.0.0.1", port, timeout=5)
                break
            except Unreachable:
                if server.poll() is not None:
                    raise OSError(f"the server exited with code {server.returncode}") from None
                await asyncio.sleep(0.2)
        async with connection:
            while not (await requests.metadata(connection, timeout=10)).brokers:  # noqa: ASYNC110, there is nothing to be told by
                await asyncio.sleep(0.2)
            await requests.create_topic(connection, Topic(name="train", partitions=2, replication=1), timeout=30)
            with contextlib.suppress(requests.Declined):  # it may have none yet; asking is what loads the classes
                await requests.producer_id(connection, timeout=30)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
