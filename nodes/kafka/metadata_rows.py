"""From records of the metadata log to rows that stand for themselves: topics by name, and what a change left unsaid filled in.

A partition change names only what it changes, and its epochs not at all: Kafka counts them while it replays (PartitionRegistration.merge):
the partition epoch with every change, the leader epoch whenever a leader is named. So rows are told in log order by a `Story` that knows
what came before. A log that does not begin at 0 begins with a snapshot: its state is told as rows of the last offset it covers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from nodes.kafka.metadata_log import Row, rows
from nodes.metadata_row import MetadataRow

UNCHANGED: Final = -2  # a leader that a partition change does not touch
FENCED, UNFENCED = 1, -1
_SEGMENT = re.compile(r"(\d{20})\.log")
_SNAPSHOT = re.compile(r"(\d{20})-\d{10}\.checkpoint")


@dataclass(frozen=True)
class _Partition:
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass
class Story:
    """Of one node's copy of the log, from its beginning."""

    run: str
    clock: str
    node: str
    _topics: dict[str, str] = field(default_factory=dict)  # id -> name; a removed one keeps its name
    _partitions: dict[tuple[str, int], _Partition] = field(default_factory=dict)

    def tell(self, row: Row, *, at_ns: int | None, index: int = 0) -> MetadataRow:
        fields = row.fields
        told: dict[str, Any] = {}
        if row.kind == "topic":
            self._topics[str(fields["topic_id"])] = str(fields["name"])
        if row.kind in ("partition", "partition-change"):
            told = self._partition(row)
        elif row.kind == "leader-change":
            told = {"leader": fields["leader"]}
        if "broker_id" in fields:
            told = {"broker": fields["broker_id"], "broker_epoch": fields["broker_epoch"], "fenced": _fenced(row)}
        return MetadataRow(
            run=self.run,
            clock=self.clock,
            node=self.node,
            offset=row.offset,
            index=index,
            epoch=row.epoch,
            at_ns=at_ns,
            timestamp_ms=row.timestamp_ms,
            kind=row.kind,
            topic=self._topics.get(str(fields["topic_id"])) if "topic_id" in fields else None,
            fields=json.dumps(fields, separators=(",", ":")),
            **{**_NOTHING, **told},
        )

    def _partition(self, row: Row) -> dict[str, Any]:
        fields: Mapping[str, Any] = row.fields
        key = (str(fields["topic_id"]), int(fields["partition_id"]))
        if row.kind == "partition":
            known = _Partition(*(fields[name] for name in _Partition.__dataclass_fields__))
        else:
            known = _changed(self._partitions.get(key, _UNKNOWN), fields)
        self._partitions[key] = known
        return {"partition": key[1], **{name: getattr(known, name) for name in _Partition.__dataclass_fields__}}


_UNKNOWN: Final = _Partition(-1, -1, -1, (), ())
_NOTHING: Final = dict.fromkeys(
    ("partition", "leader", "leader_epoch", "partition_epoch", "isr", "replicas", "broker", "broker_epoch", "fenced")
)


def _changed(known: _Partition, fields: Mapping[str, Any]) -> _Partition:
    leader = fields.get("leader", UNCHANGED)
    led_anew = leader != UNCHANGED
    isr, replicas = fields.get("isr"), fields.get("replicas")
    return replace(
        known,
        leader=leader if led_anew else known.leader,
        leader_epoch=known.leader_epoch + led_anew,
        partition_epoch=known.partition_epoch + 1,
        isr=known.isr if isr is None else isr,
        replicas=known.replicas if replicas is None else replicas,
    )


def _fenced(row: Row) -> bool | None:
    """None: says nothing about it."""
    said = {"fence-broker": True, "unfence-broker": False}.get(row.kind, row.fields.get("fenced"))
    if isinstance(said, bool):
        return said
    return {FENCED: True, UNFENCED: False}.get(said) if isinstance(said, int) else None


def base_offset(name: str) -> int | None:
    """Of a segment's file name: `00000000000000000041.log` -> 41; None of other files."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else None


def beginning(names: Iterable[str]) -> tuple[list[str], str | None, int]:
    """How to read a log directory: segments in order, the snapshot to begin with (None: none needed), first offset to tell.

    The snapshot is the oldest that covers what the first segment lacks; what the log repeats of it is passed over.
    """
    there = list(names)
    segments = sorted(name for name in there if base_offset(name) is not None)
    first = base_offset(segments[0]) or 0 if segments else 0
    ends = {int(match[1]): name for name in there if (match := _SNAPSHOT.fullmatch(name))}
    fit = [end for end in ends if end >= max(first, 1)]
    if segments and (first == 0 or not fit):
        return segments, None, first
    return segments, ends[min(fit)] if fit else None, min(fit, default=0)


def snapshot_end(name: str) -> int:
    return int(name.partition("-")[0])


def snapshot_rows(story: Story, name: str, content: bytes, *, at_ns: int | None) -> list[MetadataRow]:
    at = snapshot_end(name) - 1
    return [story.tell(replace(row, offset=at), at_ns=at_ns, index=index) for index, row in enumerate(rows(content))]


def collected(directory: Path, *, run: str, clock: str, node: str) -> Iterator[MetadataRow]:
    """All rows of a copy of a node's log directory; empty when there is none. BadLog."""
    story = Story(run, clock, node)
    segments, snapshot, first = beginning(path.name for path in directory.glob("*"))
    if snapshot is not None:
        yield from snapshot_rows(story, snapshot, (directory / snapshot).read_bytes(), at_ns=None)
    for segment in segments:
        for row in rows((directory / segment).read_bytes()):
            if row.offset >= first:
                yield story.tell(row, at_ns=None)
