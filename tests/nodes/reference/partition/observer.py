"""What must never be, whatever happens to brokers, disks and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from nodes.reference.log.batch import Marker, batches, intact, read_marker
from nodes.reference.log.log import Log
from nodes.reference.partition.effects import AlterPartition, Effect, HighWatermarkMoved, LogTruncated, ProduceAnswered
from nodes.reference.partition.partition import Partition
from nodes.reference.partition.requests import ClientFetch, Isolation, Timestamp

if TYPE_CHECKING:
    from tests.nodes.reference.partition.cluster import Cluster

_MAY_COME: Final = {
    ErrorCode.not_leader_or_follower,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
}
_VALUE_AT: Final = 61 + 6  # a record of one short value: length, attributes, two deltas, no key, length


class Violation(AssertionError):
    """An invariant does not hold."""


class Observer:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.committed: dict[int, bytes] = {}  # by offset: acknowledged, or below a leader's high watermark
        self._acknowledged: dict[bytes, int] = {}
        self._told: dict[int, int] = {}  # leader epoch -> the latest end offset that was told
        self._high_watermarks: dict[tuple[int, int], int] = {}  # (broker, leader epoch)
        self._fate: dict[bytes, Marker | None] = {}  # of transactional records; None: open

    def look(self) -> None:
        """After every step: high watermarks of leaders, and what consumers are told of the end of the log."""
        for machine in self._cluster.machines.values():
            partition = machine.partition
            if partition is not None and partition.leader is not None:
                self._look_at_leader(machine.id, partition)

    def _look_at_leader(self, broker: int, partition: Partition) -> None:
        assert partition.leader is not None
        log, epoch = partition.local.log, partition.leader.epoch
        before = self._high_watermarks.get((broker, epoch), 0)
        if log.high_watermark < before:
            self.violated(f"high watermark of {broker} went from {before} to {log.high_watermark} in epoch {epoch}")
        self._high_watermarks[broker, epoch] = log.high_watermark
        told = partition.list_offset(Timestamp.LATEST, Isolation.READ_UNCOMMITTED)
        if told.error is ErrorCode.none:
            latest = max((offset for other, offset in self._told.items() if other <= epoch), default=0)
            if told.offset < latest:
                self.violated(f"end offset {told.offset} in epoch {epoch} after {latest}")
            self._told[epoch] = max(told.offset, self._told.get(epoch, 0))

    def saw(self, broker: int, effect: Effect) -> None:
        """What a leader's high watermark has passed is committed."""
        partition = self._cluster.machines[broker].partition
        if isinstance(effect, LogTruncated):
            self._cluster.note(f"{broker} truncated its log from {effect.was} to {effect.end}")
        if isinstance(effect, HighWatermarkMoved) and partition is not None and partition.leader is not None:
            for offset, value in records(partition.local.log).items():
                if offset < effect.high_watermark:
                    self._commit(offset, value)

    def acknowledged(self, offset: int, value: bytes) -> None:
        self._acknowledged[value] = offset
        self._commit(offset, value)

    def _commit(self, offset: int, value: bytes) -> None:
        if self.committed.setdefault(offset, value) != value:
            self.violated(f"offset {offset} was {self.committed[offset]!r} and is {value!r}")

    def elected(self, broker: int) -> None:
        """A new leader of the newest epoch has everything that was committed."""
        partition = self._cluster.machines[broker].partition
        assert partition is not None
        assert partition.leader is not None
        if partition.leader.epoch == self._cluster.view.leader_epoch:
            self._has_all_committed(broker, partition.local.log)

    def proposed(self, leader: int, asked: AlterPartition) -> None:
        """KIP-841, KIP-903: who joins is, as far as this leader's metadata tells, alive and the incarnation that fetched."""
        partition = self._cluster.machines[leader].partition
        assert partition is not None
        assert partition.view is not None
        assert partition.leader is not None
        known = partition.leader.membership.view.isr
        for id, epoch in asked.new_isr:
            broker = partition.local.brokers[id]
            if id in known:
                continue
            if broker.fenced or broker.in_controlled_shutdown:
                self.violated(f"{leader} proposes {id}, which it knows to be fenced or stopping")
            if epoch != broker.epoch:
                self.violated(f"{leader} proposes epoch {epoch} of {id}, and knows of {broker.epoch}")

    def refused(self, answer: ProduceAnswered) -> None:
        """A producer that follows the rules is never told that it is out of order or fenced."""
        if answer.error not in _MAY_COME:
            self.violated(f"a producer that follows the rules is told {answer.error.name}: {answer.message}")

    def wrote(self, value: bytes) -> None:
        self._fate.setdefault(value, None)

    def decided(self, values: list[bytes], marker: Marker) -> None:
        for value in values:
            self._fate[value] = marker

    def zombie_wrote(self, producer: int) -> None:
        self.violated(f"a zombie of producer {producer} wrote a record")

    def read_committed(self, partition: Partition) -> None:
        """What a consumer with read_committed makes of the log: no record of an open or aborted transaction."""
        answer = partition.client_fetch(ClientFetch(offset=0, isolation=Isolation.READ_COMMITTED))
        if answer.error is not ErrorCode.none:
            return
        aborted = {gone.producer_id: gone for gone in answer.aborted or ()}
        gone_now: set[int] = set()
        starts = {}
        for gone in answer.aborted or ():
            starts.setdefault((gone.producer_id, gone.first_offset), gone)
        for position, header in batches(answer.records):
            if header.control:
                gone_now.discard(header.producer_id)
                continue
            if header.producer_id in aborted and (header.producer_id, header.base_offset) in starts:
                gone_now.add(header.producer_id)
            value = _value(answer.records, position)
            if header.transactional and header.producer_id not in gone_now:
                self._seen(value)

    def _seen(self, value: bytes) -> None:
        if self._fate.get(value) is not Marker.COMMIT:
            self.violated(f"read_committed shows {value!r}, whose transaction is {self._fate.get(value)}")

    def final(self) -> None:
        """All is healed: nothing is lost, nothing is there twice, and the replicas agree."""
        cluster = self._cluster
        leader = cluster.leader()
        if leader is None or leader.partition is None or leader.partition.leader is None:
            self.violated(f"no leader after healing: {cluster.view}")
            return
        log = leader.partition.local.log
        if cluster.view.isr != frozenset(cluster.machines) or log.high_watermark != log.log_end_offset:
            self.violated(f"not in sync after healing: {cluster.view}, {log.high_watermark} of {log.log_end_offset}")
        self._has_all_committed(leader.id, log)
        contents = {machine.id: stored(machine.partition) for machine in cluster.machines.values()}
        if len(set(contents.values())) > 1:
            self.violated("replicas differ after healing")
        self.read_committed(leader.partition)

    def _has_all_committed(self, broker: int, log: Log) -> None:
        there = records(log)
        for offset, value in self.committed.items():
            if there.get(offset) != value:
                self.violated(f"{broker} leads without {value!r} at offset {offset}, it has {there.get(offset)!r}")
        values = [value for value in there.values() if value]
        if len(set(values)) < len(values):
            self.violated(f"{broker} has a batch twice: {sorted(values)}")

    def violated(self, what: str) -> None:
        raise Violation("\n".join([what, *self._cluster.trace[-60:]]))


def stored(partition: Partition | None) -> bytes:
    assert partition is not None
    log = partition.local.log
    return log.read(0, upper_bound=log.log_end_offset, max_bytes=1 << 30)


def records(log: Log) -> dict[int, bytes]:
    """Offset -> value; empty for a marker. Violation if a batch is not what a client or a coordinator wrote."""
    content = log.read(0, upper_bound=log.log_end_offset, max_bytes=1 << 30)
    found = {}
    for position, header in batches(content):
        if not intact(content, position, header):
            raise Violation(f"the batch at offset {header.base_offset} is not what was written")
        control = header.control and read_marker(content, position, header)
        found[header.base_offset] = b"" if control else _value(content, position)
    return found


def _value(content: bytes, position: int) -> bytes:
    size = content[position + _VALUE_AT - 1] // 2
    return content[position + _VALUE_AT : position + _VALUE_AT + size]
