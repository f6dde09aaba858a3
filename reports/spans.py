"""States over time, from the events table and the metadata log: who led each partition, who was in its ISR, which node was up.

Events are moments ("b1 exited", "log-0 is now led by 2"); people read stretches of time. A state lasts until the next
event about the same thing, or to the end of the run. A long run has more changes than a page has pixels: a lane keeps
its first `SPANS_PER_LANE`, partitions beyond `PARTITION_LANES` are left out (those with anomalies are kept first,
then the busiest), and both are said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow.compute as pc

from nodes.event import EventKind
from reports.exchange import Moment
from reports.scan import History, rows

PARTITION_LANES = 12
NODE_LANES = 16
SPANS_PER_LANE = 200

Partition = tuple[str, int]

_NODE_STATES = {EventKind.STARTED: "starting", EventKind.READY: "up", EventKind.EXITED: "down"}
_COLUMNS = ("at_ns", "node", "kind", "topic", "partition", "leader", "leader_epoch", "isr", "detail")


@dataclass(frozen=True, kw_only=True)
class Span:
    """One state from `start_ns` to `end_ns`; `detail` is what the event said besides."""

    start_ns: int
    end_ns: int
    state: str
    detail: str | None = None


@dataclass(frozen=True, kw_only=True)
class PartitionLane:
    topic: str
    partition: int
    leaders: tuple[Span, ...]  # state: broker id, or "-1" for none; detail: the leader epoch
    isr: tuple[Span, ...]  # state: broker ids, ascending, "1,2,3"
    elections: int


@dataclass(frozen=True, kw_only=True)
class NodeLane:
    node: str
    states: tuple[Span, ...]  # state: starting, up, down
    fenced: tuple[Span, ...]


@dataclass(frozen=True, kw_only=True)
class States:
    partitions: tuple[PartitionLane, ...] = ()
    partitions_left_out: int = 0
    nodes: tuple[NodeLane, ...] = ()
    nodes_left_out: int = 0
    controller: tuple[Span, ...] = ()  # state: the active controller
    phases: tuple[Span, ...] = ()
    elections: int = 0  # leader changes after each partition's first, over all partitions
    spans_left_out: int = 0


def span_of_events(history: History) -> tuple[int, int] | None:
    """Earliest and latest event, in ns; None without events."""
    bounds = [pc.min_max(batch.column(0)) for batch in history.batches("events", ["at_ns"]) if batch.num_rows]
    return (min(b["min"].as_py() for b in bounds), max(b["max"].as_py() for b in bounds)) if bounds else None


def states(history: History, end_ns: int, wanted: Collection[Partition], metadata: Sequence[Moment] = ()) -> States:
    """`wanted`: partitions to show whatever their number of changes. Of partitions that the metadata log tells about,
    leaders and ISRs come from there: it misses no change, and knows the order.
    """
    written = [moment for moment in metadata if moment.at_ns is not None and _places(moment)]
    changes = {**_changes(history), **Counter((str(m.row.topic), int(m.row.partition or 0)) for m in written)}
    order = sorted(changes, key=lambda p: (p not in wanted, _is_internal(p), -changes[p], p))
    shown = set(order[:PARTITION_LANES])
    lines = _Lines()
    for moment in written:
        lines.write(moment, shown)
    for batch in history.batches("events", _COLUMNS):
        for row in rows(batch):
            lines.add(row, shown)
    return lines.result(end_ns, sorted(shown, key=lambda p: (_is_internal(p), p)), len(changes) - len(shown))


def _is_internal(partition: Partition) -> bool:
    """Made by the system for itself, such as __consumer_offsets: what the run made comes before."""
    return partition[0].startswith("__")


def _places(moment: Moment) -> bool:
    row = moment.row
    return row.topic is not None and row.partition is not None and (row.leader is not None or row.isr is not None)


def _changes(history: History) -> Mapping[Partition, int]:
    counts: dict[Partition, int] = {}
    for batch in history.batches("events", ["topic", "partition"]):
        for row in rows(batch):
            if row["topic"] is not None and row["partition"] is not None:
                partition = (row["topic"], row["partition"])
                counts[partition] = counts.get(partition, 0) + 1
    return counts


@dataclass
class _Line:
    """One thing's states as they were reported: (moment, state, detail), repeated states dropped."""

    changes: list[tuple[int, str, str | None]] = field(default_factory=list)
    left_out: int = 0
    last: str | None = None

    def add(self, at_ns: int, state: str, detail: str | None = None) -> None:
        if state == self.last:
            return
        self.last = state
        if len(self.changes) < SPANS_PER_LANE:
            self.changes.append((at_ns, state, detail))
        else:
            self.left_out += 1

    def spans(self, end_ns: int) -> tuple[Span, ...]:
        ordered = sorted(self.changes, key=lambda change: change[0])
        ends = [start for start, _, _ in ordered[1:]] + [max(end_ns, ordered[-1][0])] if ordered else []
        return tuple(
            Span(start_ns=start, end_ns=end, state=state, detail=detail)
            for (start, state, detail), end in zip(ordered, ends, strict=True)
        )


