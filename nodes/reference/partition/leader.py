"""A replica that leads: appends, serves followers and consumers, and moves the high watermark.

Nothing is carried over from an earlier epoch but the log and the requests that wait: where followers are is learnt anew from their fetches.
Kafka keeps that when the same broker leads two epochs in a row; but metadata may skip an epoch in which another led and they
truncated, and then it would count records that they no longer have.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.log.batch import BatchRefused, parse
from nodes.reference.log.epochs import UNKNOWN_END, EpochEnd
from nodes.reference.log.log import Appended
from nodes.reference.partition import reads
from nodes.reference.partition.effects import (
    AlterPartitionAnswer,
    Effect,
    FetchAnswer,
    HighWatermarkMoved,
    LogGrew,
    OffsetAnswer,
    ProduceAnswered,
    Ticket,
)
from nodes.reference.partition.local import Local
from nodes.reference.partition.membership import Membership
from nodes.reference.partition.purgatory import Purgatory, Waiting
from nodes.reference.partition.requests import (
    Acks,
    ClientFetch,
    Isolation,
    Produce,
    ReplicaFetch,
    WriteMarker,
)
from nodes.reference.partition.view import PartitionView
from nodes.reference.protections import Protection

_KNOWN_ACKS: Final = frozenset(Acks)


class Leader:
    """In one leader epoch."""

    def __init__(self, local: Local, view: PartitionView, purgatory: Purgatory, now: int) -> None:
        self._local = local
        self._log = local.log
        self._waiting = purgatory
        self.membership = Membership(local, view, now)
        self._unappended: list[Produce] = []  # acknowledged before they are appended, which is a defect
        self._promised = 0  # the offset after those

    @property
    def epoch(self) -> int:
        return self.membership.view.leader_epoch

    def begin(self, now: int) -> list[Effect]:
        """Become leader: the epoch begins where the log ends (KIP-101), and what producers wrote is known from the log (KIP-98)."""
        if not self._local.protections.on(Protection.SEQUENCES_AFTER_FAILOVER):
            self._log.producers.forget()
        self._log.begin_epoch(self.epoch)
        return self._advance(now)

    def view_changed(self, view: PartitionView, now: int) -> list[Effect]:
        self.membership.view_changed(view, now)
        return self._advance(now)

    def produce(self, request: Produce, now: int) -> list[Effect]:
        """Append a batch; acks=all is answered when the high watermark has passed it."""
        if request.acks not in _KNOWN_ACKS:
            return [ProduceAnswered(request.ticket, ErrorCode.invalid_required_acks)]
        if self._local.protections.on(Protection.APPEND_BEFORE_ACKNOWLEDGE):
            return self._append(request, now)
        return self._acknowledge_unappended(request)

    def write_marker(self, request: WriteMarker, now: int) -> list[Effect]:
        """KIP-98, WriteTxnMarkers: end a transaction here; answered as acks=all is."""
        refused = self._not_enough(request.ticket)
        if refused is not None:
            return [refused]
        try:
            appended = self._log.append_marker(
                request.marker,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                coordinator_epoch=request.coordinator_epoch,
                leader_epoch=self.epoch,
                timestamp=request.timestamp,
                now=now,
            )
        except BatchRefused as refusal:
            return [ProduceAnswered(request.ticket, refusal.error, message=str(refusal))]
        return self._appended(request.ticket, appended, Acks.ALL, request.deadline, now)

    def replica_fetch(self, request: ReplicaFetch, now: int) -> tuple[FetchAnswer, list[Effect]]:
        """A follower asks for what comes after its log, and so says what it has. A refused fetch says nothing."""
        members = self.membership
        error = reads.epoch_error(request.leader_epoch, self.epoch)
        if error is ErrorCode.none and request.replica not in members.followers:
            error = ErrorCode.unknown_leader_epoch  # a reassignment that this broker has not heard of
        if error is ErrorCode.none and members.stale(request.replica, request.replica_epoch):
            error = ErrorCode.not_leader_or_follower
        if error is not ErrorCode.none:
            return FetchAnswer(error), []
        error, diverging = reads.position_error(self._log, request.offset, request.last_fetched_epoch)
        if error is not ErrorCode.none or diverging != UNKNOWN_END:
            return self._replica_answer(error, diverging=diverging), []
        members.followers[request.replica].fetched(
            request.offset, request.replica_epoch, leader_end=self._log.log_end_offset, now=now
        )
        proposal = members.expand(request.replica)
        effects = [*([proposal] if proposal else []), *self._advance(now)]
        records = self._log.read(request.offset, upper_bound=self._log.log_end_offset, max_bytes=request.max_bytes)
        return self._replica_answer(ErrorCode.none, records=records), effects

    def client_fetch(self, request: ClientFetch) -> FetchAnswer:
        error = reads.epoch_error(request.leader_epoch, self.epoch)
        if error is not ErrorCode.none:
            return FetchAnswer(error)
        return reads.client_fetch(self._log, request, self._local.protections)

    def list_offset(self, timestamp: int, isolation: Isolation | None, leader_epoch: int) -> OffsetAnswer:
        error = reads.epoch_error(leader_epoch, self.epoch)
        if error is not ErrorCode.none:
            return OffsetAnswer(error)
        return reads.list_offset(
            self._log,
            timestamp,
            isolation,
            epoch_start=self.membership.epoch_start,
            protections=self._local.protections,
        )

    def end_of_epoch(self, leader_epoch: int, asked: int) -> tuple[ErrorCode, EpochEnd]:
        error = reads.epoch_error(leader_epoch, self.epoch)
        return (error, UNKNOWN_END) if error is not ErrorCode.none else (error, self._log.end_of_epoch(asked))

    def alter_partition_answered(self, answer: AlterPartitionAnswer, now: int) -> list[Effect]:
        self.membership.answered(answer)
        return self._advance(now)

    def tick(self, now: int) -> list[Effect]:
        """What time brings: followers that lag, requests whose time is over, questions to ask again."""
        effects: list[Effect] = []
        unappended, self._unappended = self._unappended, []
        for request in unappended:
            effects += [effect for effect in self._append(request, now) if not isinstance(effect, ProduceAnswered)]
        proposal = self.membership.again() or self.membership.shrink(now)
        if proposal is not None:
            effects.append(proposal)
        effects += self._advance(now)
        effects += [ProduceAnswered(late.ticket, ErrorCode.request_timed_out) for late in self._waiting.expired(now)]
        return effects

    def _append(self, request: Produce, now: int) -> list[Effect]:
        refused = self._not_enough(request.ticket) if request.acks == Acks.ALL else None
        if refused is not None:
            return [refused]
        try:
            appended = self._log.append_as_leader(
                request.content, leader_epoch=self.epoch, now=now, in_sequence=not request.of_coordinator
            )
        except BatchRefused as refusal:
            return [ProduceAnswered(request.ticket, refusal.error, message=str(refusal))]
        return self._appended(request.ticket, appended, request.acks, request.deadline, now)

    def _appended(self, ticket: Ticket, appended: Appended, acks: int, deadline: int, now: int) -> list[Effect]:
        effects: list[Effect] = [] if appended.duplicate else [LogGrew(self._log.log_end_offset)]
        if acks == Acks.ALL and self._local.protections.on(Protection.REPLICATE_BEFORE_ACKNOWLEDGE):
            self._waiting.add(Waiting(ticket, appended.base_offset, appended.last_offset + 1, deadline))
        else:
            effects.append(self._acknowledged(ticket, appended.base_offset))
        return effects + self._advance(now)

    def _acknowledge_unappended(self, request: Produce) -> list[Effect]:
        """The defect: the answer is sent now, the batch is appended at the next tick."""
        try:
            header = parse(request.content, 0)
        except BatchRefused as refusal:
            return [ProduceAnswered(request.ticket, refusal.error, message=str(refusal))]
        base_offset = max(self._promised, self._log.log_end_offset)
        self._promised = base_offset + header.last_offset_delta + 1
        self._unappended.append(request)
        return [self._acknowledged(request.ticket, base_offset)]

    def _not_enough(self, ticket: Ticket) -> ProduceAnswered | None:
        if not self.membership.under_min_isr:
            return None
        return ProduceAnswered(ticket, ErrorCode.not_enough_replicas)

    def _advance(self, now: int) -> list[Effect]:
        """Move the high watermark as far as records are committed, and answer who waited for that (KIP-497)."""
        effects: list[Effect] = []
        if self._may_commit():
            ends = (follower.log_end_offset for follower in self.membership.behind_high_watermark(now))
            if self._log.advance_high_watermark(min(ends, default=self._log.log_end_offset)):
                effects.append(HighWatermarkMoved(self._log.high_watermark))
        return effects + [self._replicated(done) for done in self._waiting.reached(self._log.high_watermark)]

    def _may_commit(self) -> bool:
        """KAFKA-15583: not while the ISR is smaller than `min.insync.replicas`; such records are not safe enough to be read."""
        if not self._local.protections.on(Protection.HIGH_WATERMARK_WITHIN_MIN_ISR):
            return True
        return not self.membership.under_min_isr

    def _replicated(self, done: Waiting) -> ProduceAnswered:
        if len(self.membership.isr.maximal) < self.membership.enough:
            return ProduceAnswered(done.ticket, ErrorCode.not_enough_replicas_after_append)
        return self._acknowledged(done.ticket, done.base_offset)

    def _acknowledged(self, ticket: Ticket, base_offset: int) -> ProduceAnswered:
        return ProduceAnswered(ticket, ErrorCode.none, base_offset, self._log.log_start_offset)

    def _replica_answer(
        self, error: ErrorCode, *, records: bytes = b"", diverging: EpochEnd = UNKNOWN_END
    ) -> FetchAnswer:
        return FetchAnswer(
            error=error,
            high_watermark=self._log.high_watermark,
            last_stable_offset=self._log.last_stable_offset,
            log_start_offset=self._log.log_start_offset,
            records=records,
            diverging=diverging,
        )
