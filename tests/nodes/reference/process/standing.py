"""A node as a process of its own, with both roles, on loopback and in a directory of the test: what is done to it is done to nobody else.

with standing(tmp_path, {"log.flush.interval.messages": "1"}) as node:
    node.clients, node.controllers          # addresses
    node.until_ready()
    node.end()                              # SIGTERM; its exit code
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kio.schema.metadata.v12 import MetadataRequest, MetadataResponse

from nodes.protocol.connection import Connection, Unreachable
from nodes.reference.environment import Address

PATIENCE = 120.0  # seconds
EVERYTHING = MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
ROOT = Path(__file__).parents[4]


class Standing:
    """said: what it has logged."""

    def __init__(self, directory: Path, settings: Mapping[str, str], prefix: Sequence[str]) -> None:
        self.clients, self.controllers = (Address("127.0.0.1", port) for port in _free_ports(2))
        directory.mkdir(parents=True, exist_ok=True)
        values = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.clients.port},CONTROLLER://127.0.0.1:{self.controllers.port}",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controllers.port}",
            "log.dirs": str(directory / "data"),
            "broker.heartbeat.interval.ms": "200",
            "controller.quorum.election.timeout.ms": "100",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        self._file = directory / "node.properties"
        self._file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        self._log = directory / "log"
        self.start(prefix)

    @property
    def bootstrap(self) -> str:
        return f"{self.clients.host}:{self.clients.port}"

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def resident(self) -> int:
        """Bytes of memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS:"))

    def start(self, prefix: Sequence[str]) -> None:
        command = [*prefix, sys.executable, "-m", "nodes.reference.process", str(self._file)]
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True
            )

    def until_ready(self) -> None:
        """Its broker serves clients, or there is nothing to wait for any more."""
        deadline = time.monotonic() + PATIENCE
        while not asyncio.run(_serves(self.clients)):
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.02)

    def ended(self) -> int:
        """Its exit code, when it has ended by itself."""
        return self.process.wait(PATIENCE)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


@contextmanager
def standing(
    directory: Path, settings: Mapping[str, str] | None = None, *, prefix: Sequence[str] = ()
) -> Iterator[Standing]:
    """prefix: a command that runs the node, such as `unshare`."""
    node = Standing(directory, settings or {}, prefix)
    try:
        yield node
    finally:
        node.kill()


async def _serves(address: Address) -> bool:
    try:
        async with await Connection.open(*address, timeout=PATIENCE) as connection:
            return bool((await connection.ask(EVERYTHING, MetadataResponse, timeout=PATIENCE)).brokers)
    except Unreachable:
        return False


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
