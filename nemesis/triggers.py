"""Waiting for what a schedule waits for: other faults, leaders, ISRs, acknowledged records.

Cluster conditions are looked at in views of the cluster's own protocol, five times a second, and only while a step waits for one. A change
of leader is seen by its epoch, so one that came and went between two looks is not missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nemesis.stage import Stage
from nemesis.targets import topic_partition
from nodes.topology import Topology
from nodes.view import ClusterView, PartitionView

EVERY_S = 0.2


@dataclass
class Life:
    """What other steps can wait for, and the cluster as it was just before the fault."""

    before: ClusterView | None = None
    active: asyncio.Event = field(default_factory=asyncio.Event)
    healed: asyncio.Event = field(default_factory=asyncio.Event)


async def wait_for(
    when: Mapping[str, Any],
    on: Stage,
    lives: Mapping[int, Life],
    acknowledged: Callable[[], int],
    before: ClusterView | None = None,
) -> None:
    """Return when everything that `when` names was observed, one after the other (see nemesis/settings.py).

    `before`: what a changed leader is compared with; with `after` it is the cluster just before that fault, else the first view.
    """
    if "after" in when:
        await lives[when["after"]].active.wait()
        before = lives[when["after"]].before
    if "healed" in when:
        await lives[when["healed"]].healed.wait()
        before = None
    if "leader_changed" in when:
        key = topic_partition(when["leader_changed"])
        epoch = (await _partition(on, key, before)).leader_epoch
        await _look(on, lambda view: (found := view.partitions.get(key)) is not None and _led_since(found, epoch))
    if "isr_of" in when:
        key = topic_partition(when["isr_of"])
        await _look(
            on, lambda view: (found := view.partitions.get(key)) is not None and _is(when["is"], found, on.topology)
        )
    if "fenced" in when:
        fenced = on.topology.node(when["fenced"]).id
        await _look(on, lambda view: bool(view.answered) and fenced not in view.brokers)
    if "unfenced" in when:
        unfenced = on.topology.node(when["unfenced"]).id
        await _look(on, lambda view: unfenced in view.brokers)
    if "acknowledged" in when:
        enough = acknowledged() + when["acknowledged"]
        while acknowledged() < enough:  # noqa: ASYNC110 - clients report counts, not events
            await asyncio.sleep(EVERY_S)


def _is(wanted: int | list[str], found: PartitionView, topology: Topology) -> bool:
    if isinstance(wanted, int):
        return len(found.isr) == wanted
    return {topology.node(name).id for name in wanted} == set(found.isr)


def _led_since(found: PartitionView, epoch: int) -> bool:
    return found.leader >= 0 and found.leader_epoch > epoch


async def _partition(on: Stage, key: tuple[str, int], before: ClusterView | None) -> PartitionView:
    view = before or await on.view()
    while key not in view.partitions:
        await asyncio.sleep(EVERY_S)
        view = await on.view()
    return view.partitions[key]


async def _look(on: Stage, holds: Callable[[ClusterView], bool]) -> None:
    while not holds(await on.view()):  # noqa: ASYNC110 - views are asked for
        await asyncio.sleep(EVERY_S)
