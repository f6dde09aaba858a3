"""The shell: what it does when its node cannot go on, and nodes that do not listen."""

from __future__ import annotations

from nodes.reference.environment import MILLISECOND, SECOND, Address
from nodes.reference.raft.events import BrokenInvariant
from nodes.reference.raft.log import Voters
from nodes.reference.raft.messages import BeginQuorumEpochRequest
from nodes.reference.raft.replica import Replica
from nodes.reference.raft.roles import Follower, Leader, RaftConfig
from nodes.reference.simulation.invariants import Invariants
from nodes.reference.simulation.quorum import KeyValues
from nodes.reference.simulation.world import World

CONFIG = RaftConfig(cluster_id="k", voters=Voters((1, 2, 3)))
VOTERS = {node_id: Address(f"c{node_id}", 9093) for node_id in (1, 2, 3)}


class Nodes:
    def __init__(self, *node_ids: int) -> None:
        self.world = World(1)
        self.replicas: dict[int, Replica] = {}
        for node_id in node_ids:
            self.world.machine(f"c{node_id}")
            self.start(node_id)

    def start(self, node_id: int) -> None:
        async def program(environment: object) -> None:
            machine = KeyValues(node_id, Invariants())
            self.replicas[node_id] = Replica(environment, node_id, CONFIG, VOTERS, machine)  # type: ignore[arg-type]
            await self.replicas[node_id].run()

        self.world.start(self.world.machines[f"c{node_id}"], program)

    def leader(self) -> Replica:
        self.world.run_for(
            10 * SECOND, stop=lambda: any(isinstance(one.raft.role, Leader) for one in self.replicas.values())
        )
        self.world.run_for(SECOND)
        (leader,) = [one for one in self.replicas.values() if isinstance(one.raft.role, Leader)]
        return leader

    def append(self, leader: Replica, *values: bytes) -> int:
        process = self.world.machines[f"c{leader.node_id}"].process
        assert process is not None
        return process.context.run(leader.append, leader.raft.epoch, values)


def test_an_observer_needs_no_address() -> None:
    nodes = Nodes(1, 2, 3, 9)
    leader = nodes.leader()
    last = nodes.append(leader, b"a=1", b"b=2")
    nodes.world.run_for(100 * MILLISECOND)
    observer = nodes.replicas[9]
    assert observer.applied_offset == last + 1
    assert isinstance(observer.machine, KeyValues)
    assert observer.machine.values == {b"a": b"1", b"b": b"2"}
    assert observer.machine.leader == (leader.node_id, leader.raft.epoch)


def test_appends_that_wait_for_the_disk_share_a_sync() -> None:
    nodes = Nodes(1, 2, 3)
    leader = nodes.leader()
    disk = nodes.world.machines[f"c{leader.node_id}"].disk
    before = disk.syncs
    for number in range(50):
        nodes.append(leader, b"a=%d" % number)
    nodes.world.run_for(100 * MILLISECOND)
    assert leader.applied_offset == leader.raft.log.end_offset
    assert disk.syncs - before <= 2


def test_a_node_whose_disk_is_full_stops_and_the_others_go_on() -> None:
    nodes = Nodes(1, 2, 3)
    leader = nodes.leader()
    nodes.world.machines[f"c{leader.node_id}"].disk.capacity = 1
    nodes.append(leader, b"a=1")
    nodes.world.run_for(SECOND)
    assert [(name, type(error)) for name, error in nodes.world.failures] == [(f"c{leader.node_id}", OSError)]
    del nodes.replicas[leader.node_id]
    other = nodes.leader()
    nodes.append(other, b"a=2")
    nodes.world.run_for(SECOND)
    assert isinstance(other.machine, KeyValues)
    assert other.machine.values == {b"a": b"2"}


def test_a_node_that_sees_a_broken_invariant_stops() -> None:
    nodes = Nodes(1, 2, 3)
    leader = nodes.leader()
    follower = next(one for one in nodes.replicas.values() if isinstance(one.raft.role, Follower))
    liar = next(node_id for node_id in (1, 2, 3) if node_id not in (leader.node_id, follower.node_id))

    async def lie(environment: object) -> None:
        network, clock = environment.network, environment.clock  # type: ignore[attr-defined]
        deadline = clock.now() + SECOND
        connection = await network.connect(VOTERS[follower.node_id], client_id="liar", deadline=deadline)
        await connection.ask(BeginQuorumEpochRequest("k", leader.raft.epoch, liar), deadline=deadline)

    nodes.world.start(nodes.world.machine("liar"), lie)
    nodes.world.run_for(SECOND)
    (name, error) = nodes.world.failures[0]
    assert name == f"c{follower.node_id}"
    assert isinstance(error, BrokenInvariant)
    assert not nodes.world.machines[name].runs
