"""The `transactions` workload: producers append in transactions, some of which read and commit offsets too, some are aborted, and some
producers are fenced in the middle by another that takes their transactional id over.

A transaction is all or nothing: its records are to be read, and its offsets to count, if and only if it was committed. So the workload
does all that could tear one: it aborts on purpose (`aborts`), it reads as a member of a group and commits the offsets in the
transaction (`mixed`, read-process-write as of KIP-98 and KIP-447), and it makes zombies (`zombies`): with a transaction open, a
second producer calls init_transactions for the same id. The first one goes on as if nothing had happened. The coordinator has
aborted its transaction, so its next send, commit of offsets or commit must fail, and the history has that failure with its reason.
A killed client comes back with the same ids, which ends what it had left open; a paused one is a zombie when it wakes.

Names: producer n of client node i has the transactional id "t<i>-<n>" for the whole run. Its users, one after the other, are the clients
"t0-1.w1.1", "t0-1.w1.2", ...: the id is what comes before the first dot. An op `init` says when one took over: once it is ok,
every client of that id before it is fenced.

The ops of a transaction are in op.py; sends, reads and the final read are as in `log`, with `isolation: read_committed` by default.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar, cast

from confluent_kafka import Message

from workloads import clients
from workloads.drain import drain_partitions
from workloads.generators import Pace, PartitionChoices
from workloads.groups import note_committed
from workloads.membership import Membership, Place
from workloads.poller import Poller
from workloads.settings import TransactionSettings
from workloads.transactional import Step, User
from workloads.worker import Actor, Counts, run_actors
from workloads.workload import ClientContext

AGAIN_S = 0.2  # before the id is taken over again
OF_1000 = 1000  # shares are decided by a draw of 0 .. 999


class TransactionsWorkload:
    name: ClassVar[str] = "transactions"
    Settings: ClassVar[type[TransactionSettings]] = TransactionSettings

    def run(self, context: ClientContext) -> None:
        """Transactions and reads until `context.stop`; each producer ends the transaction that it is in."""
        settings = TransactionSettings.model_validate(dict(context.settings))
        actors: list[Actor] = [Transactor(context, settings, index) for index in range(settings.producers)]
        actors += [Poller(context, settings, index) for index in range(settings.consumers)]
        run_actors(actors, context.stop, context.progress)
        context.recorder.flush()

    def drain(self, context: ClientContext, deadline_s: float) -> None:
        """The final read of this client's share; the first client also asks the group what it has committed."""
        settings = TransactionSettings.model_validate(dict(context.settings))
        drain_partitions(context, settings, deadline_s)
        if context.index == 0 and settings.mixed:
            note_committed(context, settings, settings.group)
        context.recorder.flush()


