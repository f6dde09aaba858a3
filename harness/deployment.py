"""Everything one run consists of, as the stage drives it: the cluster, its clients, the nemesis, and where their rows go.

The stage (harness/stage.py) decides what happens when; this module knows how. Directories of a run while it lives:

    <run>/journal/     what writers append; history/ is made of it afterwards
    <run>/work/        homes of nodes on backends that use this machine's disk; removed once everything was collected
    <run>/nodes/NAME/  logs, configuration and metadata log of each node, collected at the end
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import plugins
from harness.choices import Choices
from harness.clients import ClientGroup
from harness.history.plan import recorded_choices
from harness.history.rows import RowRecorder
from harness.history.rundir import JOURNAL, read_run_info, update_run_info
from harness.history.tables import EVENTS_TABLE, FAULTS_TABLE, METADATA_TABLE
from harness.plugins import Group
from harness.race_order import Order
from harness.replayed import replayed
from harness.spec import Spec
from harness.wiring import wants_clients, wants_gate
from nemesis.fault import FaultRow
from nemesis.journal import HealJournal
from nemesis.runner import Nemesis, Reports
from nemesis.schedule import make_plan
from nemesis.wire.cluster import WiredCluster
from nemesis.wire.driver import GateProcess
from nemesis.wire.gate import GateDied
from nodes.backend import Backend
from nodes.cluster import Cluster, NotReached
from nodes.deploy import deploy
from nodes.event import Event, EventKind
from nodes.metadata_watch import key
from nodes.system import System, SystemUnavailable
from nodes.topology import Topic, Topology
from workloads.op import Phase

FINAL_MARGIN = 30.0  # seconds the final reader may take beyond the drain's own limit
DEPLOY_WITHIN = 180.0
DRIVER = 1_000_000  # writer number of this process in the journal; clients count from 0
GATE = DRIVER + 1  # and of the wire gate's


class Deployment:
    """One run's cluster and clients, from run.json."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.info = read_run_info(directory)
        self.run = self.info.run
        self.purpose = str(self.info.more["purpose"])
        self.spec = Spec.model_validate(self.info.spec)
        self.backend: Backend = plugins.load(Group.BACKENDS, self.spec.backend)()
        self.system: System = plugins.load(Group.SYSTEMS, self.spec.system_name)()
        self.order = Order.of_run(self.spec, self.info.more["race"]) if self.purpose == "race" else None
        self.topology = self.order.topology() if self.order else self.spec.topology(type(self.system).default_version())
        self.journal = directory / JOURNAL
        self.replay = replayed(directory)
        self.choices = Choices(
            self.info.seed,
            recorded_choices(self.replay, "nemesis") if self.replay else None,
            file=self.journal / f"{DRIVER}.choices",
        )
        self.clients: ClientGroup | None = None
        self.nemesis: Nemesis | None = None
        named = {"run": self.run, "clock": self.backend.clock, "writer": DRIVER}
        self._events = RowRecorder(self.journal, EVENTS_TABLE, **named)
        self._faults = RowRecorder(self.journal, FAULTS_TABLE, **named)
        self._metadata = RowRecorder(self.journal, METADATA_TABLE, **named)
        self.notes: list[str] = []  # what went wrong while collecting, none of which spoils a run
        self.gate: GateProcess | None = None
        self._cluster: WiredCluster | None = None
        self._counters: Mapping[str, int] = {}  # of the clients

    @property
    def cluster(self) -> WiredCluster:
        if self._cluster is None:
            raise RuntimeError("the cluster is not deployed")
        return self._cluster

    @property
    def description(self) -> str:
        """One line for people: "1 controller, 3 brokers, Apache Kafka 4.3.1"."""
        versions = " and ".join(sorted({node.version for node in self.topology.nodes}))
        controllers, brokers = len(self.topology.controllers), len(self.topology.brokers)
        metadata = f" (metadata.version {self.spec.metadata_version})" if self.spec.metadata_version else ""
        return f"{_count(controllers, 'controller')}, {_count(brokers, 'broker')}, {self.spec.system_name} {versions}{metadata}"

    def record_fault(self, row: FaultRow) -> None:
        self._faults.write(row)

    def add_topic(self, topic: Topic) -> None:
        """A race made one more topic, or one anew: the final read and the checker must know it."""
        others = [known for known in self.topology.topics if known.name != topic.name]
        self.topology = replace(self.topology, topics=(*others, topic))
        update_run_info(self.directory, topics=topic_facts(self.topology))

    def _on_event(self, event: Event) -> None:
        self._events.write(event)

    def note_phases(self, phases: list[dict[str, Any]]) -> None:
        """A phase began (its end is None) or ended."""
        update_run_info(self.directory, phases=phases, clock=self.backend.clock)
        newest = phases[-1]
        if newest["end_ns"] is None:
            now, name = newest["start_ns"], newest["name"]
            self._on_event(
                Event(run=self.run, clock=self.backend.clock, at_ns=now, node=None, kind=EventKind.PHASE, detail=name)
            )

    async def deploy(self, say: Callable[[str], None]) -> None:
        """Nodes up, topics made; raises what went wrong with the node's own words."""
        await self.backend.open(run=self.run, home=self.directory / "work", image=self.spec.image, progress=say)
        try:
            cluster = await deploy(
                run=self.run,
                topology=self.topology,
                system=self.system,
                backend=self.backend,
                on_event=self._on_event,
                on_metadata=self._metadata.write,
                progress=say,
                deadline=DEPLOY_WITHIN,
                before_start=self._open_gate if wants_gate(self.spec) else None,
                kind=WiredCluster,
            )
        except Exception as error:
            if (died := self.gate_death()) is not None:
                raise GateDied(died) from error
            raise
        assert isinstance(cluster, WiredCluster)
        self._cluster = cluster

    async def _open_gate(self, cluster: Cluster) -> None:
        assert isinstance(cluster, WiredCluster)
        self.gate = cluster.gate = await GateProcess.open(
            self.backend.network,
            list(cluster.nodes.values()),
            list(cluster.clients.values()),
            with_clients=wants_clients(self.spec),
            command=(sys.executable, "-m", "harness.gate"),
            about={"run": self.run, "clock": self.backend.clock, "writer": GATE, "journal": str(self.journal)},
            log=self.directory / "gate.log",
        )

    def gate_death(self) -> str | None:
        """The last words of a wire gate that ended although nobody asked it to."""
        if self.gate is None or not self.gate.died.done():
            return None
        return str(self.gate.died.exception())

    async def start_clients(self, on_progress: Callable[[Mapping[str, int]], None]) -> None:
        """Start the workload in every client node; returns when all of them run."""

        def count(counters: Mapping[str, int]) -> None:
            self._counters = dict(counters)
            on_progress(counters)

        configs = {name: self._config(index, name, Phase.MAIN) for index, name in enumerate(self.cluster.clients)}
        lives: Counter[str] = Counter()

        def again(name: str) -> dict[str, Any]:
            lives[name] += 1
            return self._config(list(configs).index(name), name, Phase.MAIN, lives[name])

        self.clients = ClientGroup(nodes=self.cluster.clients, configs=configs, on_progress=count, again=again)
        self.cluster.client_processes = self.clients
        await self.clients.start()

    def _config(self, index: int, name: str, phase: Phase, life: int = 0) -> dict[str, Any]:
        """What harness/client.py needs. Every process is a writer of its own: first those of the main phase, then the final
        readers, then those that took the place of killed ones.
        """
        turn = 1 if phase is Phase.FINAL else life and life + 1
        return {
            "run": self.run,
            "clock": self.backend.clock,
            "writer": index + turn * self.spec.workload.clients,
            "life": life,
            "client": name,
            "index": index,
            "clients": self.spec.workload.clients,
            "bootstrap": self.cluster.bootstrap,
            "topics": [{"name": topic.name, "partitions": topic.partitions} for topic in self.topology.topics],
            "workload": self.spec.workload.name,
            "settings": self.spec.workload.settings,
            "rate": self.spec.rate,
            "seed": self.info.seed,
            "journal": str(self.journal),
            "phase": str(phase),
            "deadline_s": self.spec.drain_limit if phase is Phase.FINAL else None,
            "replay": str(self.replay) if self.replay else None,
        }

    async def run_nemesis(self, on_fault: Callable[[FaultRow], None]) -> list[str]:
        """Faults for the spec's time limit, then all of them healed; returns what went wrong on the harness's side."""
        plan = make_plan(self.spec.nemesis, self.topology, self.choices.stream, self.spec.time_limit)
        update_run_info(self.directory, plan=[planned.as_json() for planned in plan])

        def record(row: FaultRow) -> None:
            self.record_fault(row)
            on_fault(row)

        def resolved(fault: int, what: dict[str, Any]) -> None:
            self.choices.resolved("nemesis", fault, str(what.get("rule", "target")), what)

        self.nemesis = Nemesis(
            on=self.cluster,
            plan=plan,
            settings=self.spec.nemesis,
            journal=HealJournal(self.directory / "heal.jsonl"),
            reports=Reports(record=record, resolved=resolved, now_ns=time.monotonic_ns, clock=self.backend.clock),
            counted=lambda name: self._counters.get(name, 0),
        )
        outcome = await self.nemesis.run(self.spec.time_limit)
        crashes = [crash.sentence for crash in outcome.crashes]
        return [*outcome.problems, *outcome.unhealed, *crashes]

    async def recover(self) -> str | None:
        """Wait until every partition is led and has its full ISR; returns what is still missing after the deadline."""
        try:
            await self.cluster.recovered(deadline=self.spec.recovery_limit)
        except NotReached as missing:
            return str(missing)
        return None

    async def drain(self, on_progress: Callable[[Mapping[str, int]], None]) -> None:
        """The final read, by fresh client processes, each its share of the partitions. Raises ClientDied."""
        nodes = self.cluster.clients
        configs = {name: self._config(index, name, Phase.FINAL) for index, name in enumerate(nodes)}
        group = ClientGroup(nodes=nodes, configs=configs, on_progress=on_progress)
        await group.start()
        await group.finish(deadline=self.spec.drain_limit + FINAL_MARGIN)

    async def close(self) -> None:
        """End what runs, collect what nodes leave, take everything down. Servers are killed: what they stored was read already."""
        async with AsyncExitStack() as last:  # each of these whatever became of the others, from the bottom up
            last.callback(shutil.rmtree, self.directory / "work", ignore_errors=True)
            for recorder in (self._events, self._faults, self._metadata, self.choices):
                last.callback(recorder.close)
            last.push_async_callback(self.backend.close)
            if self.gate is not None:
                last.push_async_callback(self.gate.end)
            if self._cluster is not None:
                await self._collect(self._cluster)

    async def _collect(self, cluster: Cluster) -> None:
        await asyncio.gather(*(cluster.kill(name) for name in cluster.nodes))
        await cluster.close()
        await asyncio.gather(
            *(self.system.collect(node, self.directory / "nodes" / name) for name, node in cluster.nodes.items()),
            *(node.fetch("log", self.directory / "nodes" / name / "log") for name, node in cluster.clients.items()),
        )
        await asyncio.to_thread(self._complete_metadata, cluster)

    def _complete_metadata(self, cluster: Cluster) -> None:
        """Rows of the controllers' logs that nobody saw while they ran; their time is unknown."""
        self.notes += cluster.metadata_watch.problems
        for plan in self.topology.controllers:
            here = {"run": self.run, "clock": self.backend.clock, "node": plan.name}
            try:
                for row in self.system.collected_metadata(self.directory / "nodes" / plan.name, **here):
                    if key(row) not in cluster.metadata_watch.told:
                        self._metadata.write(row)
            except SystemUnavailable as broken:
                self.notes.append(f"the metadata log of {broken}")


def topic_facts(topology: Topology) -> list[dict[str, Any]]:
    """Topics as run.json has them."""
    return [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "replication": topic.replication,
            "config": dict(topic.config),
        }
        for topic in topology.topics
    ]


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
