"""A controller node over its replica: who answers what, snapshots, and what is there after a restart."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.controller.broker_messages import (
    OK,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    BrokerState,
)
from nodes.reference.controller.client_messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewTopic,
)
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.controller.shell import ControllerNode
from nodes.reference.environment import SECOND, Address, Caller, Environment
from nodes.reference.raft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from nodes.reference.simulation.quorum import hasty
from nodes.reference.simulation.world import World
from tests.nodes.reference.controller.stage import FEATURES

Ask = Callable[[object], Awaitable[object]]
SETTINGS = ControllerSettings(cluster_id="k", snapshot_every=12, snapshot_every_lagging=12)


class Cluster:
    def __init__(self, *voters: int) -> None:
        self.world = World(3)
        self.nodes: dict[int, ControllerNode] = {}
        self._addresses = {voter: Address(f"c{voter}", 9093) for voter in voters}
        self._config = hasty(voters, self.world.random("config"))
        for voter in voters:
            self.world.machine(f"c{voter}")
            self.start(voter)
        self.world.machine("client")
        self.world.run_for(2 * SECOND)

    def start(self, voter: int) -> None:
        def program(environment: Environment):  # type: ignore[no-untyped-def]
            self.nodes[voter] = ControllerNode(
                environment, voter, self._addresses[voter], self._addresses, self._config, SETTINGS
            )
            return self.nodes[voter].run()

        self.world.start(self.world.machines[f"c{voter}"], program)

    @property
    def active(self) -> int:
        (active,) = (voter for voter, node in self.nodes.items() if node.core.active)
        return active

    def client(self, controller: int, script: Callable[[Ask], Awaitable[None]]) -> None:
        """Runs a script of a client that is connected to one controller, to its end."""
        done = []

        async def program(environment: Environment) -> None:
            def deadline() -> int:
                return environment.clock.now() + SECOND

            address = self._addresses[controller]
            connection = await environment.network.connect(address, client_id="client", deadline=deadline())

            async def ask(request: object) -> object:
                return await connection.ask(request, deadline=deadline())

            await script(ask)
            done.append(True)

        self.world.start(self.world.machines["client"], program)
        self.world.run_for(3 * SECOND)
        assert self.world.failures == []
        assert done


async def broker_lives(ask: Ask) -> None:
    """Registers, becomes active, wants topics."""
    registered = await ask(
        BrokerRegistrationRequest(broker_id=11, cluster_id="k", incarnation_id=UUID(int=5), features=FEATURES)
    )
    assert isinstance(registered, BrokerRegistrationResponse)
    assert registered.error is OK
    answer = await ask(
        BrokerHeartbeatRequest(
            broker_id=11,
            broker_epoch=registered.broker_epoch,
            target=BrokerState.ACTIVE,
            metadata_offset=registered.broker_epoch + 1,
            lease_start_ms=0,
        )
    )
    assert isinstance(answer, BrokerHeartbeatResponse)
    assert answer.next_state is BrokerState.ACTIVE
    for name in ("t", "u", "v", "w"):
        new = NewTopic(name=name, partition_count=2, replication_factor=1)
        created = await ask(CreateTopicsRequest(topics=(new,)))
        assert isinstance(created, CreateTopicsResponse)
        assert created.topics[0].error is OK


def test_all_have_the_state_and_a_snapshot_of_it() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.client(cluster.active, broker_lives)
    cluster.world.run_for(3 * SECOND)
    images = [node.core.image for node in cluster.nodes.values()]
    assert set(images[0].topic_ids) == {"t", "u", "v", "w"}
    assert images[0] == images[1] == images[2]
    assert all(node.replica.raft.log.start_offset > 10 for node in cluster.nodes.values())
    cluster.world.close()


def test_a_lone_controller_comes_back_with_what_it_had() -> None:
    cluster = Cluster(1)
    cluster.client(1, broker_lives)
    before = cluster.nodes[1].core.image
    assert cluster.nodes[1].replica.raft.log.start_offset > 0
    cluster.world.power_loss(cluster.world.machines["c1"])
    cluster.start(1)
    cluster.world.run_for(SECOND)
    after = cluster.nodes[1].core.image
    assert after is not before
    assert after == before
    cluster.world.close()


def test_a_standby_passes_nothing_on_but_tells_who_is_active() -> None:
    cluster = Cluster(1, 2, 3)
    active = cluster.active
    standby = next(voter for voter in cluster.nodes if voter != active)

    async def asks(ask: Ask) -> None:
        answer = await ask(
            BrokerHeartbeatRequest(
                broker_id=1, broker_epoch=1, target=BrokerState.ACTIVE, metadata_offset=0, lease_start_ms=0
            )
        )
        assert isinstance(answer, BrokerHeartbeatResponse)
        assert answer.error is ErrorCode.not_controller
        assert answer.active_controller_id == active

    cluster.client(standby, asks)
    cluster.world.close()


def test_requests_of_the_quorum_go_to_the_replica() -> None:
    cluster = Cluster(1, 2, 3)
    active = cluster.active

    async def asks(ask: Ask) -> None:
        described = await ask(DescribeQuorumRequest())
        assert isinstance(described, DescribeQuorumResponse)
        assert described.leader_id == active

    cluster.client(active, asks)
    cluster.world.close()


def test_anything_else_is_no_request() -> None:
    cluster = Cluster(1)
    with pytest.raises(TypeError, match="does not know str"):
        cluster.nodes[1].serve(Caller("client", "c", 1), "hello").send(None)
    cluster.world.close()
