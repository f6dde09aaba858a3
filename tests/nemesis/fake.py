"""A cluster in memory: processes, links, disks, leaders and ISRs follow the same causes as in Kafka, in (virtual) seconds.

A broker that is down, paused or cut from every controller for SESSION_S is fenced: it leaves every ISR but as the last member, and
leads nothing. Back, it is unfenced after BACK_S and in sync after SYNC_S more. With `unclean` a partition without a leader takes any
unfenced replica.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nemesis.wire.gate import Gate
from nodes.backend import Capability
from nodes.metadata import MetadataView
from nodes.network import Action, Counter, Cut
from nodes.node import Command, Completed, Gone, NodeError, Paused, ProcessState, Running
from nodes.topology import NodePlan, ServerRole, Topic, Topology
from nodes.view import ClusterView, PartitionView

SESSION_S, BACK_S, SYNC_S = 2.0, 0.5, 1.0
SERVER = Command(argv=("server",))


def topology(
    brokers: int = 3,
    controllers: int = 3,
    *,
    partitions: int = 2,
    min_isr: int = 2,
    clients: int = 1,
    combined: bool = False,
) -> Topology:
    both = frozenset({ServerRole.CONTROLLER, ServerRole.BROKER})
    if combined:
        nodes = tuple(NodePlan(name=f"n{n}", id=n, roles=both, version="1") for n in range(1, brokers + 1))
    else:
        nodes = tuple(
            NodePlan(name=f"c{n}", id=100 + n, roles=frozenset({ServerRole.CONTROLLER}), version="1")
            for n in range(1, controllers + 1)
        ) + tuple(
            NodePlan(name=f"b{n}", id=n, roles=frozenset({ServerRole.BROKER}), version="1")
            for n in range(1, brokers + 1)
        )
    log = Topic(name="log", partitions=partitions, replication=brokers, config={"min.insync.replicas": str(min_isr)})
    return Topology(system="fake", nodes=nodes, topics=(log,), clients=clients)


def batch(base_offset: int, count: int, payload: int = 50) -> bytes:
    """A v2 record batch as far as its header matters."""
    body = struct.pack(">ibIhi", 0, 2, 0, 0, count - 1) + b"x" * payload
    return struct.pack(">qi", base_offset, len(body)) + body


class FakeNode:
    python: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.address = "10.0.0.1"
        self.clock = "local"
        self.process: ProcessState = Gone(None)
        self.files: dict[str, bytes] = {}
        self.started = 0

    def absolute(self, path: str) -> str:
        return f"/{self.name}/{path}"

    def mounted(self, name: str) -> str:
        return f"/mnt/{name}"

    async def start(self, command: Command) -> None:
        if not isinstance(self.process, Gone):
            raise NodeError(f"{self.name} runs already")
        self.process = Running()
        self.started += 1

    async def kill(self) -> None:
        if not isinstance(self.process, Gone):
            self.process = Gone(-9)

    async def stop(self, *, timeout: float) -> int | None:
        if isinstance(self.process, Paused):
            await asyncio.sleep(timeout)
            raise NodeError(f"{self.name} is still there after {timeout} s")
        self.process = Gone(143)
        return 143

    async def pause(self) -> None:
        if not isinstance(self.process, Running):
            raise NodeError(f"{self.name} does not run")
        self.process = Paused()

    async def resume(self) -> None:
        if isinstance(self.process, Paused):
            self.process = Running()

    async def state(self) -> ProcessState:
        return self.process

    async def exited(self) -> Gone:
        while not isinstance(self.process, Gone):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return self.process

    async def resident_bytes(self) -> int:
        return 0

    async def run(self, argv: tuple[str, ...], *, timeout: float, stdin: bytes = b"") -> Completed:
        if argv[0] == "sync":
            assert all(path.removeprefix(f"/{self.name}/") in self.files for path in argv[1:])
            return Completed(code=0, stdout=b"", stderr=b"")
        assert argv[:3] == ("stat", "-c", "%s")
        sizes = [len(self.files[path.removeprefix(f"/{self.name}/")]) for path in argv[3:]]
        return Completed(code=0, stdout="\n".join(map(str, sizes)).encode(), stderr=b"")

    async def write(self, path: str, content: bytes) -> None:
        self.files[path] = content

    async def read(self, path: str) -> bytes:
        return self.files[path]

    async def exists(self, path: str) -> bool:
        return path in self.files

    async def list(self, path: str) -> list[str]:
        return sorted(name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/"))

    async def wipe(self, path: str, *, keep: tuple[str, ...] = ()) -> None:
        for name in await self.list(path):
            if name.split("/")[0] not in keep:
                del self.files[f"{path}/{name}"]

    async def copy(self, source: str, destination: str) -> None:
        await self.wipe(destination)
        for name in await self.list(source):
            self.files[f"{destination}/{name}"] = self.files[f"{source}/{name}"]

    async def truncate(self, path: str, size: int) -> None:
        self.files[path] = self.files[path][:size]

    async def fetch(self, path: str, to: Path) -> None:
        raise NotImplementedError

    def lines(self, path: str) -> AsyncIterator[str]:
        raise NotImplementedError


class FakeNetwork:
    def __init__(self) -> None:
        self.cuts: list[Cut] = []
        self.packets: dict[tuple[str, str, str], int] = {}

    async def cut(self, cuts: Sequence[Cut]) -> None:
        if taken := {(c.id, c.at) for c in cuts} & {(c.id, c.at) for c in self.cuts}:
            raise NodeError(f"there already: {taken}")
        self.cuts += cuts

    async def heal(self, ids: Sequence[str] | None = None) -> None:
        self.cuts = [] if ids is None else [cut for cut in self.cuts if cut.id not in ids]

    async def counters(self) -> list[Counter]:
        return [
            Counter(id=cut.id, at=cut.at, source=source, packets=self.packets.get((cut.id, cut.at, source), 0))
            for cut in self.cuts
            for source in cut.sources
        ]

    def passes(self, source: str, destination: str) -> bool:
        stopping = [cut for cut in self.cuts if cut.at == destination and source in cut.sources]
        for cut in stopping:
            key = (cut.id, destination, source)
            self.packets[key] = self.packets.get(key, 0) + 1
        return not stopping

    async def reaches(self, source: str, destination: str) -> bool:
        passed = self.passes(source, destination)
        await asyncio.sleep(0.01 if passed else 1.0)
        return passed

    @property
    def actions(self) -> set[Action]:
        return {cut.action for cut in self.cuts}


@dataclass
class FakeCluster:
    topology: Topology
    run: str = "test"
    unclean: bool = False
    network: FakeNetwork = field(default_factory=FakeNetwork)
    capabilities: frozenset[Capability] = frozenset(Capability)
    reformatted: list[tuple[str, bool, bool]] = field(default_factory=list)
    end_offset: int = 0
    flush_messages: int | None = None
    gate: Gate | None = None
    log_tells: MetadataView = field(default_factory=MetadataView)

    def __post_init__(self) -> None:
        self.news = asyncio.Condition()  # about `log_tells`
        self.nodes = {plan.name: FakeNode(plan.name) for plan in self.topology.nodes}
        self.clients = {f"w{n}": FakeNode(f"w{n}") for n in range(1, self.topology.clients + 1)}
        ids = tuple(plan.id for plan in self.topology.brokers)
        self.ids = {plan.id: plan.name for plan in self.topology.brokers}
        self.parts = {
            (topic.name, number): PartitionView(
                topic=topic.name,
                partition=number,
                leader=ids[number % len(ids)],
                leader_epoch=0,
                replicas=ids,
                isr=ids,
            )
            for topic in self.topology.topics
            for number in range(topic.partitions)
        }
        self.unfenced = set(ids)
        self.ended: set[str] = set()
        self.changed: dict[int, tuple[bool, float]] = dict.fromkeys(ids, (True, -100.0))  # alive, since
        for node in self.nodes.values():
            node.process = Running()
            self._format(node)

    def _format(self, node: FakeNode) -> None:
        node.files["data/meta.properties"] = b"directory.id=1\n"
        if node.name not in self.ids.values():
            return
        node.files["data/recovery-point-offset-checkpoint"] = b"0\n0\n"
        for name, number in self.parts:
            node.files[f"data/{name}-{number}/00000000000000000000.log"] = b""
            node.files[f"data/{name}-{number}/00000000000000000000.index"] = b""

    def produce(self, count: int) -> None:
        """A batch on every partition, stored by the members of its ISR."""
        for (name, number), part in self.parts.items():
            for broker in part.isr:
                path = f"data/{name}-{number}/00000000000000000000.log"
                files = self.nodes[self.ids[broker]].files
                files[path] = files.get(path, b"") + batch(self.end_offset, count)
        self.end_offset += count

    # physics

    def _alive(self, broker: int) -> bool:
        name = self.ids[broker]
        controllers = [plan.name for plan in self.topology.controllers]
        return isinstance(self.nodes[name].process, Running) and any(
            isinstance(self.nodes[one].process, Running)
            and (one == name or (self.network.passes(one, name) and self.network.passes(name, one)))
            for one in controllers
        )

    def settle(self) -> None:
        now = asyncio.get_running_loop().time()
        for broker, (was, _) in list(self.changed.items()):
            if self._alive(broker) != was:
                self.changed[broker] = (not was, now)
        for broker, (alive, since) in self.changed.items():
            if alive and now - since >= BACK_S:
                self.unfenced.add(broker)
            if not alive and now - since >= SESSION_S:
                self.unfenced.discard(broker)
        for key, part in self.parts.items():
            self.parts[key] = self._elected(self._shrunk(self._grown(part, now)))

    def _grown(self, part: PartitionView, now: float) -> PartitionView:
        back = [
            broker
            for broker in part.replicas
            if broker in self.unfenced
            and part.leader in self.unfenced
            and self.changed[broker][0]
            and now - self.changed[broker][1] >= BACK_S + SYNC_S
        ]
        return replace(part, isr=tuple(sorted({*part.isr, *back})))

    def _shrunk(self, part: PartitionView) -> PartitionView:
        left = tuple(broker for broker in part.isr if broker in self.unfenced)
        return replace(part, isr=left or part.isr[:1])

    def _elected(self, part: PartitionView) -> PartitionView:
        if part.leader in self.unfenced:
            return part
        ready = [broker for broker in part.isr if broker in self.unfenced]
        if not ready and self.unclean:
            ready = [broker for broker in part.replicas if broker in self.unfenced][:1]
            part = replace(part, isr=tuple(ready) or part.isr)
        leader = ready[0] if ready else -1
        return part if leader == part.leader else replace(part, leader=leader, leader_epoch=part.leader_epoch + 1)

    # the stage

    @property
    def deaths(self) -> dict[str, str]:
        return {
            name: f"died by itself, exit code {node.process.code}"
            for name, node in self.nodes.items()
            if isinstance(node.process, Gone) and name not in self.ended
        }

    async def view(self) -> ClusterView:
        await asyncio.sleep(0.01)
        self.settle()
        answered = frozenset(name for name in self.ids.values() if isinstance(self.nodes[name].process, Running))
        controllers = [
            plan.name for plan in self.topology.controllers if isinstance(self.nodes[plan.name].process, Running)
        ]
        return ClusterView(
            at_ns=int(asyncio.get_running_loop().time() * 1e9),
            answered=answered,
            brokers=frozenset(self.unfenced) if answered else frozenset(),
            partitions=dict(self.parts) if answered else {},
            controller=controllers[0] if controllers else None,
        )

    async def metadata_told(self, met: Callable[[MetadataView], bool]) -> MetadataView:
        """There is no log here; `log_tells` of a test may say otherwise."""
        async with self.news:
            await self.news.wait_for(lambda: met(self.log_tells))
        return self.log_tells

    async def high_watermark(self, topic: str, partition: int) -> int | None:
        return self.end_offset

    async def answers(self, name: str) -> bool:
        await asyncio.sleep(0.01)
        return isinstance(self.nodes[name].process, Running)

    def flushed_every(self, name: str, topic: str) -> int | None:
        return self.flush_messages

    def _machine(self, name: str) -> FakeNode:
        return self.nodes[name] if name in self.nodes else self.clients[name]

    async def start(self, name: str) -> None:
        self.ended.discard(name)
        await self._machine(name).start(SERVER)
        self.settle()

    async def kill(self, name: str) -> None:
        self.ended.add(name)
        await self._machine(name).kill()
        self.settle()

    async def stop(self, name: str, *, timeout: float) -> int | None:
        self.ended.add(name)
        code = await self.nodes[name].stop(timeout=timeout)
        self.settle()
        return code

    async def pause(self, name: str) -> None:
        await self._machine(name).pause()
        self.settle()

    async def resume(self, name: str) -> None:
        await self._machine(name).resume()
        self.settle()

    async def reformat(self, name: str, *, keep_meta: bool, keep_directory_id: bool) -> None:
        self.reformatted.append((name, keep_meta, keep_directory_id))
        self._format(self.nodes[name])

    async def reidentify(self, name: str, id: int) -> None:
        if not isinstance(self.nodes[name].process, Gone):
            raise NodeError(f"{name} runs")
        self.nodes[name].files = {"data/meta.properties": f"node.id={id}\n".encode()}

    async def meta(self, name: str) -> dict[str, str]:
        lines = self.nodes[name].files["data/meta.properties"].decode().split()
        return dict(line.split("=", 1) for line in lines)
