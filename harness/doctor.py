"""`krash doctor`: what is on this machine, what each system, backend and fault needs, and what will and will not work here.

Every plug-in says itself what it needs (`probe`, `needs`); nothing here knows a backend or a system by name. One that cannot even be
imported gets a line that says so. A doctor's table is a list of sections, each of which works or does not:

    Section(kind=Kind.BACKEND, name="local", rows=(Requirement(name="ip", present=False, found="not found",
            remedy="sudo apt-get install iproute2"), ...))        -> .works is False
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

from harness import machine
from harness.plugins import Group, PluginError, load, registered
from nodes.backend import Requirement

if TYPE_CHECKING:
    from rich.console import Group as Renderables

JSON_FORMAT = 1
RUNS_WORK, NO_RUN_WORKS = 0, 3  # exit codes


class Kind(StrEnum):
    MACHINE = "machine"  # every run needs all of it
    ADVICE = "advice"  # runs start without it, and may suffer
    SYSTEM = "system"
    BACKEND = "backend"
    FAULTS = "faults"
    TESTS = "tests"  # only krash's own tests need it


TITLES = {
    Kind.MACHINE: "every run",
    Kind.ADVICE: "good to have",
    Kind.SYSTEM: "system {}",
    Kind.BACKEND: "backend {}",
    Kind.FAULTS: "faults",
    Kind.TESTS: "krash's own tests",
}


@dataclass(frozen=True, kw_only=True)
class Section:
    kind: Kind
    name: str  # of the system or backend; empty for the other kinds
    rows: tuple[Requirement, ...]

    @property
    def works(self) -> bool:
        return all(row.present for row in self.rows)

    @property
    def title(self) -> str:
        return TITLES[self.kind].format(self.name)


def gather() -> list[Section]:
    """Ask everything that is registered. Takes a second or two: backends try out what they need."""
    backends = _all(Kind.BACKEND, Group.BACKENDS)
    return [
        Section(kind=Kind.MACHINE, name="", rows=_rows(machine.needed)),
        Section(kind=Kind.ADVICE, name="", rows=_rows(machine.advised)),
        *_all(Kind.SYSTEM, Group.SYSTEMS),
        *backends,
        _faults([section.name for section in backends if section.works]),
        Section(kind=Kind.TESTS, name="", rows=_rows(machine.for_tests)),
    ]


def missing_for(backend: str, system: str) -> list[Requirement]:
    """What a run on this backend with this system lacks, with the commands that install it; empty when it can start."""
    rows = (
        *_rows(machine.needed),
        *_probed(Kind.BACKEND, Group.BACKENDS, backend).rows,
        *_probed(Kind.SYSTEM, Group.SYSTEMS, system).rows,
    )
    return list(dict.fromkeys(row for row in rows if not row.present))


def can_run(sections: Sequence[Section]) -> bool:
    """Is there a system and a backend with which a run would start?"""
    working = {section.kind for section in sections if section.works}
    return {Kind.MACHINE, Kind.SYSTEM, Kind.BACKEND} <= working


def render(sections: Sequence[Section]) -> Renderables:
    """The whole table for a terminal: sections in order, then what will and will not work."""
    from rich.console import Group as Renderables
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for section in sections:
        table.add_row(Text(section.title, style="underline"), "", "")
        for row in section.rows:
            mark = Text("ok", style="green") if row.present else Text("no", style="bold red")
            told = Text(row.found)
            if row.remedy:
                told.append(f"\n{row.remedy}", style="bold")
            table.add_row(Text(f"  {row.name}"), mark, told)
    return Renderables(table, Text(""), Text("\n".join(summary(sections))))


def summary(sections: Sequence[Section]) -> list[str]:
    """One line per system and backend: the command, and whether it will work here or what stands in its way."""
    everywhere = [
        row.name for section in sections if section.kind is Kind.MACHINE for row in section.rows if not row.present
    ]
    lines = []
    for section in sections:
        if section.kind in (Kind.SYSTEM, Kind.BACKEND):
            lacking = [*everywhere, *(row.name for row in section.rows if not row.present)]
            outlook = f"will not work here; missing: {', '.join(lacking)}" if lacking else "will work here"
            lines.append(f"krash run --{section.kind} {section.name}: {outlook}")
    return lines or [
        "No backend and no system is registered: krash is not installed in this environment (pip install .)."
    ]


def describe(sections: Sequence[Section]) -> dict[str, Any]:
    """{"format": 1, "can_run": true, "sections": [{"kind": "backend", "name": "local", "works": true, "rows": [...]}]}"""
    described = [
        {"kind": s.kind, "name": s.name, "works": s.works, "rows": [asdict(row) for row in s.rows]} for s in sections
    ]
    return {"format": JSON_FORMAT, "can_run": can_run(sections), "sections": described}


def show(*, as_json: bool) -> int:
    """Print the table (or JSON); exit code 0 when some run can start here, 3 when none can."""
    from rich.console import Console

    sections = gather()
    if as_json:
        print(json.dumps(describe(sections), indent=2))
    else:
        Console().print(render(sections))
    return RUNS_WORK if can_run(sections) else NO_RUN_WORKS


def _all(kind: Kind, group: Group) -> list[Section]:
    try:
        names = registered(group)
    except PluginError as error:
        return [Section(kind=kind, name="?", rows=(_ambiguous(error),))]
    return [_probed(kind, group, name) for name in names]


def _faults(usable: Sequence[str]) -> Section:
    try:
        rows = tuple(_fault(name, usable) for name in registered(Group.NEMESES))
    except PluginError as error:
        rows = (_ambiguous(error),)
    return Section(kind=Kind.FAULTS, name="", rows=rows)


def _probed(kind: Kind, group: Group, name: str) -> Section:
    try:
        plugin = load(group, name)
    except PluginError as error:
        return Section(kind=kind, name=name, rows=(_broken(registered(group).get(name), name, error),))
    return Section(kind=kind, name=name, rows=_rows(plugin.probe))


def _rows(probe: Callable[[], list[Requirement]]) -> tuple[Requirement, ...]:
    rows = probe()
    if os.geteuid() == 0:  # root needs no sudo, and a bare machine has none
        rows = [replace(row, remedy=row.remedy.removeprefix("sudo ")) for row in rows]
    return tuple(rows)


def _broken(point: EntryPoint | None, name: str, error: PluginError) -> Requirement:
    package = point.dist.name if point is not None and point.dist is not None else None
    remedy = f"python3 -m pip install --force-reinstall {package}" if package else ""
    return Requirement(name=f"plug-in {name}", present=False, found=str(error), remedy=remedy)


def _ambiguous(error: PluginError) -> Requirement:
    return Requirement(name="plug-ins", present=False, found=str(error), remedy="")


def _fault(name: str, usable: Sequence[str]) -> Requirement:
    """A fault works where a working backend can do all that it needs."""
    try:
        needs = load(Group.NEMESES, name).needs
    except PluginError as error:
        return _broken(registered(Group.NEMESES)[name], name, error)
    able = [backend for backend in usable if needs <= load(Group.BACKENDS, backend).capabilities]
    wanted = f"needs {', '.join(sorted(needs)) or 'nothing'}"
    where = f"works on {', '.join(able)}" if able else "no working backend can do it"
    return Requirement(name=name, present=bool(able), found=f"{wanted}; {where}", remedy="")
