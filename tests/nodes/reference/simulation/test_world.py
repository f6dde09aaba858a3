"""What the simulated world promises the code that runs in it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from random import Random

import pytest

from nodes.reference.environment import MILLISECOND, SECOND, Address, Caller, Disconnected, Environment
from nodes.reference.simulation.disk import PowerOff, SimulatedDisk
from nodes.reference.simulation.lockstep import prompt
from nodes.reference.simulation.network import Trouble
from nodes.reference.simulation.world import World

SERVER = Address("server", 9092)


class Served:
    """An echo, and a client that asks it; what they saw."""

    def __init__(self, seed: int = 1, *, takes: int = 0) -> None:
        self.world = World(seed)
        self.server, self.client = self.world.machine("server"), self.world.machine("client")
        self.answers: list[object] = []
        self.arrived: list[object] = []
        self._takes = takes
        self.world.start(self.server, self.serve)

    async def serve(self, environment: Environment) -> None:
        async def echo(caller: Caller, request: object) -> object:
            self.arrived.append(request)
            await environment.clock.sleep_until(environment.clock.now() + self._takes)
            return request

        await environment.network.listen(SERVER, echo)
        await asyncio.Event().wait()

    def asks(self, *requests: object, at_once: bool = False) -> None:
        async def client(environment: Environment) -> None:
            deadline = environment.clock.now() + SECOND
            try:
                connection = await environment.network.connect(SERVER, client_id="c", deadline=deadline)
                asking = [connection.ask(request, deadline=deadline) for request in requests]
                if at_once:
                    self.answers += await asyncio.gather(*asking)
                else:
                    for one in asking:
                        self.answers.append(await one)
            except Disconnected as gone:
                self.answers.append(str(gone))
                for one in asking if "asking" in locals() else ():
                    one.close()

        self.world.start(self.client, client)


def test_requests_of_one_connection_stay_in_order() -> None:
    served = Served()
    served.world.network.trouble = Trouble(slow=50 * MILLISECOND, usual=40 * MILLISECOND)
    served.asks(*range(20), at_once=True)
    served.world.run_for(2 * SECOND)
    assert served.arrived == served.answers == list(range(20))


def test_time_passes_only_in_the_simulation() -> None:
    served = Served(takes=SECOND // 2)
    served.asks("x")
    served.world.run_for(3600 * SECOND)
    assert served.answers == ["x"]
    assert served.world.loop.now == 3600 * SECOND


@pytest.mark.parametrize("directions", [("client", "server"), ("server", "client")])
def test_a_cut_is_found_at_the_deadline(directions: tuple[str, str]) -> None:
    served = Served()
    served.world.network.cut(*directions)
    served.asks("x")
    served.world.run_for(SECOND - 1)
    assert served.answers == []
    served.world.run_for(2)
    assert len(served.answers) == 1
    assert "server" in str(served.answers[0])


def test_nobody_listens() -> None:
    served = Served()
    served.world.run_for(1)
    served.world.kill(served.server)
    served.asks("x")
    served.world.run_for(SECOND // 2)
    assert served.answers == ["server:9092 cannot be reached"]


@pytest.mark.parametrize(("end", "soon"), [("kill", True), ("power_loss", False)])
def test_who_is_connected_hears_of_a_kill_but_not_of_a_power_loss(end: str, soon: bool) -> None:
    served = Served(takes=10 * SECOND)
    served.asks("x")
    served.world.run_for(SECOND // 10)
    getattr(served.world, end)(served.server)
    served.world.run_for(SECOND // 2)
    assert bool(served.answers) is soon
    served.world.run_for(SECOND)
    assert served.answers == ["the connection to server is gone"]


def run(world: World, program: Callable[[Environment], Coroutine[object, object, None]]) -> None:
    world.start(world.machine("one"), program)


def test_a_killed_process_does_not_run_its_finally() -> None:
    world, ran = World(1), []

    async def program(environment: Environment) -> None:
        try:
            ran.append("began")
            await environment.clock.sleep_until(SECOND)
            ran.append("went on")
        finally:
            ran.append("cleaned up")

    run(world, program)
    world.run_for(SECOND // 2)
    world.kill(world.machines["one"])
    world.run_for(10 * SECOND)
    assert ran == ["began"]
    world.close()


def test_a_paused_process_goes_on_where_it_was() -> None:
    world, woke = World(1), []

    async def program(environment: Environment) -> None:
        await environment.clock.sleep_until(SECOND)
        woke.append(environment.clock.now())

    run(world, program)
    world.run_for(SECOND // 2)
    world.pause(world.machines["one"])
    world.run_for(5 * SECOND)
    assert woke == []
    world.resume(world.machines["one"])
    world.run_for(1)
    assert woke == [5 * SECOND + SECOND // 2]


def test_clocks_drift() -> None:
    world, woke = World(1), []

    def program(name: str) -> Callable[[Environment], Coroutine[object, object, None]]:
        async def sleeps(environment: Environment) -> None:
            await environment.clock.sleep_until(SECOND)
            woke.append((name, world.loop.now, environment.clock.now()))

        return sleeps

    for name, drift in (("fast", 1000), ("slow", -1000)):
        world.start(world.machine(name, drift=drift), program(name))
    world.run_for(2 * SECOND)
    assert [name for name, *_ in woke] == ["fast", "slow"]
    assert all(own >= SECOND for _, _, own in woke)
    assert woke[1][1] - woke[0][1] == pytest.approx(2 * MILLISECOND, rel=0.01)


def test_what_a_program_raises_is_told() -> None:
    world = World(1)

    async def program(environment: Environment) -> None:
        raise OSError("no disk")

    run(world, program)
    world.run_for(1)
    assert [(name, str(error)) for name, error in world.failures] == [("one", "no disk")]
    assert not world.machines["one"].runs


class TestDisk:
    def test_a_power_loss_takes_only_what_was_not_synced(self) -> None:
        left = set()
        for seed in range(60):
            disk = SimulatedDisk(Random(seed))
            file = prompt(disk).open("log")
            file.append(b"safe")
            file.sync()
            file.append(b"lost?")
            disk.lose_power()
            content = prompt(disk).read("log") or b""
            assert content.startswith(b"safe")
            left.add(content[4:])
        assert {b"", b"lost?", b"lo"} <= left, "all of it, none of it, some of it"
        assert any(b"\x00" in content for content in left), "a file may have grown before it was filled"

    def test_the_worst_loss_leaves_what_was_synced_or_written_back(self) -> None:
        disk = SimulatedDisk(Random(1))
        file = prompt(disk).open("log")
        file.append(b"written back")
        disk.write_back()
        file.append(b", lost")
        prompt(disk).open("new").append(b"lost")
        disk.lose_power(everything=True)
        assert prompt(disk).read("log") == b"written back"
        assert prompt(disk).read("new") is None

    def test_a_file_that_was_never_synced_may_have_no_name(self) -> None:
        there = set()
        for seed in range(30):
            disk = SimulatedDisk(Random(seed))
            prompt(disk).open("log").append(b"x")
            disk.lose_power()
            there.add(prompt(disk).read("log"))
        assert None in there

    @pytest.mark.parametrize("sync", [True, False])
    def test_a_replaced_file_is_old_or_new(self, sync: bool) -> None:
        seen = set()
        for seed in range(60):
            disk = SimulatedDisk(Random(seed))
            prompt(disk).replace("state", b"old")
            prompt(disk).replace("state", b"new", sync=sync)
            disk.lose_power()
            seen.add(prompt(disk).read("state"))
        assert seen == ({b"new"} if sync else {b"old", b"new", b""})

    def test_a_crash_of_the_process_loses_nothing(self) -> None:
        world = World(1)

        async def program(environment: Environment) -> None:
            environment.disk.open("log").append(b"written")
            await asyncio.Event().wait()

        run(world, program)
        world.run_for(1)
        world.kill(world.machines["one"])
        assert world.machines["one"].disk.files["log"].seen == b"written"
        world.close()

    def test_a_sync_that_was_not_over_promises_nothing(self) -> None:
        lost = 0
        for seed in range(20):
            world = World(seed)

            async def program(environment: Environment) -> None:
                file = environment.disk.open("log")
                file.append(b"x" * 100)
                await file.sync_aside()

            run(world, program)
            world.run_for(MILLISECOND // 20)
            world.power_loss(world.machines["one"])
            lost += len(prompt(world.machines["one"].disk).read("log") or b"") < 100
            world.close()
        assert lost > 0

    def test_a_full_disk_says_so(self) -> None:
        disk = SimulatedDisk(Random(1))
        disk.capacity = 10
        file = prompt(disk).open("log")
        file.append(b"12345678")
        with pytest.raises(OSError, match="No space"):
            file.append(b"123")
        with pytest.raises(OSError, match="No space"):
            prompt(disk).replace("state", b"123")

    def test_a_sync_that_failed_is_not_made_good_by_the_next(self) -> None:
        """As on Linux: it is reported once, and the pages count as written."""
        disk = SimulatedDisk(Random(1))
        file = prompt(disk).open("log")
        file.append(b"safe")
        file.sync()
        file.append(b" and not")
        disk.fail("sync", errno.EIO, times=1)
        with pytest.raises(OSError, match="EIO"):
            file.sync()
        file.sync()
        disk.lose_power()
        assert prompt(disk).read("log") == b"safe"

    def test_power_goes_between_two_operations(self) -> None:
        disk = SimulatedDisk(Random(1))
        mounted = prompt(disk)
        file = mounted.open("log")
        disk.after(2, disk.lose_power)
        file.append(b"one")
        file.sync()
        with pytest.raises(PowerOff):
            file.append(b"two")
        with pytest.raises(PowerOff):
            mounted.replace("state", b"of the dead")
        assert prompt(disk).read("log") == b"one"
        assert prompt(disk).read("state") is None


@pytest.mark.parametrize("comes", [True, False])
def test_what_is_held_comes_late_or_never(comes: bool) -> None:
    served = Served()
    held = served.world.network.hold(lambda source, target, message: message == "x")
    served.asks("x")
    served.world.run_for(SECOND // 2)
    assert held.caught == ["x"]
    assert not served.arrived
    if comes:
        served.world.network.release()
    else:
        held.drop()
    served.world.run_for(SECOND)
    assert served.arrived == (["x"] if comes else [])
    served.asks("x")
    served.world.run_for(SECOND // 4)
    assert served.arrived.count("x") == (2 if comes else 1), "nothing is held any more"
