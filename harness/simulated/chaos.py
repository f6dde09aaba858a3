"""Faults of a simulated run: drawn from a mix by the seed, injected and healed at simulated times, recorded like those of a real one.

    faults = Faults(cluster, rows, KILLS, random)
    faults.plan(begin, end)            # from now on they come by themselves
    faults.heal()                      # whatever is still broken

One thing at a time by default, and data survives: of brokers one at most is down, cut off or without its disk, so that a cluster whose
protections are all on loses nothing (three replicas, min.insync.replicas 2). `together` allows more, for what needs more to show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from harness.simulated.cluster import SimulatedCluster
from harness.simulated.recording import Rows
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.simulation.network import Trouble

KINDS: Final = (
    "kill",
    "power-loss",
    "pause",
    "wipe",
    "isolate",
    "cut-from-controllers",
    "cut-from-brokers",
    "kill-controller",
    "power-loss-controller",
    "pause-controller",
    "isolate-controller",
    "all-power-loss",
    "slow",
    "loss",
)


@dataclass(frozen=True, kw_only=True)
class Mix:
    """weights: kind -> how often, of all. Times in ns; a pause between faults is drawn around `every`."""

    weights: Mapping[str, int]
    every: int = 2500 * MILLISECOND
    shortest: int = 300 * MILLISECOND
    longest: int = 4 * SECOND
    together: int = 1  # so many brokers may be hit at a time

    def __post_init__(self) -> None:
        if unknown := self.weights.keys() - set(KINDS):
            raise ValueError(f"no such faults: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")


class Faults:
    def __init__(self, cluster: SimulatedCluster, rows: Rows, mix: Mix, random: Random) -> None:
        self._cluster, self._rows, self._mix, self._random = cluster, rows, mix, random
        self._hit: dict[str, int] = {}  # node -> fault that is at work on it
        self._cuts: dict[str, list[str]] = {}
        self._stopped = False

    def plan(self, until: int) -> None:
        """The first comes soon; none begins after `until` (ns of the world)."""
        if self._cluster.world.loop.now < until and self._mix.weights:
            wait = self._random.randint(1, 2 * self._mix.every)
            self._cluster.world.after(wait, partial(self._next, until))

    def heal(self) -> None:
        """Ends every fault that is at work."""
        self._stopped = True
        for name in tuple(self._hit):
            self._end(name)
        self._cluster.world.network.trouble = Trouble()
        self._cluster.heal()

    def _next(self, until: int) -> None:
        if self._stopped:
            return
        kind = self._random.choices(tuple(self._mix.weights), tuple(self._mix.weights.values()))[0]
        name = self._target(kind)
        if name is not None and name not in self._hit:
            self._inject(kind, name, self._random.randint(self._mix.shortest, self._mix.longest))
        self.plan(until)

    def _target(self, kind: str) -> str | None:
        """None: enough is broken already."""
        if kind in ("slow", "loss", "all-power-loss"):
            return "network" if kind != "all-power-loss" else "everything" if not self._hit else None
        controllers = kind.endswith("-controller")
        group = [name for name in self._cluster.nodes if name.startswith("c" if controllers else "b")]
        broken = [name for name in group if name in self._hit]
        if len(broken) >= (1 if controllers else self._mix.together):
            return None
        if not controllers and not self._cluster.healed() and self._mix.together == 1:
            return None  # another replica may be the only one that has everything
        return self._random.choice([name for name in group if name not in self._hit])

    def _inject(self, kind: str, name: str, duration: int) -> None:
        number = self._rows.fault_begins(
            kind.removesuffix("-controller"),
            rule=name,
            targets=(name,) if name in self._cluster.nodes else tuple(self._cluster.nodes),
            settings=json.dumps({"duration_ms": duration // MILLISECOND}),
        )
        self._hit[name] = number
        self._break(kind, name)
        self._cluster.world.after(duration, partial(self._end_if, name, number))

    def _break(self, kind: str, name: str) -> None:
        cluster, world = self._cluster, self._cluster.world
        match kind.removesuffix("-controller"):
            case "kill":
                cluster.kill(name)
            case "power-loss":
                world.power_loss(cluster.machine(name))
            case "all-power-loss":
                for each in cluster.nodes:
                    world.power_loss(cluster.machine(each))
            case "pause":
                world.pause(cluster.machine(name))
            case "wipe":
                cluster.kill(name)
                cluster.machine(name).disk.wipe()
            case "isolate":
                self._cut(name, [*world.machines])
            case "cut-from-controllers":
                self._cut(name, [each for each in cluster.nodes if each.startswith("c")])
            case "cut-from-brokers":
                self._cut(name, cluster.broker_names)
            case "slow":
                world.network.trouble = Trouble(slow=300 * MILLISECOND)
            case _:
                world.network.trouble = Trouble(loss=0.1)

    def _cut(self, name: str, others: list[str]) -> None:
        self._cuts[name] = [other for other in others if other != name]
        for other in self._cuts[name]:
            self._cluster.cut(name, other)

    def _mend(self, name: str) -> None:
        """Other nodes may be cut off at the same time."""
        self._cuts.pop(name)
        self._cluster.world.network.heal()
        for other, others in tuple(self._cuts.items()):
            self._cut(other, others)

    def _end_if(self, name: str, number: int) -> None:
        if self._hit.get(name) == number:
            self._end(name)

    def _end(self, name: str) -> None:
        number = self._hit.pop(name)
        cluster, world = self._cluster, self._cluster.world
        kind = self._rows.faults[number].name
        if name == "network":
            world.network.trouble = Trouble()
        elif name == "everything":
            for each in cluster.nodes:
                cluster.start(each)
        elif kind in ("kill", "power-loss", "wipe"):
            cluster.start(name)
        elif kind == "pause":
            world.resume(cluster.machine(name))
        else:
            self._mend(name)
        self._rows.fault_ends(number)
