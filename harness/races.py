"""Races by name or from a file: find them, list them, show one.

A name is looked up among the `krash.races` entry points. Anything that ends in .py or has a slash is a file, run as Python with
the rights of who started krash, like any script; it must define exactly one race.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.errors import UsageError
from harness.plugins import Group, load, registered
from harness.race_page import parameters, print_race, when
from nemesis.races.race import Race


def is_file(name: str) -> bool:
    return name.endswith(".py") or "/" in name


def find_race(name: str) -> Race:
    """UsageError or PluginError says what there is instead."""
    if is_file(name):
        return _race_in(Path(name))
    found = load(Group.RACES, name)
    if not isinstance(found, Race):
        raise UsageError(f"the plug-in {name!r} is no race: decorate its script with nemesis.races.race.race")
    return found


def _race_in(path: Path) -> Race:
    path = path.resolve()
    if not path.is_file():
        raise UsageError(f"{path}: no such file; `krash race list` shows the races that have names")
    name = f"krash_race_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a user's file may raise anything, and all of it means the same
        raise UsageError(f"{path}: cannot be loaded: {type(error).__name__}: {error}") from error
    races = [value for value in vars(module).values() if isinstance(value, Race)]
    if len(races) != 1:
        raise UsageError(f"{path}: expected one race in it, found {len(races)}; see docs/races.md")
    return races[0]


def list_races(*, as_json: bool) -> int:
    found = {name: find_race(name) for name in registered(Group.RACES)}
    if as_json:
        print(json.dumps([_summary(race) for race in found.values()]))
        return 0
    table = Table(box=None, header_style="bold")
    table.add_column("race", no_wrap=True)
    table.add_column("what it shows", overflow="fold", ratio=3)
    table.add_column("affected", overflow="fold", ratio=2)
    for name, race in found.items():
        table.add_row(name, race.title, race.affected)
    console = Console(highlight=False)
    console.print(table)
    console.print("\n`krash race show NAME` tells the story; `krash race run NAME --system kafka:3.4.1` runs it.")
    return 0


def show_race(name: str, *, as_json: bool) -> int:
    race = find_race(name)
    if as_json:
        print(json.dumps(_summary(race)))
        return 0
    target = name if is_file(name) else race.name
    system = race.systems[0] if race.systems else "kafka:3.4.1"
    print_race(Console(highlight=False), race, f"krash race run {target} --system {system}")
    return 0


def _summary(race: Race) -> dict[str, Any]:
    return {
        "name": race.name,
        "title": race.title,
        "story": race.story,
        "affected": race.affected,
        "fixed": race.fixed,
        "references": list(race.references),
        "variants": list(race.variants),
        "systems": list(race.systems),
        "parameters": parameters(race),
        "expects": [{"outcome": line.outcome, "when": when(line), "because": line.because} for line in race.expects],
    }