class Transactor:
    """A transactional id and its users; a member of the group, too, if it is one of the mixed ones."""

    def __init__(self, context: ClientContext, settings: TransactionSettings, index: int) -> None:
        self.client = f"{context.client}.t{index}"
        self.counts = Counts()
        self._context, self._settings = context, settings
        self._id = f"t{context.index}-{index}"
        self._users = 0
        number = context.index * settings.producers + index
        self._is_mixed = int((number + 1) * settings.mixed) > int(number * settings.mixed)
        self._places = [(topic.name, part) for topic in context.topics for part in range(topic.partitions)]
        stream = context.stream
        self._targets = PartitionChoices(stream(self.client, 0), len(self._places))
        self._sizes = PartitionChoices(stream(self.client, 1), settings.records)
        self._aborts = PartitionChoices(stream(self.client, 2), OF_1000)
        self._zombies = PartitionChoices(stream(self.client, 3), OF_1000)

    def run(self) -> None:
        rate = self._context.rate
        pace = Pace(rate and rate / (self._context.clients * self._settings.producers), time.monotonic())
        membership = self._join() if self._is_mixed else None
        user: User | None = None
        try:
            while not self._context.stop.is_set():
                user = user or self._next_user()
                if user is None:
                    self._context.stop.wait(AGAIN_S)
                    continue
                size = self._sizes.take(1)[0] + 1
                if pace.due(time.monotonic(), size) < size:
                    self._context.stop.wait(max(0.001, pace.wait_s(time.monotonic())))
                    continue
                pace.sent(size)
                user = self._transact(user, size, membership)
        finally:
            if user is not None:
                user.close()
            if membership is not None:
                membership.leave()

    def _transact(self, user: User, size: int, membership: Membership | None) -> User | None:
        """One transaction from its begin to its end. Who has the id then; None: nobody, or nobody can say."""
        if user.begin() is not Step.DONE:
            user.close()
            return None
        records = self._read(membership)
        half = size // 2 if size > 1 else size
        user.send(self._to(half))
        heir = self._next_user() if self._draw(self._zombies, self._settings.zombies) else None
        if heir is not None:
            user.fenced = True  # and does not know
        user.send(self._to(size - half))
        step = self._end(user, membership, records)
        if heir is not None or step is Step.BROKEN:
            user.close()
            return heir
        return user

    def _end(self, user: User, membership: Membership | None, records: Sequence[Message]) -> Step:
        """Offsets, then commit or abort; what was read counts only if it was committed."""
        user.flush()
        positions, starts = reached(records), began(records)
        wanted = not self._draw(self._aborts, self._settings.aborts)
        step = Step.DONE if wanted else Step.ABORT
        if wanted and membership is not None and positions:
            step = user.send_offsets(membership, positions)
        if step is Step.DONE:
            step = user.commit()
            if step is Step.DONE:
                return step
            if step is Step.ABORT and user.abort() is not Step.DONE:
                step = Step.BROKEN
            aborted = False  # or committed: who knows
        else:
            if step is Step.ABORT and user.abort() is not Step.DONE:
                step = Step.BROKEN
            aborted = step is Step.ABORT
        if membership is not None and positions:
            if aborted:
                membership.go_back(starts)
            else:
                membership.lose(positions)
        return step

    def _next_user(self) -> User | None:
        """Another producer takes the id over; None when no coordinator lets it."""
        self._users += 1
        user = User(
            self._context.recorder,
            self.counts,
            self._settings,
            bootstrap=self._context.bootstrap,
            client=f"{self._id}.{self._context.client}.{self._users}",
            transactional_id=self._id,
            patience_s=self._settings.finish_ms / 1000,
        )
        if user.take_over() is Step.DONE:
            return user
        user.close()
        return None

    def _join(self) -> Membership:
        client = f"{self.client}-1"
        config = {
            **clients.consumer_config(self._context.bootstrap, client, self._settings),
            "partition.assignment.strategy": "range",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",  # also of offsets: those of an open transaction are waited for
        }
        return Membership(
            self._context.recorder,
            self.counts,
            client=client,
            group=self._settings.group,
            config=config,
            topics=[topic.name for topic in self._context.topics],
            value_bytes=self._settings.value_bytes,
            settle=lambda records, may_commit: None,  # what a rebalance interrupts is not committed, and read again
        )

    def _read(self, membership: Membership | None) -> list[Message]:
        if membership is None:
            return []
        return membership.poll(self._settings.poll_records, self._settings.poll_timeout_ms / 1000)

    def _to(self, count: int) -> list[Place]:
        return [self._places[choice] for choice in self._targets.take(count)]

    def _draw(self, choices: PartitionChoices, share: float) -> bool:
        return choices.take(1)[0] < share * OF_1000


def reached(records: Sequence[Message]) -> dict[Place, int]:
    """The next offset to read of each partition that these records, in the order in which they were read, are of."""
    return {_place(record): cast(int, record.offset()) + 1 for record in records}


def began(records: Sequence[Message]) -> dict[Place, int]:
    """The first offset of each."""
    return {_place(record): cast(int, record.offset()) for record in reversed(records)}


def _place(record: Message) -> Place:
    return cast(str, record.topic()), cast(int, record.partition())
