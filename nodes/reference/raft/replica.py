"""The shell around the core: one quorum node as coroutines over an Environment.

    network ──Asked, Answered──┐                     ┌── durable: storage, one sync for all that is waiting, then Flushed
    clock ────Woken────────────┼──> Raft.handle ─────┤
    controller ─append, ...────┘                     └── visible, only afterwards: requests, responses, what the state machine hears

The core steps at once; what it wants done is gathered while the disk is busy, so many appends share one sync. An error of the disk or a
broken invariant ends `run`: a node that cannot keep its promises must not go on making them.

    replica = Replica(environment, 1, config, {1: Address("c1", 9093), ...}, machine)
    task = asyncio.create_task(replica.run())
    last_offset = replica.append(epoch, (b"...",))       # NotLeader; committed when the machine has been given it
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from nodes.reference.environment import MILLISECOND, Address, Caller, Connection, Disconnected, Environment, Timer
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft import snapshots
from nodes.reference.raft.core import Raft
from nodes.reference.raft.events import (
    DURABLE,
    Answered,
    Append,
    Asked,
    BrokenInvariant,
    Committed,
    Effect,
    Event,
    Flushed,
    LeaderChanged,
    Proposed,
    Resigns,
    Respond,
    Send,
    SnapshotTaken,
    Unanswered,
    Woken,
)
from nodes.reference.raft.log import Batch, LogConflict, Snapshot
from nodes.reference.raft.messages import FetchRequest, Request, Response
from nodes.reference.raft.roles import RaftConfig
from nodes.reference.raft.storage import Storage


class StateMachine(Protocol):
    """What the log is for: the controller, or a broker's view of the metadata."""

    def load(self, snapshot: Snapshot) -> None:
        """Forget everything; this is the state at `snapshot.id.offset`."""
        ...

    def apply(self, batch: Batch) -> None:
        """Committed, in order, without gaps; control batches too."""
        ...

    def snapshot(self) -> tuple[bytes, ...]:
        """The state in as few records as it takes."""
        ...

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        """The own id: this node leads, and has applied all that earlier leaders committed."""
        ...


