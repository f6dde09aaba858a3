"""Kinds of faults: what a spec can name, registered as `krash.nemeses` entry points. A kind is the class of its faults.

A kind says what a backend must be able to do, which settings it takes, whom it hits when the spec does not say, and what of its settings is
left to chance. Everything random is settled when the plan is made (`settle`), so that a plan is complete, plain data; the fault itself is
made at its moment from an `Order`.

    [project.entry-points."krash.nemeses"]
    kill = "nemesis.processes:Kill"
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel

from nemesis.fault import Fault
from nemesis.targets import Rule
from nodes.backend import Capability
from nodes.topology import Topology

GROUP = "krash.nemeses"


class UnknownKind(ValueError):
    """A fault was named that nobody registered; the message lists those that are."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What one fault is told when it is made.

    `draw` decides ties when its rule is resolved; `others` are the faults active at that moment (safe mode cares). `prove_s` is how long an
    effect may take to show, `recover_s` how long a node or a replica may take to come back; both in seconds.
    """

    fault: int
    rule: Rule
    settings: Any  # an instance of the kind's Settings
    draw: int
    safe: bool = True
    others: tuple[int, ...] = ()
    prove_s: float = 20.0
    recover_s: float = 120.0


class FaultKind(Fault, Protocol):
    kind: ClassVar[str]
    needs: ClassVar[frozenset[Capability]]
    Settings: ClassVar[type[BaseModel]]
    holds_processes: ClassVar[bool]  # stops or starts its targets' processes: one such fault per node at a time
    risks_data: ClassVar[bool]  # takes away what was stored: in safe mode it runs alone, while enough replicas remain

    def __init__(self, order: Order) -> None: ...
    @classmethod
    def rules(cls, settings: Any, topology: Topology) -> Sequence[str]:
        """Targets of which one is drawn when the spec names none."""
        ...

    @classmethod
    def settle(cls, settings: Any, topology: Topology, rng: random.Random) -> BaseModel:
        """The settings with everything decided that they leave to chance."""
        ...


def known() -> list[str]:
    """Names of every registered kind, sorted."""
    return sorted({point.name for point in entry_points(group=GROUP)})


@cache
def find(name: str) -> type[FaultKind]:
    for point in entry_points(group=GROUP):
        if point.name == name:
            found: type[FaultKind] = point.load()
            return found
    there = ", ".join(known()) or "none, not even krash's own: it is not installed in this environment (pip install .)"
    raise UnknownKind(f"{name!r} is no fault; there are {there}")
