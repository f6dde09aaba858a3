"""One replica of a partition as a pure state machine: events in, effects out; time is an argument, the log is what it is handed.

    partition = Partition(local)
    partition.metadata_changed(view, brokers, now)        # becomes leader, follower or neither
    partition.produce(Produce(ticket=7, content=batch, acks=-1, deadline=now + 30 * SECOND), now)
        [LogGrew(1302)]                                   # waits for followers
    answer, effects = partition.replica_fetch(ReplicaFetch(replica=2, replica_epoch=131, leader_epoch=4, offset=1302), now)
        effects == [HighWatermarkMoved(1302), ProduceAnswered(ticket=7, error=none, base_offset=1300)]

Who calls: the broker, for requests of clients and of followers, for answers to what it sent, for changes of the metadata, and every now
and then `tick` (Kafka looks every `replica.lag.time.max.ms` / 2 for lagging followers; a tick every 100 ms is plenty). `settings` may be
replaced at any time. A leader that may not serve, because its lease is over, is the broker's business, not the partition's.

Where the rules are: `membership.py` (ISR: KIP-497, KIP-841, KIP-903), `leader.py` (acknowledging, high watermark), `follower.py`
(truncation: KIP-101, KIP-279), `reads.py` (what consumers see: KIP-98, KIP-207, KIP-320), `nodes/reference/log` (idempotence and
transactions: KIP-98).

A disk that fails ends the replica: it answers KAFKA_STORAGE_ERROR from then on and says LogFailed once, so that nothing is acknowledged
that is not in the log. The broker takes it out of service.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from nodes.reference.log.epochs import NO_EPOCH, UNKNOWN_END, EpochEnd
from nodes.reference.partition import reads
from nodes.reference.partition.effects import (
    AlterPartitionAnswer,
    Effect,
    FetchAnswer,
    LogFailed,
    OffsetAnswer,
    ProduceAnswered,
    Ticket,
)
from nodes.reference.partition.follower import Follower
from nodes.reference.partition.leader import Leader
from nodes.reference.partition.local import Local
from nodes.reference.partition.purgatory import Purgatory
from nodes.reference.partition.requests import (
    ClientFetch,
    FollowerFetch,
    Isolation,
    Produce,
    ReplicaFetch,
    WriteMarker,
)
from nodes.reference.partition.view import Brokers, PartitionView


class Partition:
    """Leader, follower or neither, as the metadata says."""

    def __init__(self, local: Local) -> None:
        self.local = local
        self.view: PartitionView | None = None
        self.failed: str | None = None  # why the log is out of service
        self._role: Leader | Follower | None = None
        self._waiting = Purgatory()

    @property
    def leader(self) -> Leader | None:
        """The role, if it is this one."""
        return self._role if isinstance(self._role, Leader) else None

    @property
    def follower(self) -> Follower | None:
        return self._role if isinstance(self._role, Follower) else None

    @property
    def next_deadline(self) -> int | None:
        """When the next waiting request is to be answered, at the latest (ns)."""
        return self._waiting.next_deadline

    def metadata_changed(self, view: PartitionView | None, brokers: Brokers, now: int) -> list[Effect]:
        """The newest metadata; None: this broker has no replica of the partition any more. An older one than is known is ignored."""
        self.local.brokers = brokers
        if self.failed is not None or not self._is_news(view):
            return []
        try:
            return self._follow_metadata(view, now)
        except OSError as error:
            return self._fail(error)

    def produce(self, request: Produce, now: int) -> list[Effect]:
        leader = self.leader
        if leader is None:
            return [ProduceAnswered(request.ticket, self._not_leading)]
        try:
            return leader.produce(request, now)
        except OSError as error:
            return self._fail(error, request.ticket)

    def write_marker(self, request: WriteMarker, now: int) -> list[Effect]:
        leader = self.leader
        if leader is None:
            return [ProduceAnswered(request.ticket, self._not_leading)]
        try:
            return leader.write_marker(request, now)
        except OSError as error:
            return self._fail(error, request.ticket)

    def replica_fetch(self, request: ReplicaFetch, now: int) -> tuple[FetchAnswer, list[Effect]]:
        leader = self.leader
        if leader is None:
            return FetchAnswer(self._not_leading), []
        try:
            return leader.replica_fetch(request, now)
        except OSError as error:
            return FetchAnswer(ErrorCode.kafka_storage_error), self._fail(error)

    def client_fetch(self, request: ClientFetch) -> FetchAnswer:
        """OSError of a disk that cannot be read is answered, and does not end the replica: a write will."""
        leader = self.leader
        if leader is None:
            return FetchAnswer(self._not_leading)
        try:
            return leader.client_fetch(request)
        except OSError:
            return FetchAnswer(ErrorCode.kafka_storage_error)

    def list_own_offset(self, timestamp: int) -> OffsetAnswer:
        """ListOffsets of the log here, whoever leads: what it holds, committed or not."""
        try:
            return reads.list_offset(self.local.log, timestamp, None, epoch_start=0, protections=self.local.protections)
        except OSError:
            return OffsetAnswer(ErrorCode.kafka_storage_error)

    def list_offset(self, timestamp: int, isolation: Isolation | None, leader_epoch: int = NO_EPOCH) -> OffsetAnswer:
        """ListOffsets (KIP-79, KIP-207): a time in ms or one of `Timestamp`. isolation: None for a follower."""
        leader = self.leader
        if leader is None:
            return OffsetAnswer(self._not_leading)
        try:
            return leader.list_offset(timestamp, isolation, leader_epoch)
        except OSError:
            return OffsetAnswer(ErrorCode.kafka_storage_error)

    def end_of_epoch(self, leader_epoch: int, asked: int) -> tuple[ErrorCode, EpochEnd]:
        """OffsetForLeaderEpoch (KIP-101, KIP-320): leader_epoch is what the asker believes is current."""
        leader = self.leader
        return (self._not_leading, UNKNOWN_END) if leader is None else leader.end_of_epoch(leader_epoch, asked)

    def alter_partition_answered(self, answer: AlterPartitionAnswer, now: int) -> list[Effect]:
        """The controller's answer; of a request that got none: any error that is not its own, such as REQUEST_TIMED_OUT."""
        leader = self.leader
        return [] if leader is None else leader.alter_partition_answered(answer, now)

    def next_fetch(self) -> FollowerFetch | None:
        """What a follower asks its leader next; None for who follows nobody."""
        follower = self.follower
        return None if follower is None else follower.next_fetch()

    def fetched(self, request: ReplicaFetch, answer: FetchAnswer, now: int) -> list[Effect]:
        follower = self.follower
        if follower is None:
            return []
        try:
            return follower.fetched(request, answer, now)
        except OSError as error:
            return self._fail(error)

    def leader_offsets(self, leader_epoch: int, earliest: int, latest: int) -> list[Effect]:
        """The answer to AskLeaderOffsets: ListOffsets of the leader, as a follower."""
        follower = self.follower
        if follower is None:
            return []
        try:
            return follower.leader_offsets(leader_epoch, earliest, latest)
        except OSError as error:
            return self._fail(error)

    def tick(self, now: int) -> list[Effect]:
        """Time has passed."""
        if self.failed is not None:
            return []
        try:
            self.local.log.flush_if_due(now)
            return [] if self.leader is None else self.leader.tick(now)
        except OSError as error:
            return self._fail(error)

    @property
    def _not_leading(self) -> ErrorCode:
        return ErrorCode.not_leader_or_follower if self.failed is None else ErrorCode.kafka_storage_error

    def _is_news(self, view: PartitionView | None) -> bool:
        """KIP-497: epochs only grow. The same partition epoch is the same state, which an AlterPartition answer may have told before."""
        known = self.leader.membership.view if self.leader else self.view
        if view is None or known is None:
            return True
        return (view.leader_epoch, view.partition_epoch) > (known.leader_epoch, known.partition_epoch)

    def _follow_metadata(self, view: PartitionView | None, now: int) -> list[Effect]:
        known, self.view = self.view, view
        same_epoch = known is not None and view is not None and known.leader_epoch == view.leader_epoch
        if view is not None and view.leader == self.local.broker:
            if self.leader is not None and same_epoch:
                return self.leader.view_changed(view, now)
            self._role = leader = Leader(self.local, view, self._waiting, now)
            return leader.begin(now)
        effects = self._give_up(ErrorCode.not_leader_or_follower)
        if view is None or self.local.broker not in view.replicas:
            self._role = None
        elif self.follower is not None and same_epoch:
            self.follower.view = view
        else:
            self._role = follower = Follower(self.local, view)
            effects += follower.begin()
        return effects

    def _give_up(self, error: ErrorCode) -> list[Effect]:
        """Whoever waits is told that nobody here knows any more what becomes of its records."""
        return [ProduceAnswered(waiting.ticket, error) for waiting in self._waiting.all()]

    def _fail(self, error: OSError, *tickets: Ticket) -> list[Effect]:
        self._role = None
        self.failed = str(error)
        answers = [ProduceAnswered(ticket, ErrorCode.kafka_storage_error) for ticket in tickets]
        return [LogFailed(self.failed), *answers, *self._give_up(ErrorCode.kafka_storage_error)]
