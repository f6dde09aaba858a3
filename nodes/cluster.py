"""A deployed cluster: its nodes, and what its own protocol says about leaders, ISRs and controllers. Faults and races act on this.

    cluster = await deploy(run=..., topology=..., system=..., backend=..., on_event=...)      # nodes/deploy.py
    await cluster.kill("b1")
    await cluster.wait(lambda view: view.partitions["log", 0].leader == 2, deadline=30, what="broker 2 leads log-0")
    await cluster.start("b1", deadline=30)
    await cluster.recovered(deadline=60)

Verbs name nodes; each returns when its effect is there. Views come from the protocol (Metadata to the brokers, DescribeQuorum to the
controllers), never from logs; how differing answers become one is told in nodes/view.py. Waits have a deadline and, when it passes, raise
`NotReached` with what was seen instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from nodes import administration, inquiry, metadata
from nodes.backend import Backend, Capability
from nodes.changes import changes
from nodes.claims import Claims
from nodes.event import Event, EventKind
from nodes.metadata import MetadataView
from nodes.metadata_row import MetadataRow
from nodes.metadata_watch import MetadataWatch
from nodes.network import Network
from nodes.node import Gone, Node, NodeError
from nodes.observer import Observer, Seat
from nodes.protocol.connection import Connection, Unreachable
from nodes.protocol.partitions import At, Offset
from nodes.protocol.transactions import Transaction
from nodes.system import QuorumState, System, SystemUnavailable
from nodes.topology import BROKER_PORT, CONTROLLER_PORT, NodePlan, ServerRole, Topic, Topology
from nodes.view import ClusterView, PartitionView, QuorumAnswer, describe

__all__ = ["Cluster", "ClusterView", "NotReached", "PartitionView"]

DATA, COPIES = "data", "copies"


class NotReached(Exception):
    """A wait's deadline passed. The message says what was waited for and what was seen instead."""


