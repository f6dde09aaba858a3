"""Waiting for what a schedule or a race waits for: other faults, leaders, ISRs, messages, log lines, counts. Nothing is looked at before.

    await wait_for({"isr_of": "log-0", "contains": "b2"}, Scene(on=cluster))
    await wait_for({"any": [{"message": {"source": "b1", "api": "AlterPartition"}}, {"elapsed": "10s"}]}, Scene(on=cluster))

What a trigger says is plain data (nemesis/when.py). Leaders, ISRs and fencing are noticed in the controllers' metadata log, within about
50 ms. Where a system has no such log, in the views of the brokers, asked for five times a second; never in both, because brokers learn
of a change later, and what held before it would seem to hold again. A change of leader is seen by its epoch, so one that came and went
between two looks is not missed. Messages are counted by a `Watch` rule in the wire gate, which is armed for as long as somebody waits.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from nemesis.durations import parse_seconds
from nemesis.stage import Stage
from nemesis.targets import topic_partition
from nemesis.wire.message import Direction
from nemesis.wire.rule import Match, Rule, Watch
from nodes.metadata import MetadataView
from nodes.node import Mark, Node
from nodes.topology import Topology
from nodes.view import ClusterView

EVERY_S = 0.2
LOG_S = 0.5  # how long a metadata log may take to be read for the first time
_numbers = itertools.count()


@dataclass
class Life:
    """What other steps can wait for, and the cluster as it was just before the fault."""

    before: ClusterView | None = None
    active: asyncio.Event = field(default_factory=asyncio.Event)
    healed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(kw_only=True)
class Scene:
    """Where a trigger looks: the cluster, and in schedules the other faults and what clients have counted so far."""

    on: Stage
    lives: Mapping[int, Life] = field(default_factory=dict)
    counted: Callable[[str], int] = lambda name: 0  # "acknowledged", "attempted"


class _Led(Protocol):
    """A partition as a view and as the metadata log tell it."""

    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def isr(self) -> tuple[int, ...]: ...


async def wait_for(when: Mapping[str, Any], scene: Scene, before: ClusterView | None = None) -> None:
    """Return when everything that `when` names was observed, one after the other. It has no deadline of its own.

    `before`: what a changed leader is compared with; with `after` it is the cluster just before that fault, else the first view.
    """
    if "after" in when:
        await scene.lives[when["after"]].active.wait()
        before = scene.lives[when["after"]].before
    if "healed" in when:
        await scene.lives[when["healed"]].healed.wait()
        before = None
    for name, wait in _WAITS.items():
        if name in when:
            await wait(when, scene, before)


async def _leader_changed(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    key = topic_partition(when["leader_changed"])
    epoch = await _leader_epoch(scene.on, key, before)
    await _partition(scene.on, key, lambda found: found.leader >= 0 and found.leader_epoch > epoch)


async def _isr(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    key, topology = topic_partition(when["isr_of"]), scene.on.topology
    if "contains" in when:
        member = topology.node(when["contains"]).id
        await _partition(scene.on, key, lambda found: member in found.isr)
    else:
        await _partition(scene.on, key, lambda found: _is(when["is"], found, topology))


async def _fenced(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    id = scene.on.topology.node(when["fenced"]).id
    await _told(
        scene.on,
        lambda view: bool(view.answered) and id not in view.brokers,
        lambda log: id in log.brokers and log.brokers[id].fenced,
    )


async def _unfenced(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    id = scene.on.topology.node(when["unfenced"]).id
    await _told(scene.on, lambda view: id in view.brokers, lambda log: id in log.brokers and not log.brokers[id].fenced)


async def _message(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    wanted = dict(when["message"])
    count, direction = wanted.pop("nth", 1), Direction(wanted.pop("direction", Direction.REQUEST))
    if scene.on.gate is None:
        raise RuntimeError("a trigger waits for a message, but this run has no wire gate; say `wire: on`")
    rule = Rule(id=f"trigger-{next(_numbers)}", match=Match(direction=direction, **wanted), act=Watch())
    armed = await scene.on.gate.arm(rule)
    try:
        await armed.seen(count)
    finally:
        await armed.disarm()


async def _log(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    wanted = when["log"]
    await _line(scene.on.nodes[wanted["node"]], wanted.get("file", "log/server.log"), re.compile(wanted["matches"]))


async def _line(node: Node, file: str, wanted: re.Pattern[str]) -> None:
    """Until a line matches that is not there yet."""
    there = b""
    mark = Mark()
    while (tail := await node.tail(file, mark)).content:
        there, mark = (there if tail.start else b"") + tail.content, tail.mark
    known = there.count(b"\n")
    async with aclosing(cast(Any, node.lines(file))) as lines:
        async for line in lines:
            known -= 1
            if known < 0 and wanted.search(line):
                return


async def _high_watermark(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    (topic, partition), offset = topic_partition(when["high_watermark"]["of"]), when["high_watermark"]["passes"]
    while True:
        found = await scene.on.high_watermark(topic, partition)
        if found is not None and found > offset:
            return
        await asyncio.sleep(EVERY_S)


async def _acknowledged(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    await _counted(scene, "acknowledged", when["acknowledged"])


async def _attempted(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    await _counted(scene, "attempted", when["attempted"])


async def _counted(scene: Scene, name: str, more: int) -> None:
    enough = scene.counted(name) + more
    while scene.counted(name) < enough:  # noqa: ASYNC110 - clients report counts, not events
        await asyncio.sleep(EVERY_S)


async def _elapsed(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    await asyncio.sleep(parse_seconds(when["elapsed"]))


async def _all(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for part in when["all"]:
                group.create_task(wait_for(part, scene, before))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _any(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    await first(*(wait_for(part, scene, before) for part in when["any"]))


async def _then(when: Mapping[str, Any], scene: Scene, before: ClusterView | None) -> None:
    for part in when["then"]:
        await wait_for(part, scene, before)
        before = None


_WAITS: Mapping[str, Callable[[Mapping[str, Any], Scene, ClusterView | None], Coroutine[Any, Any, None]]] = {
    "leader_changed": _leader_changed,
    "isr_of": _isr,
    "fenced": _fenced,
    "unfenced": _unfenced,
    "message": _message,
    "log": _log,
    "high_watermark": _high_watermark,
    "acknowledged": _acknowledged,
    "attempted": _attempted,
    "elapsed": _elapsed,
    "all": _all,
    "any": _any,
    "then": _then,
}


async def first(*waits: Coroutine[Any, Any, object]) -> None:
    """Until one of them returns (or raises); the others are cancelled and have ended then."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is(wanted: int | list[str], found: _Led, topology: Topology) -> bool:
    if isinstance(wanted, int):
        return len(found.isr) == wanted
    return {topology.node(name).id for name in wanted} == set(found.isr)