class Replica:
    """`raft` is there to be read. `watch` is called after every step of the core, before anything is done about it.

    addresses: of the voters at least. A node that has none of its own does not listen: a broker that observes, or a controller whose
    listener is shared and hands requests to `serve`.
    """

    def __init__(
        self,
        environment: Environment,
        node_id: int,
        config: RaftConfig,
        addresses: Mapping[int, Address],
        machine: StateMachine,
        protections: Protections = ALL_ON,
        watch: Callable[[Replica], None] | None = None,
    ) -> None:
        self._environment = environment
        self._config = config
        self._addresses = addresses
        self._protections = protections
        self._watch = watch
        self.node_id = node_id
        self.machine = machine
        self.applied_offset = 0
        recovered = Storage.recover(environment.disk, config.cluster_id, config.voters, protections)
        self._storage = recovered.storage
        self.raft = Raft(node_id, config, protections, environment.random, recovered.log, recovered.election)
        self._effects: list[Effect] = []  # that wait for the disk
        self._busy = False
        self._work = asyncio.Event()
        self._responses: dict[int, asyncio.Future[Response]] = {}
        self._tokens = 0
        self._timer: Timer | None = None
        self._timer_at = 0
        self._connections: dict[tuple[int, type], Connection] = {}
        self._asking: dict[tuple[int, type], asyncio.Task[None]] = {}
        self._failure: BaseException | None = None

    async def run(self) -> None:
        """Until cancelled; raises what makes this node unfit to go on: OSError, BrokenInvariant."""
        clock = self._environment.clock
        address = self._addresses.get(self.node_id)
        listening = await self._environment.network.listen(address, self.serve) if address is not None else None
        try:
            self._take(self.raft.start(clock.now()))
            while self._failure is None:
                await self._work.wait()
                self._work.clear()
                await self._carry_out()
            raise self._failure
        finally:
            if listening is not None:
                listening.close()
            self.close()

    def close(self) -> None:
        """What is under way is left as it is; the disk has what was promised."""
        if self._timer is not None:
            self._timer.cancel()
        for task in tuple(self._asking.values()):
            task.cancel()
        for connection in self._connections.values():
            connection.close()
        self._storage.close()

    # What the controller does

    def append(self, epoch: int, values: tuple[bytes, ...]) -> int:
        """Appends records that stand or fall together; the offset of the last. NotLeader unless this node leads `epoch`."""
        self._handle(Proposed(epoch, values, self._environment.clock.wall()))
        return self.raft.log.end_offset - 1

    def resign(self) -> None:
        """KIP-595, EndQuorumEpoch: before a shutdown or a snapshot of the active controller. Nothing if this node does not lead."""
        self._handle(Resigns())

    def take_snapshot(self) -> None:
        """KIP-630: of what the machine has applied; the log before it goes."""
        log = self.raft.log
        snapshot_id = snapshots.snapshot_id(log, self.applied_offset, self.raft.high_watermark, self._protections)
        if snapshot_id.offset > log.start_offset:
            voters = log.voters_before(snapshot_id.offset)
            self._handle(SnapshotTaken(Snapshot(snapshot_id, voters, self.machine.snapshot())))

    async def serve(self, caller: Caller, request: object) -> Response:
        """A request of another node, from whatever listener it came."""
        self._tokens += 1
        token, response = self._tokens, asyncio.get_running_loop().create_future()
        self._responses[token] = response
        try:
            assert isinstance(request, Request)
            self._handle(Asked(token, request))
            answer: Response = await response
            return answer
        finally:
            self._responses.pop(token, None)

    # Steps

    def _handle(self, event: Event) -> None:
        if self._failure is not None:
            return
        try:
            effects = self.raft.handle(self._environment.clock.now(), event)
        except (BrokenInvariant, LogConflict) as broken:
            self._failure = broken
            self._work.set()
            return
        self._take(effects)

    def _take(self, effects: list[Effect]) -> None:
        if self._watch is not None:
            self._watch(self)
        self._arm()
        if self._busy or any(isinstance(effect, DURABLE) for effect in effects):
            self._effects += effects
            self._work.set()
        else:
            for effect in effects:
                self._show(effect)

    def _arm(self) -> None:
        """A timer that fires too early costs less than one that is set anew at each step."""
        deadline = self.raft.deadline()
        if self._timer is None or deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            self._timer = self._environment.clock.call_at(deadline, self._woken)

    def _woken(self) -> None:
        self._timer = None
        if self._environment.clock.now() >= self.raft.deadline():
            self._handle(Woken())
        else:
            self._arm()

    # What is done about them

    async def _carry_out(self) -> None:
        """Everything durable, then everything visible, of all that has gathered."""
        self._busy = True
        while self._effects and self._failure is None:
            effects, self._effects = self._effects, []
            appended: Append | None = None
            durable = False
            for effect in effects:
                if isinstance(effect, DURABLE):
                    self._storage.carry_out(effect)
                    durable = True
                    appended = effect if isinstance(effect, Append) else appended
            if durable:
                await self._storage.sync()
            if appended is not None:
                self._handle(Flushed(appended.batch.next_offset))
            for effect in effects:
                self._show(effect)
        self._busy = False

    def _show(self, effect: Effect) -> None:
        match effect:
            case Send(peer, request):
                task = asyncio.get_running_loop().create_task(self._ask(peer, request))
                self._asking[peer, type(request)] = task  # of a kind there is one to each peer at a time
            case Respond(token, response):
                waiting = self._responses.get(token)
                if waiting is not None and not waiting.done():
                    waiting.set_result(response)
            case Committed(high_watermark):
                self._apply(high_watermark)
            case LeaderChanged(leader_id, epoch):
                self.machine.leader_changed(leader_id, epoch)

    def _apply(self, high_watermark: int) -> None:
        log = self.raft.log
        if self.applied_offset < log.start_offset and log.snapshot is not None:
            self.machine.load(log.snapshot)
            self.applied_offset = log.start_offset
        for batch in log.read(self.applied_offset, up_to=high_watermark):
            self.machine.apply(batch)
            self.applied_offset = batch.next_offset

    async def _ask(self, peer: int, request: Request) -> None:
        """One connection for each kind of request, so that none waits behind a long poll."""
        deadline = self._environment.clock.now() + self._config.request_timeout
        if isinstance(request, FetchRequest):
            deadline += request.max_wait_ms * MILLISECOND
        try:
            connection = await self._connect(peer, type(request), deadline)
            response = await connection.ask(request, deadline=deadline)
        except Disconnected:
            self._connections.pop((peer, type(request)), None)
            self._handle(Unanswered(peer, request))
            return
        assert isinstance(response, Response)
        self._handle(Answered(peer, request, response))

    async def _connect(self, peer: int, kind: type, deadline: int) -> Connection:
        connection = self._connections.get((peer, kind))
        if connection is None or connection.closed:
            address, network = self._addresses.get(peer), self._environment.network
            if address is None:
                raise Disconnected(f"nobody has said where node {peer} is")
            connection = await network.connect(address, client_id=f"raft-{self.node_id}", deadline=deadline)
            self._connections[peer, kind] = connection
        return connection
