"""Races by name or from a file.

A name is looked up among the `krash.races` entry points. Anything that ends in .py or has a slash is a file, run as Python with
the rights of who started krash, like any script; it must define exactly one race.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from harness.errors import UsageError
from harness.plugins import Group, load
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