@dataclass(kw_only=True)
class Cluster:
    run: str
    topology: Topology
    system: System
    backend: Backend
    nodes: dict[str, Node]  # servers by name
    clients: dict[str, Node]
    on_event: Callable[[Event], None]
    on_metadata: Callable[[MetadataRow], None] = lambda row: (
        None
    )  # told every row of the controllers' logs, once followed
    versions: dict[str, str] = field(default_factory=dict)  # current version per node, for rolling upgrades

    def __post_init__(self) -> None:
        addresses = {name: node.address for name, node in self.nodes.items()}
        self.observer = Observer(self.topology, addresses, self._looked)
        self.metadata_watch = MetadataWatch(
            {plan.name: partial(self._follow, plan.name) for plan in self.topology.controllers}, self.on_metadata
        )
        self.deaths: dict[str, str] = {}  # how a node that died by itself did, until it is started again
        self._ended: set[str] = set()  # nodes that a verb is ending or has ended
        self._starting: set[str] = set()
        self._last: ClusterView | None = None
        self._claims = Claims(run=self.run, clock=self.backend.clock)
        self._guards: dict[str, asyncio.Task[None]] = {}
        self._connections: list[Connection] = []  # that `connect` handed out
        for plan in self.topology.nodes:
            self.versions.setdefault(plan.name, plan.version)

    # what it is made of
    @property
    def network(self) -> Network:
        return self.backend.network

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.backend.capabilities

    @property
    def bootstrap(self) -> str:
        """host:port list of all brokers, as clients take it."""
        return ",".join(f"{self.nodes[plan.name].address}:{BROKER_PORT}" for plan in self.topology.brokers)

    def plan(self, name: str) -> NodePlan:
        """A node's plan with the version that it runs (or ran last)."""
        return replace(self.topology.node(name), version=self.versions[name])

    def name_of(self, id: int) -> str:
        return next(plan.name for plan in self.topology.nodes if plan.id == id)

    # processes
    async def start(self, name: str, *, version: str | None = None, deadline: float | None = None) -> None:
        """Start a node that does not run, on another version if one is named. Waits until it is ready when a deadline (s) is given."""
        if version is not None:
            self.versions[name] = version
        self.deaths.pop(name, None)
        self._ended.discard(name)
        self._starting.add(name)
        await self.system.start(self.nodes[name], self.plan(name))
        self._emit(EventKind.STARTED, name, detail=self.versions[name])
        self._guards[name] = asyncio.create_task(self._guard(name), name=f"guard {name}")
        if deadline is not None:
            await self.ready([name], deadline=deadline)

    async def stop(self, name: str, *, timeout: float = 60) -> int | None:
        """SIGTERM: a broker hands its leaderships over first. Its exit code."""
        self._ended.add(name)
        return await self.nodes[name].stop(timeout=timeout)

    async def kill(self, name: str) -> None:
        self._ended.add(name)
        await self.nodes[name].kill()

    async def restart(self, name: str, *, version: str | None = None, deadline: float = 120) -> None:
        """Stop gracefully, start (on another version if one is named) and wait until it is ready."""
        await self.stop(name, timeout=deadline)
        await self.start(name, version=version, deadline=deadline)

    async def pause(self, name: str) -> None:
        await self.nodes[name].pause()

    async def resume(self, name: str) -> None:
        await self.nodes[name].resume()

    # disks
    async def wipe(self, name: str, *, keep_meta: bool = False, keep_directory_id: bool = False) -> None:
        """Replace the disk of a node that does not run by an empty, formatted one (see System.reformat)."""
        await self._must_be_gone(name, "wiped")
        await self.nodes[name].wipe(DATA)
        await self.reformat(name, keep_meta=keep_meta, keep_directory_id=keep_directory_id)

    async def reformat(self, name: str, *, keep_meta: bool, keep_directory_id: bool) -> None:
        """After a wipe of the data directory: make the node startable again."""
        plan = self.plan(name)
        await self.system.reformat(self.nodes[name], plan, keep_meta=keep_meta, keep_directory_id=keep_directory_id)

    async def reidentify(self, name: str, id: int) -> None:
        """Set up a node that does not run with this `node.id`, right or wrong, on an empty disk."""
        await self._must_be_gone(name, "replaced")
        await self.nodes[name].wipe(DATA)
        addresses = {name: node.address for name, node in self.nodes.items()}
        await self.system.prepare(self.nodes[name], replace(self.plan(name), id=id), self.topology, addresses)

    async def copy_disk(self, name: str, copy: str) -> None:
        """Keep a copy of the disk under a name; of a running node it is as torn as after a power failure."""
        await self.nodes[name].copy(DATA, f"{COPIES}/{copy}")

    async def roll_back(self, name: str, copy: str) -> None:
        """Put a copy back as the disk of a node that does not run."""
        await self._must_be_gone(name, "rolled back")
        await self.nodes[name].copy(f"{COPIES}/{copy}", DATA)

    async def _must_be_gone(self, name: str, verb: str) -> None:
        if not isinstance(await self.nodes[name].state(), Gone):
            raise SystemUnavailable(f"{name} runs; a disk can only be {verb} under a node that does not")

    # what the cluster says
    async def view(self) -> ClusterView:
        """Asked for after this call, of everybody who answers within about a second."""
        return await self.observer.fresh()

    async def leader(self, topic: str, partition: int) -> str | None:
        """Name of the broker that leads a partition, None when there is none."""
        id = (await self._partition(topic, partition)).leader
        return self.name_of(id) if id >= 0 else None

    async def isr(self, topic: str, partition: int) -> frozenset[int]:
        return frozenset((await self._partition(topic, partition)).isr)

    async def active_controller(self) -> str | None:
        return (await self.view()).controller

    async def _partition(self, topic: str, partition: int) -> PartitionView:
        view = await self.view()
        if (topic, partition) not in view.partitions:
            raise NotReached(f"no partition {topic}-{partition}; {describe(view)}")
        return view.partitions[topic, partition]

    async def answers(self, name: str, timeout: float = 1.0) -> bool:
        """Does the node answer ApiVersions on a new connection? A paused process does not, although its kernel accepts TCP."""
        broker = ServerRole.BROKER in self.topology.node(name).roles
        try:
            port = BROKER_PORT if broker else CONTROLLER_PORT
            (await Connection.open(self.nodes[name].address, port, timeout=timeout)).close()
        except Unreachable:
            return False
        return True

    def flushed_every(self, name: str, topic: str) -> int | None:
        known = {one.name: one for one in self.topology.topics}
        return self.system.flushed_every(self.plan(name), known.get(topic))

    async def probe_between(self, source: str, destination: str) -> bool:
        """Could `source` get an answer from `destination`: packets pass both ways, and the process there answers."""
        there, back, answers = await asyncio.gather(
            self.network.reaches(source, destination),
            self.network.reaches(destination, source),
            self.answers(destination),
        )
        return there and back and answers

    # what single nodes say
    async def connect(self, name: str, *, via: str | None = None, timeout: float = 5) -> Connection:
        """A raw connection to a node's protocol; `via` a client or server node, out of that one's network (and through its gate).

        Closed with the cluster, if not before. Unreachable when there is no answer within `timeout` seconds.
        """
        connection = await inquiry.connect(self, name, via=via, timeout=timeout)
        self._connections.append(connection)
        return connection

    async def offset(self, topic: str, partition: int, at: At = At.LATEST, *, on: str | None = None) -> Offset:
        """An offset as a broker tells it: of the leader, or of the one named (which only At.END and At.OWN_START do not mind)."""
        return await inquiry.offset(self, topic, partition, at, on=on)

    async def log_end(self, topic: str, partition: int, *, on: str) -> int | None:
        """Where a broker's own copy of a partition ends; None when it has none. Unreachable when it does not answer."""
        return await inquiry.log_end(self, topic, partition, on=on)

    async def high_watermark(self, topic: str, partition: int) -> int | None:
        """As the partition's leader tells it; None when nobody does."""
        try:
            told = await self.offset(topic, partition)
        except (NotReached, Unreachable):
            return None
        return told.offset if told.error == "NONE" else None

    async def coordinator_of(self, key: str, *, group: bool = False, deadline: float = 30) -> str:
        """Name of the broker that coordinates a transactional id (or a group)."""
        return await inquiry.coordinator_of(self, key, group=group, deadline=deadline)

    async def transaction_state(self, transactional_id: str, *, deadline: float = 30) -> Transaction:
        """What its coordinator knows of a transactional id."""
        return await inquiry.transaction_state(self, transactional_id, deadline=deadline)

    async def quorum_state(self, name: str) -> QuorumState | None:
        """Whom a controller follows, from its disk: also while it is paused. None when it has not written it."""
        return await self.system.quorum_state(self.nodes[name])

    async def meta(self, name: str) -> Mapping[str, str]:
        """What names a node's disk: cluster.id, node.id, directory.id; empty when it is wiped."""
        return await self.system.identity(self.nodes[name])

    # waits
    async def wait(self, predicate: Callable[[ClusterView], bool], *, deadline: float, what: str) -> ClusterView:
        """Until a view fulfils the predicate; NotReached after `deadline` seconds says what was seen instead."""
        until = time.monotonic() + deadline
        while True:
            view = await self.view()
            if predicate(view):
                return view
            left = until - time.monotonic()
            if left <= 0:
                raise NotReached(f"{what}: not within {deadline:g} s; {describe(view)}{self._died()}")
            await self.observer.looked(min(left, 0.25))

    async def ready(self, names: Iterable[str], *, deadline: float) -> None:
        """Until these nodes serve: they answer their protocol, and brokers are unfenced and in their own view of the cluster.

        SystemUnavailable at once when one of them dies, with how.
        """
        names = list(names)
        brokers = {plan.name: plan.id for plan in self.topology.brokers if plan.name in names}
        rest = [name for name in names if name not in brokers]

        def serving(view: ClusterView) -> bool:
            for name in names:
                if name in self.deaths:
                    raise SystemUnavailable(f"{name} {self.deaths[name]}")
            reached = {seat.name for seat in self.observer.seats if seat.reached}
            return (
                brokers.keys() <= view.answered and set(brokers.values()) <= view.brokers and reached.issuperset(rest)
            )

        await self.wait(serving, deadline=deadline, what=f"{', '.join(names)} ready")

    async def recovered(self, deadline: float) -> ClusterView:
        """Until every partition is led and in sync, every broker unfenced and answering, and a controller active."""
        ids = {plan.id for plan in self.topology.brokers}
        names = {plan.name for plan in self.topology.brokers}
        return await self.wait(
            lambda view: (
                view.brokers >= ids
                and view.answered >= names
                and view.controller is not None
                and all(one.whole for one in view.partitions.values())
            ),
            deadline=deadline,
            what="the cluster recovered",
        )

    def _died(self) -> str:
        return "".join(f"; {name} {how}" for name, how in self.deaths.items())

    # the metadata log
    @property
    def metadata(self) -> MetadataView:
        """The latest state that a controller's log tells; following begins with the first look, so that one sees nothing yet."""
        self.follow_metadata()
        return self.metadata_watch.latest

    def follow_metadata(self) -> None:
        """Read the controllers' logs from now on, from their beginning. Fine when they are followed already."""
        if not self.metadata_watch.started:
            self.metadata_watch.start()

    async def wait_metadata(
        self, predicate: Callable[[MetadataView], bool], *, deadline: float, what: str
    ) -> MetadataView:
        """Until the metadata log tells it, noticed within about 50 ms; NotReached after `deadline` seconds says what it told instead."""
        try:
            async with asyncio.timeout(deadline):
                return await self.metadata_told(predicate)
        except TimeoutError:
            seen = metadata.describe(self.metadata_watch.latest)
            raise NotReached(f"{what}: not within {deadline:g} s; {seen}{self._died()}") from None

    async def metadata_told(self, met: Callable[[MetadataView], bool]) -> MetadataView:
        """The same without a deadline."""
        self.follow_metadata()
        return await self.metadata_watch.wait(met)

    def _follow(self, name: str) -> AsyncIterator[Sequence[MetadataRow]]:
        return self.system.follow_metadata(self.nodes[name], run=self.run, clock=self.backend.clock)

    # administration
    async def create_topic(self, topic: Topic, *, deadline: float = 30, whole: bool = True) -> None:
        """Create it and wait until every broker's own view shows all its partitions led and in sync.

        whole=False, where brokers are away: until those that answer show them led.
        """
        await administration.create_topic(self, topic, deadline=deadline, whole=whole)

    async def delete_topic(self, name: str, *, deadline: float = 30) -> None:
        """Delete it and wait until no broker shows it."""
        await administration.delete_topic(self, name, deadline=deadline)

    async def elect(self, topic: str, partition: int, *, preferred: bool = True, deadline: float = 30) -> str | None:
        """Ask for an election, preferred or unclean: the error's name (PREFERRED_LEADER_NOT_AVAILABLE, ...), None when it was held."""
        return await inquiry.elect(self, topic, partition, preferred=preferred, deadline=deadline)

    async def raise_metadata_version(self, version: str, *, deadline: float = 30) -> None:
        """Finalize a higher metadata.version ("3.9", "3.5-IV1") and wait until every broker knows it."""
        await administration.update_feature(
            self, "metadata.version", self.system.metadata_level(version), deadline=deadline
        )

    async def close(self) -> None:
        """Stop watching. The nodes are the backend's."""
        await self.observer.close()
        await self.metadata_watch.close()
        for connection in self._connections:
            connection.close()
        for event in self._claims.ended():
            self.on_event(event)
        for task in self._guards.values():
            task.cancel()
        await asyncio.gather(*self._guards.values(), return_exceptions=True)

    # watching
    async def _guard(self, name: str) -> None:
        gone = await self.nodes[name].exited()
        self._starting.discard(name)
        if name in self._ended:
            detail = "killed" if gone.code == -9 else f"stopped, exit code {gone.code}"
        else:
            try:
                why = await self.system.last_words(self.nodes[name])
            except NodeError as error:
                why = f"its logs cannot be read ({error})"
            detail = self.deaths[name] = f"died by itself, exit code {gone.code}: {why}"
        self._emit(EventKind.EXITED, name, detail=detail)

    def _looked(self, seat: Seat) -> None:
        if seat.reached and seat.name in self._starting:
            self._starting.discard(seat.name)
            self._emit(EventKind.READY, seat.name)
        if seat.role is ServerRole.CONTROLLER:
            for event in self._claimed(seat):
                self.on_event(event)
        view = self.observer.latest()
        for event in changes(self._last, view, run=self.run, clock=self.backend.clock, names=self.observer.names):
            self.on_event(event)
        if view.answered:
            known = self._last.partitions if self._last else {}
            self._last = replace(view, partitions={**known, **view.partitions})

    def _claimed(self, seat: Seat) -> Iterator[Event]:
        leads = (seat.answer.leader, seat.answer.epoch) if isinstance(seat.answer, QuorumAnswer) else None
        now = time.monotonic_ns()
        return self._claims.heard(
            seat.name, seat.id, leads=leads, reached=seat.reached, asked_ns=seat.asked_ns, answered_ns=now
        )

    def _emit(self, kind: EventKind, node: str, *, detail: str | None = None) -> None:
        now = time.monotonic_ns()
        self.on_event(Event(run=self.run, clock=self.backend.clock, at_ns=now, node=node, kind=kind, detail=detail))
