"""Two producers with one transactional id, their coordinator and its failovers, and the partitions that hear of outcomes: driven by bytes.

Every record belongs to one transaction; what becomes of it its partition's markers say. In the end everything heals, and then a transaction
is whole: committed everywhere or nowhere, and as its producer was told.

    TransactionWorld(random.Random(7).randbytes(300), Protections()).run()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.effects import SendMarkers
from nodes.reference.coordinator.groups.requests import TopicPartition
from nodes.reference.coordinator.transactions.requests import Producer
from nodes.reference.protections import Protections
from tests.nodes.reference.coordinator.group_world import Violation
from tests.nodes.reference.coordinator.transaction_stage import TransactionStage

PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))


@dataclass
class Transaction:
    """committed: what its producer was told; None: nothing."""

    name: str
    outcomes: dict[tuple[TopicPartition, int], bool | None] = field(default_factory=dict)  # by record
    committed: bool | None = None


@dataclass
class Partition:
    """As a leader sees producers: the newest epoch of each, and of coordinators; and records that wait for a marker."""

    epoch: int = -1
    coordinator_epoch: int = -1
    open: list[tuple[Transaction, int]] = field(default_factory=list)


@dataclass
class Client:
    name: str
    producer: Producer | None = None
    transaction: Transaction | None = None
    added: set[TopicPartition] = field(default_factory=set)
    ending: bool | None = None
    asked: tuple[str, int] | None = None  # what for, and the ticket
    partition: TopicPartition = PARTITIONS[0]


class TransactionWorld:
    def __init__(self, script: bytes, protections: Protections) -> None:
        self._bytes = iter(script)
        self.stage = TransactionStage(protections=protections, writes=False, marks=False)
        self.clients = [Client("a"), Client("b")]
        self.partitions = {partition: Partition() for partition in PARTITIONS}
        self.transactions: list[Transaction] = []
        self.newest_epoch = -1  # that a producer was told
        self.records = 0

    def choose(self, below: int) -> int:
        return next(self._bytes, 0) % below

    def run(self) -> None:
        actions = [self.step] * 24 + [self.write] * 10 + [self.mark] * 4 + [self.pass_time] * 3 + [self.fail_over]
        actions += [self.lose_marker] * 2 + [self.replace, self.refuse] + [self.lose_both] * 2
        while (byte := next(self._bytes, None)) is not None:
            actions[byte % len(actions)]()
            self.look()
        self.heal()

    # What happens

    def step(self) -> None:
        """A producer does what comes next for it: it adds a partition, writes to it, and in the end commits or aborts."""
        client = self.clients[0 if self.choose(4) else 1]
        if client.asked is not None:
            return
        if client.producer is None:
            client.asked = "init", self.stage.initializing()
        elif client.ending is not None:
            client.asked = "end", self.stage.ending(client.producer, commit=client.ending)
        elif client.transaction is not None and len(client.added) > 1 and not self.choose(3):
            client.ending = bool(self.choose(3))
        else:
            client.partition = PARTITIONS[self.choose(len(PARTITIONS))]
            if client.partition in client.added:
                self.produce(client)
            else:
                client.asked = "add", self.stage.adding(client.producer, client.partition)

    def produce(self, client: Client) -> None:
        assert client.producer is not None
        assert client.transaction is not None
        partition = self.partitions[client.partition]
        if client.producer.producer_epoch < partition.epoch:
            client.producer = None  # fenced
            self.forget(client)
            return
        partition.epoch = client.producer.producer_epoch
        self.records += 1
        partition.open.append((client.transaction, self.records))
        client.transaction.outcomes[client.partition, self.records] = None

    def forget(self, client: Client) -> None:
        client.transaction, client.ending = None, None
        client.added.clear()

    def write(self) -> None:
        self.stage.write()

    def refuse(self) -> None:
        self.stage.write(ErrorCode.not_enough_replicas)

    def replace(self) -> None:
        """A producer starts anew, in the middle of whatever it did."""
        number = self.choose(2)
        self.clients[number] = Client(self.clients[number].name)

    def pass_time(self) -> None:
        self.stage.pass_ms((50, 100, 1_000, 30_000, 60_000)[self.choose(5)])

    def fail_over(self) -> None:
        """Some of what was on its way into the log has arrived there, without anybody having been told."""
        for write in self.stage.waiting[: self.choose(2)]:
            self.stage.ledger.append(write)
        self.stage.fail_over()

    def lose_both(self) -> None:
        """The coordinator dies while it sends markers, and a producer with it: nobody asks again for what was on its way."""
        self.lose_marker()
        self.replace()
        self.fail_over()

    def mark(self) -> None:
        if self.stage.markers:
            sent = self.stage.markers.pop(self.choose(len(self.stage.markers)))
            results = {
                TopicPartition(*partition): self.end(sent, TopicPartition(*partition)) for partition in sent.partitions
            }
            self.stage.take(self.stage.coordinator.marked(sent, results, self.stage.now))

    def lose_marker(self) -> None:
        """To one of the partitions; or the answer is lost."""
        if self.stage.markers:
            sent = self.stage.markers.pop(0)
            results = dict.fromkeys((TopicPartition(*each) for each in sent.partitions), ErrorCode.network_exception)
            for partition in sorted(results)[: self.choose(3)]:
                error = self.end(sent, partition)
                results[partition] = error if self.choose(2) else ErrorCode.network_exception
            self.stage.take(self.stage.coordinator.marked(sent, results, self.stage.now))

    def end(self, sent: SendMarkers, where: TopicPartition) -> ErrorCode:
        partition = self.partitions[where]
        if sent.coordinator_epoch < partition.coordinator_epoch:
            return ErrorCode.transaction_coordinator_fenced
        if sent.producer_epoch < partition.epoch:
            return ErrorCode.invalid_producer_epoch
        partition.epoch, partition.coordinator_epoch = sent.producer_epoch, sent.coordinator_epoch
        for transaction, record in partition.open:
            transaction.outcomes[where, record] = sent.commit
        partition.open.clear()
        return ErrorCode.none

    # What producers are told

    def look(self) -> None:
        for client in self.clients:
            if client.asked is None or client.asked[1] not in self.stage.answers:
                continue
            what, ticket = client.asked
            client.asked = None
            {"init": self._initialized, "add": self._added, "end": self._ended}[what](
                client, self.stage.answers[ticket]
            )

    def _initialized(self, client: Client, said: Any) -> None:
        if said.error is ErrorCode.none:
            self.forget(client)
            client.producer = Producer(
                transactional_id="x", producer_id=said.producer_id, producer_epoch=said.producer_epoch
            )
            if said.producer_epoch <= self.newest_epoch:
                raise Violation(f"epoch {said.producer_epoch} is given after {self.newest_epoch}")
            self.newest_epoch = said.producer_epoch

    def _added(self, client: Client, error: ErrorCode) -> None:
        if error is ErrorCode.none:
            if client.transaction is None:
                client.transaction = Transaction(f"{client.name}{len(self.transactions)}")
                self.transactions.append(client.transaction)
            client.added.add(client.partition)
            self.produce(client)
        elif not _again(error):
            client.producer = None
            self.forget(client)

    def _ended(self, client: Client, error: ErrorCode) -> None:
        if _again(error):
            return
        if error is ErrorCode.none:
            assert client.producer is not None
            assert client.transaction is not None
            client.transaction.committed = client.ending
        else:
            client.producer = None
        self.forget(client)

    # The end

    def heal(self) -> None:
        """Nothing is lost any more, and a last producer comes: everything that was open is ended."""
        for _ in range(30):
            self.stage.pass_ms(60_000)
            self.write()
            while self.stage.markers:
                self.mark()
            self.look()
        for transaction in self.transactions:
            outcomes = set(transaction.outcomes.values())
            if len(outcomes) > 1:
                raise Violation(f"{transaction} is torn")
            if outcomes and transaction.committed is not None and outcomes != {transaction.committed}:
                raise Violation(f"{transaction} is not what its producer was told")
            if outcomes == {None}:
                raise Violation(f"{transaction} hangs")


def _again(error: ErrorCode) -> bool:
    return error in (
        ErrorCode.concurrent_transactions,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
    )
