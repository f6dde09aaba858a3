"""Events between two views: leaders, ISRs, controllers and fencing. Pure.

A view without answers says nothing, so nothing is concluded from one; a controller that is unknown has not changed yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodes.event import Event, EventKind
from nodes.view import ClusterView, PartitionView


def changes(
    before: ClusterView | None, after: ClusterView, *, run: str, clock: str, names: Mapping[int, str]
) -> Iterator[Event]:
    """What is new in `after`. A partition or broker seen for the first time is news too."""
    if not after.answered:
        return
    told = before.partitions if before else {}
    for key, partition in sorted(after.partitions.items()):
        known = told.get(key)
        if known is None or (known.leader, known.leader_epoch) != (partition.leader, partition.leader_epoch):
            yield _about(EventKind.LEADER_CHANGED, partition, after, run, clock, names)
        if known is not None and set(known.isr) != set(partition.isr):
            yield _about(EventKind.ISR_CHANGED, partition, after, run, clock, names)
    unfenced = before.brokers if before else frozenset()
    for kind, ids in ((EventKind.FENCED, unfenced - after.brokers), (EventKind.UNFENCED, after.brokers - unfenced)):
        for id in sorted(ids):
            yield Event(run=run, clock=clock, at_ns=after.at_ns, node=names.get(id), kind=kind)
    if after.controller is not None and (before is None or before.controller != after.controller):
        kind = EventKind.CONTROLLER_CHANGED
        yield Event(run=run, clock=clock, at_ns=after.at_ns, node=after.controller, kind=kind)


def _about(
    kind: EventKind, partition: PartitionView, view: ClusterView, run: str, clock: str, names: Mapping[int, str]
) -> Event:
    return Event(
        run=run,
        clock=clock,
        at_ns=view.at_ns,
        node=names.get(partition.leader),
        kind=kind,
        topic=partition.topic,
        partition=partition.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
    )
