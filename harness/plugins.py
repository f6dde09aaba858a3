"""Systems, workloads, backends, nemeses and races come through Python entry points; ours use the same door as anyone's.

    [project.entry-points."krash.workloads"]
    bank = "my_package.bank:BankWorkload"

Nothing is imported until it is asked for by name, so that a broken plug-in breaks only runs that use it.
"""

from __future__ import annotations

from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Any


class Group(StrEnum):
    SYSTEMS = "krash.systems"
    WORKLOADS = "krash.workloads"
    BACKENDS = "krash.backends"
    NEMESES = "krash.nemeses"
    RACES = "krash.races"


class PluginError(Exception):
    """A plug-in is not there, is there twice, or cannot be imported; the message says what is registered."""


def registered(group: Group) -> dict[str, EntryPoint]:
    """Name -> entry point, sorted by name. PluginError when two packages register one name."""
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        other = found.setdefault(point.name, point)
        if other is not point:
            raise PluginError(
                f"{group} has two plug-ins named {point.name!r}: {_origin(other)} and {_origin(point)}; uninstall one"
            )
    return found


def load(group: Group, name: str) -> Any:
    """The object that is registered under a name, usually a class."""
    found = registered(group)
    if name not in found:
        what = group.removeprefix("krash.")
        there = (
            ", ".join(found) or "none, not even krash's own: it is not installed in this environment (pip install .)"
        )
        raise PluginError(f"no {name!r} among the {what} ({group}); registered: {there}")
    try:
        return found[name].load()
    except Exception as error:  # a plug-in's import may raise anything, and all of it means the same
        raise PluginError(f"{group} {name!r} ({_origin(found[name])}) cannot be imported: {error!r}") from error


def _origin(point: EntryPoint) -> str:
    package = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return f"{point.value}{package}"
