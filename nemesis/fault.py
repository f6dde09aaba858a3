"""What goes wrong, and how it is undone. A fault is {prepare, inject, heal, undo}; it is data plus four verbs.

Why a proof: a fault that silently did nothing makes a green run a lie. So `inject` returns only when the effect was observed (a rule's
counter grew, a probe failed, a pid is gone) and `heal` only when its absence was; both say in a sentence what they saw. A fault that could
not prove its effect raises `Unproved`.

Life of a fault, driven by `nemesis/schedule.py`:

    prepare  resolve targets, refuse what cannot be done here (raises Refused with the reason); changes nothing that needs undoing
    undo     plain data that heals it; written to the heal journal BEFORE inject
    inject   do it, return the proof (Refused: a safety rule stopped holding on the way; it is healed like any other)
    heal     undo it, return the proof that it is gone; may be called after an inject that failed half-way, and again when it failed itself

Each fault leaves one row in the `faults` table. While a run is live the row is appended again whenever it changes; the last one wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from nemesis.stage import Stage


class Refused(Exception):
    """This fault cannot be done here and now (backend, target or safety rule); the message says why."""


class Unproved(Exception):
    """The fault was injected or healed, but its effect could not be observed within the deadline."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What was observed. `sentence` is for people, e.g. "3 packets from b1 were dropped at b2"; `counts` for machines."""

    sentence: str
    counts: dict[str, int]


class Fault(Protocol):
    """One thing to break. Instances are made by a kind (see nemesis/kinds.py) and used once."""

    name: str  # "partition-isolate", "kill", ...

    async def prepare(self, on: Stage) -> None: ...
    async def inject(self, on: Stage) -> Proof: ...
    async def heal(self, on: Stage) -> Proof: ...
    def undo(self) -> list[dict[str, Any]]: ...
    def targets(self) -> list[str]:
        """Names of the nodes it touches; known after prepare."""
        ...


class FaultStatus(StrEnum):
    PLANNED = "planned"
    REFUSED = "refused"  # could not be done at its moment, e.g. its safety rule did not hold; detail says why
    ACTIVE = "active"  # injected and proved
    HEALED = "healed"
    FAILED = "failed"  # its effect or its healing could not be proved: a harness error


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultRow:
    run: str
    clock: str
    fault: int  # unique in the run, in plan order
    name: str
    rule: str  # the abstract target, e.g. "leader of log-0"
    targets: tuple[str, ...]  # what the rule resolved to: node names
    settings: str  # JSON object: everything else that was chosen (action, duration, keep_meta, ...)
    status: str  # FaultStatus
    planned_ns: int | None  # run time at which the plan wanted it
    injecting_ns: int | None  # inject began
    proved_ns: int | None  # its effect was proved
    healing_ns: int | None
    healed_ns: int | None  # healing was proved
    proof: str | None
    heal_proof: str | None
    detail: str | None


FAULTS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("clock", pa.string(), nullable=False),
        pa.field("fault", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("targets", pa.list_(pa.string()), nullable=False),
        pa.field("settings", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("planned_ns", pa.int64()),
        pa.field("injecting_ns", pa.int64()),
        pa.field("proved_ns", pa.int64()),
        pa.field("healing_ns", pa.int64()),
        pa.field("healed_ns", pa.int64()),
        pa.field("proof", pa.string()),
        pa.field("heal_proof", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
