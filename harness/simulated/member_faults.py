"""What happens to group members of a simulated run: paused, or killed and started again, one at a time, at times drawn from the seed.

faults = MemberFaults(world, programs, MemberMix(weights={"pause": 2, "kill": 1}), random)
faults.plan(until)
faults.heal()
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random

from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.simulation.world import Program, World


@dataclass(frozen=True, kw_only=True)
class MemberMix:
    """weights: kind -> how often, of all. Times in ns; a pause between faults is drawn around `every`."""

    weights: Mapping[str, int]
    every: int = 2 * SECOND
    shortest: int = 500 * MILLISECOND
    longest: int = 6 * SECOND


class MemberFaults:
    """programs: machine -> what runs there."""

    def __init__(self, world: World, programs: Mapping[str, Program], mix: MemberMix, random: Random) -> None:
        self._world, self._programs, self._mix, self._random = world, programs, mix, random
        self._hit: str | None = None
        self._stopped = False

    def plan(self, until: int) -> None:
        """None begins after `until` (ns of the world)."""
        if self._world.loop.now < until and self._mix.weights and self._programs:
            self._world.after(self._random.randint(1, 2 * self._mix.every), partial(self._next, until))

    def heal(self) -> None:
        self._stopped = True
        self._end()

    def _next(self, until: int) -> None:
        if self._stopped:
            return
        if self._hit is None:
            self._hit = self._random.choice(tuple(self._programs))
            machine = self._world.machines[self._hit]
            (kind,) = self._random.choices(tuple(self._mix.weights), tuple(self._mix.weights.values()))
            if kind == "pause":
                self._world.pause(machine)
            else:
                self._world.kill(machine)
            self._world.after(self._random.randint(self._mix.shortest, self._mix.longest), self._end)
        self.plan(until)

    def _end(self) -> None:
        if self._hit is None:
            return
        name, self._hit = self._hit, None
        machine = self._world.machines[name]
        self._world.resume(machine)
        self._world.start(machine, self._programs[name])
