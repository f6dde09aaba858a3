"""A simulated world: machines with disks, processes on them, one network, one clock; all chances from one seed.

    world = World(seed=7)
    machine = world.machine("c1")
    world.start(machine, lambda environment: Replica(environment, ...).run())
    world.run_for(10 * SECOND)
    world.power_loss(machine)

Each source of chance has a stream of its own (seed and name), so that one more message on the network does not change which bytes a disk
loses. `World(seed, record=True)` keeps a trace; the same seed twice gives the same bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from random import Random

from nodes.reference.environment import Environment
from nodes.reference.simulation.disk import SimulatedDisk
from nodes.reference.simulation.loop import Call, Process, SimulatedLoop, simulated_loop
from nodes.reference.simulation.network import SimulatedNetwork

Program = Callable[[Environment], Coroutine[object, object, None]]
_EPOCH_MS = 1_600_000_000_000


class SimulatedClock:
    """The clock of a process. `drift`: how many parts in a million it runs fast."""

    def __init__(self, loop: SimulatedLoop, process: Process, drift: int) -> None:
        self._loop = loop
        self._process = process
        self._rate = 1_000_000 + drift
        self._drift = drift

    def now(self) -> int:
        return self._loop.now + self._loop.now * self._drift // 1_000_000 if self._drift else self._loop.now

    def wall(self) -> int:
        return _EPOCH_MS + self.now() // 1_000_000

    def call_at(self, when: int, callback: Callable[[], None]) -> Call:
        return self._loop.at(self._of_world(when), callback, context=self._process.context)

    async def sleep_until(self, when: int) -> None:
        future = self._loop.create_future()
        self._loop.at(self._of_world(when), _come, future)
        await future

    def _of_world(self, when: int) -> int:
        """The first moment at which this clock shows it."""
        return -(-when * 1_000_000 // self._rate) if self._drift else when


def _come(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Machine:
    def __init__(self, name: str, disk: SimulatedDisk, drift: int) -> None:
        self.name = name
        self.disk = disk
        self.drift = drift
        self.process: Process | None = None

    @property
    def runs(self) -> bool:
        return self.process is not None


class World:
    """`failures`: programs that ended with an error, by machine."""

    def __init__(self, seed: int, *, record: bool = False) -> None:
        self.seed = seed
        self.loop = simulated_loop()
        self.trace: list[str] | None = [] if record else None
        self.network = SimulatedNetwork(self.loop, self.random("network"), self._delivered if record else None)
        self.machines: dict[str, Machine] = {}
        self.failures: list[tuple[str, BaseException]] = []
        self._context = copy_context()

    def random(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")

    def after(self, delay: int, happens: Callable[[], object]) -> None:
        """Something that no process does."""
        self.loop.at(self.loop.now + delay, happens, context=self._context)

    def note(self, what: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.loop.now} {what}")

    def history(self) -> bytes:
        """The trace as bytes; empty unless it was recorded."""
        return "\n".join(self.trace or ()).encode()

    def machine(self, name: str, *, drift: int = 0) -> Machine:
        machine = self.machines[name] = Machine(name, SimulatedDisk(self.random(f"disk {name}")), drift)
        return machine

    def start(self, machine: Machine, program: Program) -> None:
        """Nothing if a process runs there already."""
        if machine.process is not None:
            return
        process = machine.process = Process(machine.name)
        clock = SimulatedClock(self.loop, process, machine.drift)
        starts = self.random(f"process {machine.name} {self.loop.now}")
        environment = Environment(clock, self.network.of(machine.name, process), machine.disk.mounted(clock), starts)
        self.note(f"{machine.name} starts")
        process.context.run(self.loop.create_task, self._main(machine, process, program, environment))

    def kill(self, machine: Machine) -> None:
        """SIGKILL: what was written stays, synced or not; peers see their connections end."""
        self._end(machine, silently=False)

    def power_loss(self, machine: Machine, *, everything: bool = False) -> None:
        """The machine is off: what was not synced may be lost, or all of it is; peers see nothing."""
        self._end(machine, silently=True)
        machine.disk.lose_power(everything=everything)

    def pause(self, machine: Machine) -> None:
        if machine.process is not None:
            self.note(f"{machine.name} pauses")
            machine.process.paused = True

    def resume(self, machine: Machine) -> None:
        if machine.process is not None and machine.process.paused:
            self.note(f"{machine.name} goes on")
            self.loop.resume(machine.process)

    def run_for(self, duration: int, *, stop: Callable[[], bool] | None = None) -> None:
        self.loop.run_until(self.loop.now + duration, stop=stop)
        if self.loop.errors:
            error = self.loop.errors[0]
            raise error if isinstance(error, BaseException) else RuntimeError(error)

    def close(self) -> None:
        """Ends every process, so that nothing of this world is left."""
        for machine in self.machines.values():
            self._end(machine, silently=True)
        self.loop.exhume()

    def _end(self, machine: Machine, *, silently: bool) -> None:
        process, machine.process = machine.process, None
        if process is None:
            return
        self.note(f"{machine.name} {'loses power' if silently else 'is killed'}")
        process.alive = False
        process.held.clear()
        self.network.died(process, silently=silently)
        self.loop.bury(process)

    async def _main(self, machine: Machine, process: Process, program: Program, environment: Environment) -> None:
        try:
            await program(environment)
        except Exception as error:  # noqa: BLE001 - a simulated process ends with any, as a real one would
            self.failures.append((machine.name, error))
        if machine.process is process:
            self._end(machine, silently=False)

    def _delivered(self, now: int, source: str, target: str, message: object) -> None:
        assert self.trace is not None
        self.trace.append(f"{now} {source} -> {target} {message}")
