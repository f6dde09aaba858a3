"""A controller node: the core (`core.py`) over the Raft replica, on an environment's clock and network. The replica is its `MetadataStore`.

    node = ControllerNode(environment, 1, Address("c1", 9093), {2: Address("c2", 9093), ...}, raft_config, settings)
    task = asyncio.create_task(node.run())
    node.core.active, node.core.image, node.replica.raft

One listener for all: requests of the quorum (`raft/messages.py`, DescribeQuorum among them) go to the replica, those of brokers and
administrators (`messages.py`) to the core. Requests of one connection are answered in order, so what must not wait for the commit of
something else goes by a connection of its own: a broker's heartbeats, and its AlterPartitions. A standby sends ControllerHeartbeats to
the active controller and takes a snapshot when that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from nodes.reference.controller.broker_messages import (
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
)
from nodes.reference.controller.core import Answered, Controller, Effect, Resign, TakeSnapshot
from nodes.reference.controller.messages import (
    Request,
    Response,
)
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.store import QuorumStatus
from nodes.reference.environment import Address, Caller, Connection, Disconnected, Environment, Serve, Timer
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft.log import Batch, Snapshot
from nodes.reference.raft.messages import Request as RaftRequest
from nodes.reference.raft.replica import Replica, StateMachine
from nodes.reference.raft.roles import Leader, RaftConfig


class ReplicaStore:
    """The replica as a MetadataStore. caught_up: had all of the log within the last fetch timeout."""

    def __init__(self, replica: Callable[[], Replica], now: Callable[[], int]) -> None:
        self._replica = replica
        self._now = now

    @property
    def end_offset(self) -> int:
        return self._replica().raft.log.end_offset

    @property
    def snapshot_offset(self) -> int:
        return self._replica().raft.log.start_offset

    def append(self, epoch: int, values: tuple[bytes, ...]) -> int:
        return self._replica().append(epoch, values)

    def quorum(self) -> QuorumStatus:
        raft = self._replica().raft
        voters, role = raft.log.voters.current, raft.role
        since = self._now() - raft.config.fetch_timeout
        progress = role.progress if isinstance(role, Leader) else {}
        caught_up = {voter for voter in voters if voter in progress and progress[voter].last_caught_up >= since}
        return QuorumStatus(voters, frozenset(caught_up | {raft.node_id}))


class ControllerNode:
    """addresses: of the other voters. watch: called after every step of Raft's core (`Replica`); watch_core: after each of this core."""

    def __init__(
        self,
        environment: Environment,
        node_id: int,
        address: Address,
        addresses: Mapping[int, Address],
        raft: RaftConfig,
        settings: ControllerSettings,
        protections: Protections = ALL_ON,
        watch: Callable[[Replica], None] | None = None,
        watch_core: Callable[[ControllerNode, Sequence[Effect]], None] | None = None,
    ) -> None:
        self._environment = environment
        self._address = address
        self._addresses = {voter: there for voter, there in addresses.items() if voter != node_id}
        self._settings = settings
        self._watch_core = watch_core
        self._beside: list[StateMachine] = []
        self._answers: dict[int, asyncio.Future[Response]] = {}
        self._tickets = 0
        self._timer: Timer | None = None
        self._timer_at = 0
        store = ReplicaStore(lambda: self.replica, environment.clock.now)
        self.node_id = node_id
        self.core = Controller(node_id, settings, store, protections, environment.random)
        self.replica = Replica(environment, node_id, raft, self._addresses, self, protections, watch)

    def tell(self, machine: StateMachine) -> None:
        """Have another hear what the log tells: a broker in the same process (KIP-631, process.roles)."""
        self._beside.append(machine)

    async def run(self, serve: Serve | None = None) -> None:
        """Until cancelled; raises what makes this node unfit to go on (`Replica.run`).

        serve: what listens instead of the own one, and hands it what it understands (`server/controller.py`).
        """
        listening = await self._environment.network.listen(self._address, serve or self.serve)
        heartbeats = asyncio.get_running_loop().create_task(self._heartbeats())
        try:
            await self.replica.run()
        finally:
            heartbeats.cancel()
            listening.close()
            if self._timer is not None:
                self._timer.cancel()

    async def serve(self, caller: Caller, request: object) -> object:
        """Of whatever listener. TypeError for what is no request of the quorum or of the controller: the network decodes no other."""
        if isinstance(request, RaftRequest):
            return await self.replica.serve(caller, request)
        if not isinstance(request, Request):
            raise TypeError(f"a controller does not know {type(request).__name__}")
        self._tickets += 1
        ticket, answer = self._tickets, asyncio.get_running_loop().create_future()
        self._answers[ticket] = answer
        try:
            self._done(self.core.ask(ticket, request, self._environment.clock.now()))
            return await answer
        finally:
            self._answers.pop(ticket, None)

    # StateMachine: what the replica tells

    def load(self, snapshot: Snapshot) -> None:
        self._done(self.core.load(snapshot.values, snapshot.id.offset))
        for machine in self._beside:
            machine.load(snapshot)

    def apply(self, batch: Batch) -> None:
        self._done(self.core.committed(batch.values, batch.next_offset, self._environment.clock.now()))
        for machine in self._beside:
            machine.apply(batch)

    def snapshot(self) -> tuple[bytes, ...]:
        return self.core.image.values()

    def leader_changed(self, leader_id: int | None, epoch: int) -> None:
        self._done(self.core.leader_changed(leader_id, epoch, self._environment.clock.now()))
        for machine in self._beside:
            machine.leader_changed(leader_id, epoch)

    # What the core wants done

    def _done(self, effects: Sequence[Effect]) -> None:
        if self._watch_core is not None:
            self._watch_core(self, effects)
        now = self._environment.clock.now()
        for effect in effects:
            match effect:
                case Answered(ticket, response):
                    answer = self._answers.get(ticket)  # type: ignore[call-overload]
                    if answer is not None and not answer.done():
                        answer.set_result(response)
                case Resign():  # not inside of a step of the replica, which this may be
                    self._environment.clock.call_at(now, self.replica.resign)
                case TakeSnapshot():
                    self._environment.clock.call_at(now, self.replica.take_snapshot)
        self._arm(now)

    def _arm(self, now: int) -> None:
        """A timer that fires too early costs less than one that is set anew at each step."""
        deadline = self.core.deadline(now)
        if deadline is None:
            return
        if self._timer is None or deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            self._timer = self._environment.clock.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._environment.clock.now()
        deadline = self.core.deadline(now)
        if deadline is not None and now >= deadline:
            self._done(self.core.tick(now))
        else:
            self._arm(now)

    # KIP-631, ControllerHeartbeat: what a standby does

    async def _heartbeats(self) -> None:
        clock, interval = self._environment.clock, self._settings.controller_heartbeat_interval
        connection: tuple[int, Connection] | None = None
        while True:
            await clock.sleep_until(clock.now() + interval)
            leader = self.core.leader_id
            if leader is None or leader == self.node_id or leader not in self._addresses:
                continue
            deadline = clock.now() + 4 * interval
            try:
                if connection is None or connection[0] != leader or connection[1].closed:
                    if connection is not None:
                        connection[1].close()
                    name = f"controller-{self.node_id}"
                    there = self._addresses[leader]
                    connected = await self._environment.network.connect(there, client_id=name, deadline=deadline)
                    connection = (leader, connected)
                await self._report(connection[1], deadline)
            except Disconnected:
                connection = None

    async def _report(self, connection: Connection, deadline: int) -> None:
        request = ControllerHeartbeatRequest(
            controller_id=self.node_id, last_snapshot_offset=self.replica.raft.log.start_offset
        )
        response = await connection.ask(request, deadline=deadline)
        assert isinstance(response, ControllerHeartbeatResponse)
        if response.error is ErrorCode.none and response.start_snapshot:
            self.replica.take_snapshot()
