"""Local backends with one promise broken, to show that the contracts notice."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import ClassVar
from unittest import mock

from nodes.backends import homes, iptables, processes
from nodes.backends.local import LocalBackend
from nodes.backends.local_node import LocalNode
from nodes.backends.packet_filter import PacketFilter
from nodes.network import Cut
from nodes.node import Mark, Tail


class Broken(LocalBackend):
    """Applies `patches` to the classes behind the backend, for the life of this process."""

    patches: ClassVar[Sequence[tuple[object, str, object]]] = ()

    def __init__(self) -> None:
        for target, attribute, replacement in self.patches:
            mock.patch.object(target, attribute, replacement).start()


async def _kill_main(node: LocalNode) -> None:
    if node._main:
        node._main.signal(signal.SIGKILL)
        await node._main.exited()


class KillsOnlyTheMainProcess(Broken):
    patches = ((LocalNode, "kill", _kill_main),)


async def _nothing(*_: object) -> None:
    pass


class PausesNothing(Broken):
    patches = ((processes, "pause", _nothing),)


class CutsNothing(Broken):
    patches = ((PacketFilter, "_restore", _nothing),)


_cut = PacketFilter.cut


async def _cut_both_ways(filter: PacketFilter, cuts: Sequence[Cut]) -> None:
    reverse = [replace(cut, at=source, sources=(cut.at,)) for cut in cuts for source in cut.sources]
    await _cut(filter, [*cuts, *reverse])


class CutsBothWays(Broken):
    patches = ((PacketFilter, "cut", _cut_both_ways),)


_heal = PacketFilter.heal


async def _heal_all(filter: PacketFilter, ids: Sequence[str] | None = None) -> None:
    await _heal(filter)


class HealsEverything(Broken):
    patches = ((PacketFilter, "heal", _heal_all),)


_rules_for = iptables.rules_for


def _rules_that_stop_resets(*arguments: object) -> list[str]:
    return [body.replace("! --tcp-flags RST RST ", "") for body in _rules_for(*arguments)]  # type: ignore[arg-type]


class SwallowsResets(Broken):
    patches = ((iptables, "rules_for", _rules_that_stop_resets),)


class TrustsPaths(Broken):
    patches = (
        (homes, "home_relative", lambda node, path: PurePosixPath(path)),
        (homes.Home, "_inside", lambda home, path: home.directory / path),
    )


async def _lines_once(home: homes.Home, path: str) -> AsyncIterator[str]:
    for line in (await home.read(path)).decode().splitlines():
        yield line


class LosesLines(Broken):
    patches = ((homes.Home, "lines", _lines_once),)


_tail = homes._tail


def _tail_of_any_file(path: Path, since: Mark, limit: int) -> Tail:
    """Goes on where it was, whatever file is there now."""
    facts = path.stat()
    return _tail(path, Mark(identity=facts.st_ino, position=min(since.position, facts.st_size)), limit)


class GoesOnInAnotherFile(Broken):
    patches = ((homes, "_tail", _tail_of_any_file),)
