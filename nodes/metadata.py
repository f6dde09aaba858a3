"""The latest state that a metadata log tells: who leads what, who is in sync, which broker is registered under which epoch.

What a poll of brokers cannot give (nodes/view.py): the partition epoch, eligible leaders, the broker epoch and incarnation, and that
nothing in between was missed. A log's newest records may not be committed yet, and an old controller's never will be.

    view.partitions["t", 0]      PartitionState(leader=1, leader_epoch=2, partition_epoch=4, isr=(1,), replicas=(1, 2), elr=(), ...)
    view.brokers[2]              BrokerState(id=2, epoch=57, fenced=True, incarnation="l7mdE3vHSVKXL8C8LqDnLQ", ...)
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from nodes.metadata_row import MetadataRow


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    topic: str
    partition: int
    leader: int  # broker id, -1: none
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    elr: tuple[int, ...]  # eligible leader replicas (KIP-966)
    last_known_elr: tuple[int, ...]
    offset: int  # of the record that said so


@dataclass(frozen=True, kw_only=True)
class BrokerState:
    id: int
    epoch: int
    fenced: bool
    incarnation: str | None
    registered: int  # offset of its registration
    offset: int  # of the record that spoke of it last


@dataclass
class MetadataView:
    """Of one node's copy of the log. `epoch` and `offset` are those of the newest record."""

    epoch: int = -1
    offset: int = -1
    controller: int | None = None  # node id of who wrote this epoch
    partitions: dict[tuple[str, int], PartitionState] = field(default_factory=dict)
    brokers: dict[int, BrokerState] = field(default_factory=dict)

    def copy(self) -> MetadataView:
        """One that later rows do not change."""
        return replace(self, partitions=dict(self.partitions), brokers=dict(self.brokers))

    def apply(self, row: MetadataRow) -> None:
        """Rows come in the order of the log."""
        self.epoch, self.offset = row.epoch, row.offset
        if row.kind == "leader-change":
            self.controller = row.leader
        elif row.kind in ("partition", "partition-change"):
            self._partition(row)
        elif row.kind == "remove-topic":
            self.partitions = {key: state for key, state in self.partitions.items() if key[0] != row.topic}
        elif row.broker is not None:
            self._broker(row, row.broker)

    def _partition(self, row: MetadataRow) -> None:
        if row.topic is None or row.partition is None:
            return
        known = self.partitions.get((row.topic, row.partition)) if row.kind == "partition-change" else None
        fields = json.loads(row.fields)
        self.partitions[row.topic, row.partition] = PartitionState(
            topic=row.topic,
            partition=row.partition,
            leader=-1 if row.leader is None else row.leader,
            leader_epoch=-1 if row.leader_epoch is None else row.leader_epoch,
            partition_epoch=-1 if row.partition_epoch is None else row.partition_epoch,
            isr=row.isr or (),
            replicas=row.replicas or (),
            elr=_ids(fields, "eligible_leader_replicas", known.elr if known else ()),
            last_known_elr=_ids(fields, "last_known_elr", known.last_known_elr if known else ()),
            offset=row.offset,
        )

    def _broker(self, row: MetadataRow, id: int) -> None:
        if row.kind == "unregister-broker":
            self.brokers.pop(id, None)
        elif row.kind == "register-broker":
            self.brokers[id] = BrokerState(
                id=id,
                epoch=-1 if row.broker_epoch is None else row.broker_epoch,
                fenced=row.fenced is not False,
                incarnation=json.loads(row.fields).get("incarnation_id"),
                registered=row.offset,
                offset=row.offset,
            )
        elif (known := self.brokers.get(id)) is not None:
            fenced = known.fenced if row.fenced is None else row.fenced
            self.brokers[id] = replace(known, fenced=fenced, offset=row.offset)


def describe(view: MetadataView) -> str:
    """A view in one line, for messages.

    >>> describe(view)
    'metadata log at 57 (epoch 2); unfenced: 1; fenced: 2; t-0 led by 1, isr 1 of 1 2, epochs 2/4'
    """
    fenced = [broker.id for broker in view.brokers.values() if broker.fenced]
    unfenced = [id for id in view.brokers if id not in fenced]
    own = [state for key, state in sorted(view.partitions.items()) if not key[0].startswith("__")]
    shown = "".join(
        f"; {one.topic}-{one.partition} led by {'none' if one.leader < 0 else one.leader}, isr {_words(one.isr)} of "
        f"{_words(one.replicas)}, epochs {one.leader_epoch}/{one.partition_epoch}"
        + (f", elr {_words(one.elr)}" if one.elr or one.last_known_elr else "")
        for one in own[:5]
    )
    return f"metadata log at {view.offset} (epoch {view.epoch}); unfenced: {_words(unfenced)}; fenced: {_words(fenced)}{shown}"


def _ids(fields: dict[str, Any], name: str, otherwise: tuple[int, ...]) -> tuple[int, ...]:
    said = fields.get(name)
    return otherwise if said is None else tuple(said)


def _words(ids: Any) -> str:
    return " ".join(str(one) for one in sorted(ids)) or "none"
