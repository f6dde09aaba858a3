"""Where a race is shown: its cells, each a system, a metadata.version and parameters of the race.

    cells(race)      every variant on every system of the race, and `race.also`; only those of which something was stated beforehand,
                     and of a control (a variant that comes nowhere) only one, on the newest system where the race does come
    samples(race)    the two that CI runs: one where the race must come, one where it must not

    Cell(system="kafka:4.3.1@3.4")                                       the default variant, at metadata.version 3.4
    Cell(system="kafka:3.4.1", settings={"roll_to": "4.3.1"})

A race may choose its own samples; otherwise they are the first that must come and the last that must not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nemesis.races.expectation import CLIENT_ERROR, UNAVAILABLE, VALID, Expectation, expected

if TYPE_CHECKING:
    from nemesis.races.race import Race

_VARIANT = "variant"


@dataclass(frozen=True, kw_only=True)
class Cell:
    system: str  # as on the command line: NAME:VERSION, with @METADATA_VERSION if wanted
    settings: Mapping[str, Any] = field(default_factory=dict)  # parameters that differ from their defaults


def cells(race: Race) -> list[Cell]:
    """In the order of the race's own data: by variant, then by system."""
    found: list[Cell] = []
    for settings in ({}, *({_VARIANT: name} for name in race.variants[1:])):
        mine = [Cell(system=system, settings=settings) for system in race.systems]
        mine = [cell for cell in mine if stated(race, cell) is not None]
        control = bool(settings) and all(_outcome(race, cell) == VALID for cell in mine)
        found += _one_of(mine, race) if control else mine
    return [*found, *(cell for cell in race.also if stated(race, cell) is not None)]


def _one_of(control: Sequence[Cell], race: Race) -> Sequence[Cell]:
    comes = {system for system in race.systems if _outcome(race, Cell(system=system)) not in (VALID, None)}
    return ([cell for cell in control if cell.system in comes] or control)[-1:]


def _outcome(race: Race, cell: Cell) -> str | None:
    line = stated(race, cell)
    return None if line is None else line.outcome


def stated(race: Race, cell: Cell) -> Expectation | None:
    """What the race expects of a cell; None: nothing was stated, or the system is none whose versions can be compared."""
    system, _, metadata_version = cell.system.partition("@")
    name, _, version = system.partition(":")
    if name != "kafka" or "/" in version:
        return None
    parameters = race.settle(cell.settings).model_dump()
    return expected(race.expects, version=version, metadata_version=metadata_version or None, parameters=parameters)


def samples(race: Race) -> list[Cell]:
    """At most two: where it must come, and where it must not."""
    if race.samples:
        return list(race.samples)
    every = cells(race)
    shown = [cell for cell in every if _outcome(race, cell) not in (VALID, UNAVAILABLE, CLIENT_ERROR)]
    safe = [cell for cell in every if _outcome(race, cell) == VALID]
    usual = [cell for cell in safe if _VARIANT not in cell.settings]
    return [*shown[:1], *(usual or safe)[-1:]]