class _Lines:
    def __init__(self) -> None:
        self.leaders: dict[Partition, _Line] = {}
        self.isr: dict[Partition, _Line] = {}
        self.nodes: dict[str, _Line] = {}
        self.fenced: dict[str, _Line] = {}
        self.controller = _Line()
        self.phases = _Line()
        self._written: set[Partition] = set()

    def write(self, moment: Moment, shown: Collection[Partition]) -> None:
        """A record of the metadata log; it has the last word on its partition."""
        row = moment.row
        partition = (str(row.topic), int(row.partition or 0))
        self._written.add(partition)
        if partition in shown:
            fields = {name: getattr(row, name) for name in ("leader", "leader_epoch", "isr")}
            self._add_partition(partition, {"at_ns": moment.at_ns, **fields})

    def add(self, row: dict[str, Any], shown: Collection[Partition]) -> None:
        kind, at_ns, node = row["kind"], row["at_ns"], row["node"]
        if row["topic"] is not None and row["partition"] is not None:
            if (row["topic"], row["partition"]) in shown and (row["topic"], row["partition"]) not in self._written:
                self._add_partition((row["topic"], row["partition"]), row)
        elif kind == EventKind.CONTROLLER_CHANGED:
            self.controller.add(at_ns, str(node if row["leader"] is None else row["leader"]))
        elif kind == EventKind.PHASE and row["detail"]:
            self.phases.add(at_ns, row["detail"])
        elif node is not None and kind in _NODE_STATES:
            self.nodes.setdefault(node, _Line()).add(at_ns, _NODE_STATES[EventKind(kind)], row["detail"])
        elif node is not None and kind in (EventKind.FENCED, EventKind.UNFENCED):
            self.fenced.setdefault(node, _Line()).add(at_ns, kind, row["detail"])

    def _add_partition(self, partition: Partition, row: dict[str, Any]) -> None:
        if row["leader"] is not None:
            epoch = None if row["leader_epoch"] is None else str(row["leader_epoch"])
            self.leaders.setdefault(partition, _Line()).add(row["at_ns"], str(row["leader"]), epoch)
        if row["isr"] is not None:
            members = ",".join(str(b) for b in sorted(row["isr"])[:10])
            self.isr.setdefault(partition, _Line()).add(row["at_ns"], members)

    def result(self, end_ns: int, shown: list[Partition], partitions_left_out: int) -> States:
        lanes = tuple(
            PartitionLane(
                topic=partition[0],
                partition=partition[1],
                leaders=self.leaders.get(partition, _Line()).spans(end_ns),
                isr=self.isr.get(partition, _Line()).spans(end_ns),
                elections=_elections(self.leaders.get(partition, _Line())),
            )
            for partition in shown
        )
        names = sorted(self.nodes.keys() | self.fenced.keys())
        every = [
            *self.leaders.values(),
            *self.isr.values(),
            *self.nodes.values(),
            *self.fenced.values(),
            self.controller,
            self.phases,
        ]
        return States(
            partitions=lanes,
            partitions_left_out=partitions_left_out,
            nodes=tuple(self._node(name, end_ns) for name in names[:NODE_LANES]),
            nodes_left_out=max(0, len(names) - NODE_LANES),
            controller=self.controller.spans(end_ns),
            phases=self.phases.spans(end_ns),
            elections=sum(lane.elections for lane in lanes),
            spans_left_out=sum(line.left_out for line in every),
        )

    def _node(self, name: str, end_ns: int) -> NodeLane:
        fenced = self.fenced.get(name, _Line()).spans(end_ns)
        return NodeLane(
            node=name,
            states=self.nodes.get(name, _Line()).spans(end_ns),
            fenced=tuple(span for span in fenced if span.state == EventKind.FENCED),
        )


def _elections(line: _Line) -> int:
    """Changes to another leader after the first; to have none for a while is no election."""
    leaders = [state for _, state, _ in line.changes if state != "-1"]
    return sum(1 for before, after in pairwise(leaders) if before != after)
