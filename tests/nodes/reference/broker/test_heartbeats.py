"""A broker whose registration is refused: how often it asks again, and what it says about it. The controller is a list of answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from random import Random

import pytest
from kio.schema.broker_registration.v1.request import BrokerRegistrationRequest
from kio.schema.broker_registration.v1.response import BrokerRegistrationResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i64

from nodes.reference.broker.backoff import Backoff
from nodes.reference.broker.broker import Broker
from nodes.reference.broker.heartbeats import Heartbeats
from nodes.reference.broker.lifecycle import Lifecycle
from nodes.reference.broker.metadata import Metadata
from nodes.reference.broker.settings import BrokerSettings
from nodes.reference.controller.broker_messages import BrokerState
from nodes.reference.controller.schema import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from nodes.reference.environment import MILLISECOND, SECOND, Address, Caller, Environment
from nodes.reference.protections import ALL_ON
from nodes.reference.server.schema import NO_TIME
from nodes.reference.simulation.world import World

CONTROLLER = Address("c1", 9093)
DUPLICATE, WRONG_CLUSTER = ErrorCode.duplicate_broker_registration, ErrorCode.inconsistent_cluster_id


class Scene:
    """errors: how registrations are answered, one after the other; the last for ever. A heartbeat has lost its epoch."""

    def __init__(self, *errors: ErrorCode, seed: int = 1) -> None:
        self.world = World(seed)
        self.errors = list(errors)
        self.asked: list[int] = []  # when, in ns
        self.world.start(self.world.machine("c1"), self._controller)
        self.world.run_for(MILLISECOND)
        self.world.start(self.world.machine("b1"), self._broker)

    async def _controller(self, environment: Environment) -> None:
        async def serve(caller: Caller, request: object) -> object:
            if isinstance(request, BrokerHeartbeatRequest):
                return BrokerHeartbeatResponse(
                    error_code=ErrorCode.stale_broker_epoch,
                    active_controller_id=101,
                    next_state=BrokerState.FENCED,
                    broker_epoch=-1,
                    lease_end_time_ms=0,
                )
            assert isinstance(request, BrokerRegistrationRequest)
            self.asked.append(self.world.loop.now)
            error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
            return BrokerRegistrationResponse(throttle_time=NO_TIME, error_code=error, broker_epoch=i64(7))

        await environment.network.listen(CONTROLLER, serve)
        await asyncio.Event().wait()

    async def _broker(self, environment: Environment) -> None:
        settings = BrokerSettings(
            node_id=1, cluster_id="k", listener=Address("b1", 9092), controllers={101: CONTROLLER}
        )
        metadata = Metadata()
        metadata.leader_changed(101, 1)
        heartbeats = Heartbeats(environment, settings, Lifecycle(ALL_ON), metadata, lambda: False, lambda: None)
        await heartbeats.run(settings.listener)

    @property
    def pauses_ms(self) -> list[int]:
        return [(after - before) // MILLISECOND for before, after in zip(self.asked, self.asked[1:], strict=False)]


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="krash.reference.broker"):
        yield caplog


def test_who_is_refused_for_ever_asks_ever_more_rarely() -> None:
    scene = Scene(DUPLICATE)
    scene.world.run_for(60 * SECOND)
    for pause, longest in zip(scene.pauses_ms[:6], (100, 200, 400, 800, 1_600, 3_000), strict=True):
        assert longest * 8 // 10 <= pause < longest + 20  # the way there and back
    assert all(2_400 <= pause < 3_100 for pause in scene.pauses_ms[5:])
    assert len(scene.asked) < 32
    scene.world.close()


def test_not_all_at_the_same_moment() -> None:
    scenes = [Scene(DUPLICATE, seed=seed) for seed in range(1, 4)]
    for scene in scenes:
        scene.world.run_for(20 * SECOND)
        scene.world.close()
    assert len({tuple(scene.pauses_ms) for scene in scenes}) == 3


def test_the_log_says_why_once(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(DUPLICATE, WRONG_CLUSTER, DUPLICATE, WRONG_CLUSTER, DUPLICATE)
    scene.world.run_for(20 * SECOND)
    assert len(scene.asked) > 5
    assert [record.getMessage() for record in caplog.records] == [
        "broker 1 is not registered: duplicate_broker_registration, another process has its id, and lives; it goes on asking",
        "broker 1 is not registered: inconsistent_cluster_id, its cluster.id is not the controllers'; it goes on asking",
    ]
    scene.world.close()


def test_after_a_registration_all_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    """It was let in, and lost its id again."""
    scene = Scene(DUPLICATE, DUPLICATE, DUPLICATE, ErrorCode.none, DUPLICATE)
    scene.world.run_for(3 * SECOND)
    assert 300 < scene.pauses_ms[2] < 420
    assert scene.pauses_ms[3] < 150  # 50 ms to its first heartbeat, and as many to the next registration
    assert scene.pauses_ms[4] < 120
    assert len(caplog.records) == 2
    scene.world.close()


def test_a_backoff_does_not_outgrow_its_end() -> None:
    backoff = Backoff(Random(1), 100, 3_000)
    waits = [backoff.next() for _ in range(100)]
    assert max(waits) <= 3_000
    assert min(waits[5:]) >= 2_400
    backoff.reset()
    assert backoff.next() <= 100


def test_who_is_not_registered_need_not_ask_whether_it_may_stop() -> None:
    """A controlled shutdown would last 30 s, and has nobody to ask."""
    world, brokers = World(1), list[Broker]()

    async def nothing_comes(metadata: Metadata) -> None:
        await asyncio.Event().wait()

    async def program(environment: Environment) -> None:
        settings = BrokerSettings(
            node_id=1, cluster_id="k", listener=Address("b1", 9092), controllers={101: CONTROLLER}
        )
        brokers.append(Broker(environment, settings, nothing_comes))
        await brokers[0].run()

    machine = world.machine("b1")
    world.start(machine, program)
    world.run_for(SECOND)
    brokers[0].stop()
    world.run_for(10 * SECOND)  # for which it waits for an answer to its registration
    assert machine.process is None
    assert world.failures == []
    world.close()
