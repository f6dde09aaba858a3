"""`krash race list` and `krash race show`: races for the terminal, or as JSON."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.plugins import Group, registered
from harness.race_page import parameters, print_race, when
from harness.races import find_race, is_file
from nemesis.races.race import Race


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
