"""A client that speaks the protocol itself, out of a client node's network: what no library sends, recorded like the rest.

    r = await on.raw("r")
    await r.produce("b1", "t", 0, 5, acks=1)                       # to a named broker, leader or not: Produced(error=...)
    w = await r.begin_transaction("tx-1")                          # InitProducerId, at its coordinator
    await r.add_partitions(w, [("t", 0)])
    await r.produce("b1", "t", 0, 5, transaction=w)
    await r.end_transaction(w, commit=True, version=5)             # EndTxn in a version of one's own choice
    await r.fetch("b1", "t", 0, 0)                                 # Fetched(high_watermark=..., last_stable_offset=..., records=...)

It never retries, so a refusal surely left nothing behind. Each (broker, `connection`) is a connection of its own: a held
request blocks only what is sent behind it on the same one.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from nemesis.races.books import StepBook
from nodes.protocol import logs, transactions
from nodes.protocol.connection import Connection, Unreachable
from nodes.protocol.logs import Fetched, Writer
from nodes.protocol.transactions import Ended
from workloads.op import OpKind, Outcome, Phase
from workloads.outcomes import outcome_of_send
from workloads.workload import Reads, Recorder

BACKOFF_S = 1.0  # only so that the table of outcomes knows that there was one attempt
ANSWER_S = 10.0
TAKEN = "NONE"


@dataclass
class RawTransaction:
    """A transactional producer as raw requests need it, and what it has open."""

    writer: Writer
    coordinator: str
    op: int | None = None  # of the begin of the transaction that is open
    process: int = 0
    ending: bool = False  # an EndTxn is on its way
    sequences: Counter[tuple[str, int]] | None = None


class RawClient:
    """`open_to(broker)` connects out of the client node's network; `coordinator_of(id)` names a broker."""

    def __init__(
        self,
        name: str,
        *,
        client: str,
        recorder: Recorder,
        steps: StepBook,
        open_to: Callable[[str], Awaitable[Connection]],
        coordinator_of: Callable[[str], Awaitable[str]],
    ) -> None:
        self.client_id = f"{client}.{name}"
        self._node, self._recorder, self._steps = client, recorder, steps
        self._open_to, self._coordinator_of = open_to, coordinator_of
        self._connections: dict[tuple[str, str], Connection] = {}
        self._sequences: Counter[tuple[str, int]] = Counter()
        self._numbers = itertools.count()

    async def connection(self, broker: str, name: str = "") -> Connection:
        """The connection of this name to a broker; made anew where it broke."""
        key = (broker, name)
        known = self._connections.get(key)
        if known is None or known.closed:
            self._connections[key] = known = await self._open_to(broker)
        return known

    async def produce(
        self,
        broker: str,
        topic: str,
        partition: int,
        count: int,
        *,
        acks: int = -1,
        transaction: RawTransaction | None = None,
        version: int = 9,
        connection: str = "",
        within: float = ANSWER_S,
    ) -> logs.Produced:
        """One batch to a named broker. within: seconds that the broker may wait for followers."""
        text = f"{self.client_id} sends {count} records of {topic}-{partition} to {broker} (acks={acks})"
        async with self._steps.step("produce", text, (self._node, broker)) as now:
            link = await self.connection(broker, connection)
            first = self._sequences[topic, partition]
            self._sequences[topic, partition] += count
            processes = [self._recorder.new_process() for _ in range(count)]
            values = [f"{topic}/{partition}/{p}/{first + n}" for n, p in enumerate(processes)]
            ops = self._recorder.invoke_sends(
                client=self.client_id,
                phase=Phase.MAIN,
                topics=[topic] * count,
                partitions=[partition] * count,
                processes=processes,
                sequences=range(first, first + count),
                values=values,
                transaction=transaction.op if transaction else None,
            )
            base = -1
            if transaction is not None:
                sent = transaction.sequences = transaction.sequences or Counter()
                base = sent[topic, partition]
                sent[topic, partition] += count
            try:
                told = await logs.produce(
                    link,
                    topic,
                    partition,
                    [value.encode() for value in values],
                    acks=acks,
                    writer=transaction.writer if transaction else None,
                    base_sequence=base,
                    version=version,
                    timeout=within,
                )
            except Unreachable as silent:
                told = logs.Produced(error="_TRANSPORT", base_offset=-1, message=str(silent))
            if (
                told.error not in (TAKEN, "_TRANSPORT")
                and transaction is not None
                and sent[topic, partition] == base + count
            ):
                sent[topic, partition] = base  # it left nothing behind: the next batch takes its place
            self._produced(ops, told, acks)
            now.seen = f"{told.error}, base offset {told.base_offset}" if told.error == TAKEN else told.error
            return told

    def _produced(self, ops: range, told: logs.Produced, acks: int) -> None:
        error = None if told.error == TAKEN else told.error
        outcome = outcome_of_send(
            error, latency_s=0.0, retry_backoff_s=BACKOFF_S, acks="all" if acks == -1 else str(acks)
        )
        offsets = [told.base_offset + n if error is None else None for n in range(len(ops))]
        self._recorder.complete_sends(
            ops=ops,
            outcomes=[outcome] * len(ops),
            errors=[error] * len(ops),
            offsets=offsets,
            timestamps_ms=[None] * len(ops),
        )

    async def fetch(
        self,
        broker: str,
        topic: str,
        partition: int,
        offset: int = 0,
        *,
        committed: bool = False,
        connection: str = "",
    ) -> Fetched:
        """One Fetch from a named broker, recorded as a poll of a reader of its own. Control records are left out of the record."""
        text = f"{self.client_id} fetches {topic}-{partition} from offset {offset} of {broker}"
        async with self._steps.step("fetch", text, (self._node, broker)) as now:
            link = await self.connection(broker, connection)
            process, reader = self._recorder.new_process(), f"{self.client_id}.f{next(self._numbers)}"
            op = self._recorder.invoke(
                client=reader,
                kind=OpKind.POLL,
                phase=Phase.MAIN,
                process=process,
                topic=topic,
                partition=partition,
            )
            told = await logs.fetch(link, topic, partition, offset, committed=committed, timeout=ANSWER_S)
            failed = told.error != TAKEN
            self._recorder.complete(
                op,
                Outcome.FAIL if failed else Outcome.OK,
                error=told.error if failed else None,
                reads=_reads(topic, partition, told),
            )
            now.seen = (
                told.error
                if failed
                else f"{len(told.records)} records, high watermark {told.high_watermark}, stable to {told.last_stable_offset}"
            )
            return told

    async def begin_transaction(
        self, transactional_id: str, *, transaction_timeout: float = 60.0, connection: str = ""
    ) -> RawTransaction:
        """InitProducerId at the coordinator, and a transaction begun with it."""
        text = f"{self.client_id} gets a producer id for {transactional_id!r}"
        async with self._steps.step("begin", text, (self._node,)) as now:
            coordinator = await self._coordinator_of(transactional_id)
            link = await self.connection(coordinator, connection)
            writer = await transactions.begin(
                link, transactional_id, transaction_timeout=transaction_timeout, timeout=ANSWER_S
            )
            now.seen = f"producer {writer.producer_id}, epoch {writer.epoch}, coordinated by {coordinator}"
            made = RawTransaction(writer, coordinator, process=self._recorder.new_process())
            self._begin(made)
            return made

    def next_transaction(self, transaction: RawTransaction) -> RawTransaction:
        """The next transaction of the same producer, epoch and sequences included."""
        self._begin(transaction)
        return transaction

    def _begin(self, transaction: RawTransaction) -> None:
        op = self._recorder.invoke(
            client=self.client_id, kind=OpKind.BEGIN, phase=Phase.MAIN, process=transaction.process
        )
        self._recorder.complete(op, Outcome.OK)
        transaction.op = op

    async def add_partitions(
        self, transaction: RawTransaction, partitions: Sequence[tuple[str, int]], *, connection: str = ""
    ) -> str:
        """AddPartitionsToTxn: "NONE", "CONCURRENT_TRANSACTIONS" (ask again), ..."""
        names = ", ".join(f"{topic}-{number}" for topic, number in partitions)
        async with self._steps.step("add", f"{self.client_id} adds {names} to its transaction", (self._node,)) as now:
            link = await self.connection(transaction.coordinator, connection)
            now.seen = await transactions.add_partitions(link, transaction.writer, partitions, timeout=ANSWER_S)
            return now.seen

    async def end_transaction(
        self, transaction: RawTransaction, *, commit: bool, version: int = 3, connection: str = ""
    ) -> Ended:
        """EndTxn; `transaction` goes on with what the coordinator answered (version 5 bumps the epoch).

        May be sent again, on another `connection`, while the first waits for its answer: the first answer counts.
        """
        verb, begun = "commit" if commit else "abort", transaction.op
        text = f"{self.client_id} {verb}s its transaction (EndTxn v{version})"
        async with self._steps.step(verb, text, (self._node, transaction.coordinator)) as now:
            link = await self.connection(transaction.coordinator, connection)
            if transaction.ending:
                transaction.process = self._recorder.new_process()
            transaction.ending = True
            op = self._recorder.invoke(
                client=self.client_id,
                kind=OpKind.COMMIT if commit else OpKind.ABORT,
                phase=Phase.MAIN,
                process=transaction.process,
                transaction=begun,
            )
            try:
                ended = await transactions.end(
                    link, transaction.writer, commit=commit, version=version, timeout=ANSWER_S
                )
            except Unreachable:
                ended = Ended(error="_TRANSPORT", writer=transaction.writer)
            done = ended.error == TAKEN
            self._recorder.complete(op, Outcome.OK if done else Outcome.INFO, error=None if done else ended.error)
            now.seen = ended.error
            if transaction.op != begun:
                return ended
            transaction.ending = False
            if not done:
                transaction.process = self._recorder.new_process()
            if ended.writer.epoch != transaction.writer.epoch:
                transaction.sequences = Counter()
            transaction.writer, transaction.op = replace(ended.writer), None
            return ended

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def _reads(topic: str, partition: int, told: Fetched) -> Reads | None:
    records = [record for record in told.records if not record.control]
    if not records:
        return None
    return Reads(
        topics=[topic] * len(records),
        partitions=[partition] * len(records),
        offsets=[record.offset for record in records],
        values=[None if record.value is None else record.value.decode() for record in records],
        leader_epochs=[None] * len(records),
        timestamps_ms=[None] * len(records),
    )
