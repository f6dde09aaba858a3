"""The heal journal: what is broken right now, on disk before it is broken, so that `krash heal` can undo what a killed run left.

One JSON object per line, each written and synced before the thing it announces happens:

    {"fault": 3, "undo": [{"do": "heal-cuts", "ids": ["fault-3"]}]}
    {"fault": 3, "healed": true}

Undo entries: `heal-cuts` (ids), `resume` (node), `start` (node). A torn last line was never acted on and is ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from nodes.network import Network
from nodes.node import Node, NodeError


class BadJournal(ValueError):
    """A line that is no entry; the message names file and line."""


class HealJournal:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def begin(self, fault: int, undo: list[dict[str, Any]]) -> None:
        self._append({"fault": fault, "undo": undo})

    def end(self, fault: int) -> None:
        self._append({"fault": fault, "healed": True})

    def _append(self, entry: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())


def pending(path: Path) -> list[dict[str, Any]]:
    """Undo entries of the faults that were not healed, the last fault first; [] when there is no journal."""
    if not path.exists():
        return []
    active: dict[int, list[dict[str, Any]]] = {}
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1], start=1):
        try:
            entry = json.loads(line)
            fault = int(entry["fault"])
            undo = [] if entry.get("healed") else list(entry["undo"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadJournal(f"{path}:{number}: no entry of a heal journal ({error}): {line[:80]!r}") from error
        active.pop(fault, None)
        if undo:
            active[fault] = undo
    return [entry for undo in reversed(list(active.values())) for entry in undo]


async def replay_undo(
    entries: Iterable[Mapping[str, Any]],
    network: Network,
    nodes: Mapping[str, Node],
    start: Callable[[str], Awaitable[None]] | None = None,
) -> list[str]:
    """Undo what `pending` returned; one line for each entry that could not be undone, with the reason.

    `start` starts a server by name; without it, nodes that were killed stay down and are listed.
    """
    left = []
    for entry in entries:
        try:
            await _undo(entry, network, nodes, start)
        except (NodeError, OSError, KeyError) as error:
            left.append(f"{json.dumps(dict(entry))}: {type(error).__name__}: {error}")
    return left


async def _undo(
    entry: Mapping[str, Any],
    network: Network,
    nodes: Mapping[str, Node],
    start: Callable[[str], Awaitable[None]] | None,
) -> None:
    match entry["do"]:
        case "heal-cuts":
            await network.heal(list(entry["ids"]))
        case "resume":
            await nodes[entry["node"]].resume()
        case "start":
            if start is None:
                raise NodeError(f"{entry['node']} stays down: nothing here can start it")
            await start(entry["node"])
        case other:
            raise KeyError(f"{other} is nothing that can be undone")
