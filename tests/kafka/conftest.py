"""Tests here are coroutines that run inside an enclosure of the local backend: the same test, in a pytest of its own.

Outside, a test only starts itself again inside and hands on what that printed. Its `lab` deploys clusters and removes them.
"""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.history.messages import merge_messages
from nemesis.wire.cluster import WiredCluster
from nemesis.wire.driver import GateProcess
from nodes.backends import enclosure
from nodes.backends.local import LocalBackend
from nodes.cluster import Cluster
from nodes.deploy import deploy
from nodes.event import Event, EventKind
from nodes.kafka.system import KafkaSystem
from nodes.metadata_row import MetadataRow
from nodes.topology import NodePlan, ServerRole, Topic, Topology

if TYPE_CHECKING:
    from tests.harness.judged_runs import JudgedRuns

ROOT = Path(__file__).parents[2]
DEADLINE_S = 280  # seconds, for a slow and busy machine; pytest gives up at 300


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.kafka)


@dataclass
class Lab:
    home: Path
    events: list[Event] = field(default_factory=list)
    metadata: list[MetadataRow] = field(default_factory=list)
    gate: GateProcess | None = None
    _open: list[tuple[LocalBackend, Cluster | None]] = field(default_factory=list)

    async def deploy(self, topology: Topology, *, wire: bool = False, wire_clients: bool = False) -> WiredCluster:
        """With `wire`, servers' connections go through a gate, whose rows are in `messages()` once the lab is closed."""

        async def open_gate(cluster: Cluster) -> None:
            assert isinstance(cluster, WiredCluster)
            journal = self.home / "journal"
            journal.mkdir()
            self.gate = cluster.gate = await GateProcess.open(
                backend.network,
                list(cluster.nodes.values()),
                list(cluster.clients.values()),
                with_clients=wire_clients,
                command=(sys.executable, "-m", "harness.gate"),
                about={"run": "test", "clock": "host", "writer": 1, "journal": str(journal)},
                log=self.home / "gate.log",
            )

        backend = LocalBackend()
        await backend.open(run="test", home=self.home)
        self._open.append((backend, None))
        cluster = await deploy(
            run="test",
            topology=topology,
            system=KafkaSystem(),
            backend=backend,
            on_event=self.events.append,
            on_metadata=self.metadata.append,
            deadline=90,
            before_start=open_gate if wire else None,
            kind=WiredCluster,
        )
        assert isinstance(cluster, WiredCluster)
        self._open[-1] = (backend, cluster)
        return cluster

    async def messages(self) -> list[dict[str, Any]]:
        """Ends the gate; the rows that it recorded."""
        assert self.gate is not None
        await self.gate.end()
        self.gate = None
        rows: list[dict[str, Any]] = []
        merge_messages(self.home / "journal" / "1.messages", lambda batch: rows.extend(batch.to_pylist()))
        return rows

    async def close(self) -> None:
        if self.gate is not None:
            await self.gate.end()
        for backend, cluster in self._open:
            if cluster is not None:
                await cluster.close()
            await backend.close()

    def saw(self, kind: EventKind, **fields: object) -> list[Event]:
        return [
            e for e in self.events if e.kind == kind and all(getattr(e, key) == value for key, value in fields.items())
        ]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    if enclosure.inside():
        asyncio.run(_with_lab(pyfuncitem))
        return True
    inner = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", f"--rootdir={ROOT}"]
    process = subprocess.Popen(
        LocalBackend.enclose([*inner, pyfuncitem.nodeid]), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said, _ = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        pytest.fail(said.decode(errors="replace"), pytrace=False)
    return True


async def _with_lab(item: pytest.Function) -> None:
    lab = item.funcargs.get("lab")
    arguments = {name: item.funcargs[name] for name in inspect.signature(item.obj).parameters}
    try:
        await item.obj(**arguments)
    finally:
        if isinstance(lab, Lab):
            await lab.close()


def combined(version: str, count: int, **rest: object) -> Topology:
    roles = frozenset({ServerRole.CONTROLLER, ServerRole.BROKER})
    nodes = tuple(
        NodePlan(name=f"n{number}", id=number, roles=roles, version=version) for number in range(1, count + 1)
    )
    return Topology(system="kafka", nodes=nodes, **rest)  # type: ignore[arg-type]  # the rest is Topology's own fields


def topic(replication: int = 2, partitions: int = 2) -> Topic:
    return Topic(name="log", partitions=partitions, replication=replication, config={"min.insync.replicas": "1"})


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgedRuns]:
    """Runs that share a judge."""
    from tests.harness.judged_runs import JudgedRuns

    made = JudgedRuns(tmp_path_factory.mktemp("judge"), system="kafka")
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def _cached() -> None:
    """Fetched outside, where there may be a network, and only once."""
    if not enclosure.inside():
        for version in ("3.2.3", "3.3.2", "3.4.1", "3.9.2", "4.3.1"):
            KafkaSystem().fetch(version, progress=lambda said: print(said, file=sys.stderr))