async def _leader_epoch(on: Stage, key: tuple[str, int], before: ClusterView | None) -> int:
    """Before the change that is waited for; a partition that is not there yet is waited for, too."""
    if before is not None and key in before.partitions:
        return before.partitions[key].leader_epoch
    found: list[_Led] = []

    def known(partitions: Mapping[tuple[str, int], _Led]) -> bool:
        found[:] = [partitions[key]] if key in partitions else []
        return bool(found)

    await _told(on, lambda view: known(view.partitions), lambda log: known(log.partitions))
    return found[0].leader_epoch


async def _partition(on: Stage, key: tuple[str, int], holds: Callable[[_Led], bool]) -> None:
    def told(partitions: Mapping[tuple[str, int], _Led]) -> bool:
        found = partitions.get(key)
        return found is not None and holds(found)

    await _told(on, lambda view: told(view.partitions), lambda log: told(log.partitions))


async def _told(on: Stage, in_view: Callable[[ClusterView], bool], in_log: Callable[[MetadataView], bool]) -> None:
    try:
        async with asyncio.timeout(LOG_S):
            await on.metadata_told(lambda log: log.offset >= 0)
    except TimeoutError:
        await _look(on, in_view)
    else:
        await on.metadata_told(in_log)


async def _look(on: Stage, holds: Callable[[ClusterView], bool]) -> None:
    while not holds(await on.view()):  # noqa: ASYNC110 - views are asked for
        await asyncio.sleep(EVERY_S)
