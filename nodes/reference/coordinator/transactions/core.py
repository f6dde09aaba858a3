"""The transactional ids of one partition of `__transaction_state`, in one leader epoch of it: a pure state machine (KIP-98, KIP-360).

    coordinator = TransactionCoordinator(TransactionSettings(), ALL_ON, coordinator_epoch=3)
    coordinator.load(content); coordinator.loaded(now)
    coordinator.init_producer_id("ticket", InitProducerId(transactional_id="t", timeout_ms=60_000, spare=7), now)
        [Write(1, (KeyedRecord(...),))]          # Empty, producer 7, epoch 0
    coordinator.written(1, ErrorCode.none, 0, now)
        [Answer("ticket", Initialized(none, 7, 0))]
    coordinator.end("ticket", Producer(...), commit=True, now)
        [Write(2, ...)]                          # PrepareCommit; when it is written:
        [Answer("ticket", none), SendMarkers("t", 7, 0, 3, commit=True, partitions={...})]
    coordinator.marked(sent, {partition: none, ...}, now)
        [Write(3, ...)]                          # CompleteCommit, once every partition has its marker

What decides a transaction is the Prepare record: before it is committed in the log nobody hears of the outcome, and after it every
coordinator to come brings the same outcome to all partitions. While a record of an id is on its way, all else for that id is
CONCURRENT_TRANSACTIONS. Times are ms since 1970, because a start time in the log must mean the same to the next coordinator (as in Kafka,
whose transactions a jump of the wall clock can time out). The epoch is bumped by InitProducerId, not by every EndTxn: this is TV0 and TV1
of KIP-890, so a late EndTxn can end the next transaction (KAFKA-17754), as with every client of those versions. An id that nobody has used
for `transactional.id.expiration.ms` is forgotten, by a tombstone; whoever still has it is told INVALID_PRODUCER_ID_MAPPING.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import (
    NEVER,
    Answer,
    Effect,
    SendMarkers,
    Ticket,
    Writes,
    is_in_the_log,
    of_the_log,
)
from nodes.reference.coordinator.groups.requests import TopicPartition
from nodes.reference.coordinator.transactions import records, state
from nodes.reference.coordinator.transactions.known import Known
from nodes.reference.coordinator.transactions.markers import Marking
from nodes.reference.coordinator.transactions.requests import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    DescribedTransaction,
    Initialized,
    InitProducerId,
    Marked,
    Producer,
    TransactionSettings,
)
from nodes.reference.coordinator.transactions.state import (
    LAST_USABLE_EPOCH,
    PREPARED,
    Transaction,
    TransactionState,
)
from nodes.reference.log.keyed import decode
from nodes.reference.protections import Protection, Protections

Then = Callable[[ErrorCode, int], "list[Effect]"]  # error, now
Say = Callable[[ErrorCode], object]


class TransactionCoordinator:
    def __init__(self, settings: TransactionSettings, protections: Protections, *, coordinator_epoch: int) -> None:
        """coordinator_epoch: the leader epoch of this partition of `__transaction_state`."""
        self._settings = settings
        self._protections = protections
        self._epoch = coordinator_epoch
        self._writes = Writes()
        self._answering: dict[Ticket, Say] = {}
        self._look_for_expired_at = NEVER
        self.ids: dict[str, Known] = {}

    def load(self, content: bytes) -> None:
        """The next batches of the log. Undecodable, BatchRefused: nobody can coordinate from this log."""
        for batch in decode(content):
            for record in batch.records:
                transactional_id, transaction = records.read(record)
                if transaction is None:
                    self.ids.pop(transactional_id, None)
                else:
                    self.ids[transactional_id] = Known(transaction)

    def loaded(self, now: int) -> list[Effect]:
        """What was decided is brought to its end."""
        self._look_for_expired_at = self._next_look(now)
        effects: list[Effect] = []
        for known in self.ids.values():
            if known.transaction.state in PREPARED:
                effects += self._begin_marking(known, known.transaction, now)
        return effects

    # Requests of producers

    def needs_producer_id(self, transactional_id: str) -> bool:
        """May InitProducerId want a `spare`?"""
        known = self.ids.get(transactional_id)
        return known is None or known.transaction.epochs_used_up

    def init_producer_id(self, ticket: Ticket, request: InitProducerId, now: int) -> list[Effect]:
        """KIP-98, InitPidRequest: a new epoch, which fences the former producer; its open transaction is aborted first."""
        if not request.transactional_id:
            return [Answer(ticket, Initialized(ErrorCode.invalid_request))]
        if not 0 < request.timeout_ms <= self._settings.transaction_max_timeout_ms:
            return [Answer(ticket, Initialized(ErrorCode.invalid_transaction_timeout))]
        known = self.ids.get(request.transactional_id)
        if known is None:
            if request.spare is None:
                return [Answer(ticket, Initialized(ErrorCode.coordinator_load_in_progress))]  # KAFKA-14417
            known = Known(_new(request, request.spare, now))
            self.ids[request.transactional_id] = known
        transaction = known.transaction
        if known.busy:
            return [Answer(ticket, Initialized(ErrorCode.concurrent_transactions))]
        if not _may_go_on(transaction, request):
            return [Answer(ticket, Initialized(ErrorCode.producer_fenced))]
        if transaction.state is TransactionState.ONGOING:
            answer = [Answer(ticket, Initialized(ErrorCode.concurrent_transactions))]
            return self._abort_and_fence(known, now) + answer
        return self._renew(known, ticket, request, now)

    def add_partitions(
        self, ticket: Ticket, producer: Producer, partitions: Collection[TopicPartition], now: int
    ) -> list[Effect]:
        """AddPartitionsToTxn, and AddOffsetsToTxn with the partition of the group's offsets: known before anything is written there."""
        known, error = self._find(producer)
        if known is None or error is not ErrorCode.none:
            return [Answer(ticket, error)]
        transaction = known.transaction
        if known.busy:
            return [Answer(ticket, ErrorCode.concurrent_transactions)]
        if transaction.state is TransactionState.ONGOING and transaction.partitions.issuperset(partitions):
            return [Answer(ticket, ErrorCode.none)]
        to_write = state.with_partitions(transaction, partitions, now=now)
        return self._write(known, to_write, ticket=ticket)

    def verify(self, producer: Producer, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """KIP-890, AddPartitionsToTxn with verifyOnly: are they in the open transaction? A leader asks before it appends."""
        known, error = self._find(producer)
        if known is None or error is not ErrorCode.none:
            return dict.fromkeys(partitions, error)
        if known.busy:
            return dict.fromkeys(partitions, ErrorCode.concurrent_transactions)
        added = known.transaction.partitions
        return {one: ErrorCode.none if one in added else ErrorCode.invalid_txn_state for one in partitions}

    def end(self, ticket: Ticket, producer: Producer, *, commit: bool, now: int) -> list[Effect]:
        """EndTxn: answered when the outcome is in the log; the markers follow.

        A retry is answered when the log has it once more. Kafka answers that from memory, and until KIP-890 has a new epoch for every
        transaction, a coordinator that does not know yet that it has been replaced takes an EndTxn for one of the transaction before:
        it tells a client that a transaction is committed of which it has never heard, and which its successor will abort.
        """
        known, error = self._find(producer)
        if known is not None and error is ErrorCode.none:
            error = known.end_error(commit=commit)
        if known is None or error is not ErrorCode.none:
            return [Answer(ticket, error)]
        if known.transaction.state is not TransactionState.ONGOING:  # a retry: it is ended so already
            return self._write(known, known.transaction, ticket=ticket)
        return self._decide(known, state.prepared(known.transaction, commit=commit, now=now), now, ticket=ticket)

    # Administration

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """KIP-664."""
        known = self.ids.get(transactional_id)
        if known is None:
            return DescribedTransaction(ErrorCode.transactional_id_not_found, transactional_id)
        return _described(known.transaction)

    def describe_all(self) -> list[DescribedTransaction]:
        return [_described(known.transaction) for known in self.ids.values()]

    # The log, markers, time, the end

    def written(self, token: int, error: ErrorCode, base_offset: int, now: int) -> list[Effect]:
        return self._writes.done(token, error, base_offset, now)

    def marked(self, sent: SendMarkers, results: Marked, now: int) -> list[Effect]:
        """What the leaders said about markers; those who said nothing: any error that is worth another try."""
        known = self.ids.get(sent.transactional_id)
        if known is None or known.marking is None or known.marking.sent is not sent:
            return []  # of a transaction that is over
        known.marking.answered(results, now)
        return self._complete_if_marked(known, now)

    @property
    def next_deadline(self) -> int:
        deadlines = (deadline for known in self.ids.values() for deadline in known.deadlines())
        return min((*deadlines, self._look_for_expired_at))

    def tick(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        for known in [known for known in self.ids.values() if min(known.deadlines(), default=NEVER) <= now]:
            if known.marking is not None:
                again = known.marking.again(now)
                effects += self._complete_if_marked(known, now) if again is None else [again]
            else:
                effects += self._abort_and_fence(known, now)  # `transaction.timeout.ms` is over
        return effects + self._expire(now) if self._look_for_expired_at <= now else effects

    def give_up(self) -> list[Effect]:
        """This broker does not lead the partition any more. What is on its way may be committed yet: the next coordinator will know."""
        answering, self._answering = self._answering, {}
        return [Answer(ticket, said(ErrorCode.not_coordinator)) for ticket, said in answering.items()]

    # Parts of the above

    def _next_look(self, now: int) -> int:
        return now + self._settings.transaction_remove_expired_transaction_cleanup_interval_ms

    def _expire(self, now: int) -> list[Effect]:
        """Of what could not be written the next look takes care."""
        self._look_for_expired_at = self._next_look(now)
        expiration = self._settings.transactional_id_expiration_ms
        return [
            self._forget(known)
            for known in self.ids.values()
            if not known.busy and known.transaction.expired(now, expiration)
        ]

    def _forget(self, known: Known) -> Effect:
        transactional_id = known.transaction.transactional_id
        known.leaving = True

        def written(error: ErrorCode, position: int, now: int) -> list[Effect]:
            known.leaving = False
            if is_in_the_log(error):
                del self.ids[transactional_id]
            return []

        return self._writes.begin((records.of_expired(transactional_id),), written)

    def _find(self, producer: Producer) -> tuple[Known | None, ErrorCode]:
        if not producer.transactional_id:
            return None, ErrorCode.invalid_request
        known = self.ids.get(producer.transactional_id)
        if known is None or known.transaction.producer_id != producer.producer_id:
            return None, ErrorCode.invalid_producer_id_mapping
        if self._is_fenced(known.transaction, producer):
            return None, ErrorCode.producer_fenced
        return known, ErrorCode.none

    def _is_fenced(self, transaction: Transaction, producer: Producer) -> bool:
        """KIP-98, Fencing: a newer producer has this transactional id."""
        if not self._protections.on(Protection.PRODUCER_EPOCH_AT_COORDINATOR):
            return False
        return producer.producer_epoch != transaction.producer_epoch

    def _renew(self, known: Known, ticket: Ticket, request: InitProducerId, now: int) -> list[Effect]:
        transaction = known.transaction
        expected = None if request.producer_epoch == NO_PRODUCER_EPOCH else request.producer_epoch
        renewed: Transaction | None
        if transaction.epochs_used_up and expected in (None, transaction.producer_epoch):
            if request.spare is None:
                return [Answer(ticket, Initialized(ErrorCode.coordinator_load_in_progress))]
            renewed = state.with_new_producer_id(
                transaction,
                request.spare,
                timeout_ms=request.timeout_ms,
                remember_epoch=expected is not None,
                now=now,
            )
        else:
            renewed = state.with_epoch_bumped(
                transaction, timeout_ms=request.timeout_ms, expected_epoch=expected, now=now
            )
        if renewed is None:
            return [Answer(ticket, Initialized(ErrorCode.producer_fenced))]
        told = Initialized(ErrorCode.none, renewed.producer_id, renewed.producer_epoch)
        return self._write(
            known, renewed, ticket=ticket, say=lambda error: Initialized(error) if error is not ErrorCode.none else told
        )

    def _abort_and_fence(self, known: Known, now: int) -> list[Effect]:
        """A new producer comes, or the transaction has been open for too long: its producer is let in no more."""
        return self._decide(known, state.fenced(known.transaction, bump=not known.fence_failed, now=now), now)

    def _decide(self, known: Known, decision: Transaction, now: int, *, ticket: Ticket | None = None) -> list[Effect]:
        """KIP-98, EndTxnRequest: the outcome is in the log before any partition hears of it."""
        fences = decision.producer_epoch != known.transaction.producer_epoch
        in_order = self._protections.on(Protection.DECISION_BEFORE_MARKERS)

        def then(error: ErrorCode, now: int) -> list[Effect]:
            known.fence_failed = error is not ErrorCode.none and (fences or known.fence_failed)
            if known.fence_failed:
                known.transaction = replace(known.transaction, producer_epoch=decision.producer_epoch)
            return self._begin_marking(known, decision, now) if in_order and error is ErrorCode.none else []

        effects = self._write(known, decision, then=then, ticket=ticket)
        return effects if in_order else effects + self._begin_marking(known, decision, now)

    def _begin_marking(self, known: Known, decision: Transaction, now: int) -> list[Effect]:
        known.marking = Marking(
            decision,
            self._to_mark(decision),
            coordinator_epoch=self._epoch,
            settings=self._settings,
            now=now,
        )
        return self._complete_if_marked(known, now) if known.marking.sent is None else [known.marking.sent]

    def _to_mark(self, decision: Transaction) -> frozenset[TopicPartition]:
        """All that were added to the transaction."""
        if self._protections.on(Protection.MARKERS_TO_ALL_PARTITIONS):
            return decision.partitions
        return frozenset(sorted(decision.partitions)[:-1]) or decision.partitions

    def _complete_if_marked(self, known: Known, now: int) -> list[Effect]:
        marking = known.marking
        assert marking is not None
        if marking.replaced:
            known.marking = None
            return []
        if marking.remaining:
            return []
        if known.pending is not None:  # the decision itself, where markers do not wait for it
            marking.put_off(now)
            return []
        marking.retry_at = NEVER

        def then(error: ErrorCode, now: int) -> list[Effect]:
            if error is ErrorCode.none:
                known.marking = None
            else:
                marking.put_off(now)
            return []

        return self._write(known, state.completed(known.transaction, now=now), then=then)

    def _write(
        self,
        known: Known,
        to_write: Transaction,
        *,
        then: Then = lambda error, now: [],
        ticket: Ticket | None = None,
        say: Say = lambda error: error,
    ) -> list[Effect]:
        """It counts when it is in the log; then `ticket` is answered, and what comes of it is begun."""
        known.pending = to_write
        if ticket is not None:
            self._answering[ticket] = say

        def written(error: ErrorCode, position: int, now: int) -> list[Effect]:
            known.pending = None
            if is_in_the_log(error):
                known.transaction, error = to_write, ErrorCode.none
            error = of_the_log(error)
            answers: list[Effect] = []
            if ticket is not None:
                del self._answering[ticket]
                answers.append(Answer(ticket, say(error)))
            return answers + then(error, now)

        record = records.of_transaction(to_write, version=self._settings.transaction_version)
        return [self._writes.begin((record,), written)]


def _new(request: InitProducerId, producer_id: int, now: int) -> Transaction:
    return Transaction(
        transactional_id=request.transactional_id, producer_id=producer_id, timeout_ms=request.timeout_ms, updated=now
    )


def _may_go_on(transaction: Transaction, request: InitProducerId) -> bool:
    """KIP-360: who says which id it had must have the current one, or the one before whose epochs were used up (then it is a retry)."""
    if request.producer_id == NO_PRODUCER_ID or transaction.producer_epoch == NO_PRODUCER_EPOCH:
        return True
    if request.producer_id == transaction.producer_id:
        return True
    return request.producer_id == transaction.last_producer_id and request.producer_epoch >= LAST_USABLE_EPOCH


def _described(transaction: Transaction) -> DescribedTransaction:
    return DescribedTransaction(
        ErrorCode.none,
        transaction.transactional_id,
        transaction.state.spelt,
        transaction.timeout_ms,
        transaction.started if transaction.state is TransactionState.ONGOING else -1,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.partitions,
    )
