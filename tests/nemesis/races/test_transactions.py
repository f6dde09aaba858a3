"""Races about transactions: what they state beforehand, and what their clients write down of a transaction that goes wrong."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from nemesis.races import scripted_producer
from nemesis.races.books import StepBook
from nemesis.races.conditions import elapsed
from nemesis.races.expectation import expected
from nemesis.races.hanging_transaction import VERIFICATION, hanging_transaction
from nemesis.races.late_end_txn import late_end_txn
from nemesis.races.race import Given, Race
from nemesis.races.raw import RawClient, RawTransaction
from nemesis.races.read_then_vanished import read_then_vanished
from nemesis.races.scripted_producer import ScriptedProducer
from nemesis.races.stage import Stage
from nodes.protocol import logs, transactions
from nodes.protocol.logs import Produced, Writer
from nodes.protocol.transactions import Ended
from nodes.topology import Topology
from tests.nemesis.races.fakes import perform
from workloads.op import Outcome
from workloads.settings import Settings

RACES = (late_end_txn, hanging_transaction, read_then_vanished)


@pytest.mark.parametrize(
    ("race", "version", "settings", "outcome"),
    [
        (late_end_txn, "3.4.1", {}, "torn-transaction"),
        (late_end_txn, "4.4.0", {}, "torn-transaction"),
        (late_end_txn, "4.3.1", {"variant": "no-gate"}, "torn-transaction"),
        (late_end_txn, "3.4.1", {"variant": "one-partition"}, "torn-transaction"),
        (late_end_txn, "3.9.2", {"variant": "one-partition"}, "client-error"),
        (late_end_txn, "4.3.1", {"variant": "bumped-epochs"}, "valid"),
        (late_end_txn, "3.9.2", {"variant": "bumped-epochs"}, None),
        (late_end_txn, "3.4.1", {"variant": "nothing-held"}, "valid"),
        (hanging_transaction, "3.4.1", {}, "hanging-transaction"),
        (hanging_transaction, "3.4.1", {"variant": "no-gate"}, "aborted-read"),
        (hanging_transaction, "3.9.2", {}, "valid"),
        (hanging_transaction, "4.3.1", {"variant": "librdkafka"}, "valid"),
        (hanging_transaction, "4.3.1", {"verification": False}, "hanging-transaction"),
        (hanging_transaction, "4.3.1", {"variant": "aborted-read", "verification": False}, "aborted-read"),
        (hanging_transaction, "4.3.1", {"variant": "after-add"}, "aborted-read"),
        (hanging_transaction, "3.4.1", {"variant": "nothing-held"}, "valid"),
        (read_then_vanished, "3.6.2", {}, "read-then-vanished"),
        (read_then_vanished, "3.6.2", {"variant": "empty-disk"}, "read-then-vanished"),
        (read_then_vanished, "3.9.2", {"variant": "empty-disk"}, "lost-write"),
        (read_then_vanished, "4.3.1", {"variant": "no-gate"}, "valid"),
        (read_then_vanished, "3.4.1", {"variant": "nothing-held"}, "valid"),
    ],
)
def test_a_race_states_beforehand_what_it_will_show(
    race: Race, version: str, settings: dict[str, Any], outcome: str | None
) -> None:
    parameters = race.settle(settings).model_dump()
    line = expected(race.expects, version=version, metadata_version=None, parameters=parameters)
    assert (line.outcome if line else None) == outcome


def topology_of(race: Race, **settings: Any) -> Topology:
    parameters = race.settle(settings)
    return race.cluster(Given(system="kafka", version="4.3.1", metadata_version=None, parameters=parameters))


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.name)
def test_variants_without_a_gate_say_so_and_every_variant_has_a_cluster(race: Race) -> None:
    without = [name for name in race.variants if not race.gate(race.settle({"variant": name}))]
    assert without == ["no-gate", "nothing-held"]
    assert all(len(topology_of(race, variant=name).nodes) in (2, 3) for name in race.variants)


def test_verification_is_left_to_the_brokers_unless_it_is_turned_off() -> None:
    configs = [
        topology_of(hanging_transaction, verification=on).nodes[1].config.get(VERIFICATION) for on in (True, False)
    ]
    assert configs == [None, "false"]


def test_without_a_gate_the_leaders_log_shows_that_the_late_batch_arrived() -> None:
    debug = {name: topology_of(hanging_transaction, variant=name).debug for name in ("hang", "no-gate")}
    assert debug == {"hang": (), "no-gate": ("kafka.request.logger",)}


def test_a_length_of_time_is_counted_from_where_it_was_written_down() -> None:
    seen = []

    async def script(on: Stage) -> None:
        long_enough = elapsed(4)
        seen.append(await on.whether(long_enough, within=1))
        await on.until(long_enough)
        seen.append(await on.whether(long_enough, within=0))

    told = perform(script)
    assert told.raised is None
    assert seen == [False, True]


class Ops:
    """A recorder that keeps (kind, process, transaction) of what was invoked, and how it ended."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int, int | None]] = []
        self.ended: dict[int, tuple[Outcome, str | None]] = {}
        self.processes = 0

    def now_ns(self) -> int:
        return 0

    def new_process(self) -> int:
        self.processes += 1
        return self.processes

    def invoke(self, *, kind: Any, process: int, transaction: int | None = None, **_: Any) -> int:
        self.begun.append((str(kind), process, transaction))
        return len(self.begun) - 1

    def invoke_sends(self, *, processes: Any, transaction: int | None = None, **_: Any) -> range:
        first = len(self.begun)
        self.begun += [("send", process, transaction) for process in processes]
        return range(first, len(self.begun))

    def complete(self, op: int, outcome: Outcome, *, error: str | None = None, **_: Any) -> None:
        self.ended[op] = (outcome, error)

    def complete_sends(self, *, ops: Any, outcomes: Any, errors: Any, **_: Any) -> None:
        self.ended |= {op: told for op, *told in zip(ops, outcomes, errors, strict=True)}  # type: ignore[misc]


class Refuses:
    """A librdkafka producer whose commits fail and whose aborts succeed."""

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def poll(self, seconds: float) -> int:
        return 0

    def begin_transaction(self) -> None: ...
    def abort_transaction(self, within: float) -> None: ...
    def commit_transaction(self, within: float) -> None:
        raise KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE))


def test_an_abort_after_a_commit_that_failed_ends_the_same_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripted_producer, "Producer", Refuses)
    monkeypatch.setattr(scripted_producer.clients, "close", lambda producer: None)
    ops = Ops()
    producer = ScriptedProducer("w1.x", "b1:9092", Settings(), ops, transactional_id="tx")  # type: ignore[arg-type]
    producer.begin()
    assert producer.end(True, 1.0) == "INVALID_TXN_STATE"
    assert producer.end(False, 1.0) is None
    producer.begin()
    producer.close()
    assert [(kind, transaction) for kind, _, transaction in ops.begun] == [
        ("begin", None),
        ("commit", 0),
        ("abort", 0),
        ("begin", None),
    ]
    assert ops.begun[1][1] != ops.begun[2][1]  # nobody knows what became of the first: its process is never used again


def raw_client(ops: Ops) -> RawClient:
    async def open_to(broker: str) -> Any:
        return SimpleNamespace(closed=False)

    async def coordinator_of(id: str) -> str:
        return "b1"

    steps = StepBook(run="test", clock="local", record=lambda row: None, now_ns=lambda: 0)
    return RawClient(
        "x",
        client="w1",
        recorder=ops,
        steps=steps,
        open_to=open_to,
        coordinator_of=coordinator_of,  # type: ignore[arg-type]
    )


def test_of_two_ends_of_one_transaction_the_first_answer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ops, asked, late = Ops(), asyncio.Event(), asyncio.Event()
    old, new = (Writer(producer_id=7, epoch=epoch, transactional_id="tx") for epoch in (0, 1))

    async def end(link: Any, writer: Writer, **_: Any) -> Ended:
        if not asked.is_set():
            asked.set()
            await late.wait()
            return Ended(error="PRODUCER_FENCED", writer=writer)
        return Ended(error="NONE", writer=new)

    monkeypatch.setattr(transactions, "end", end)

    async def script() -> RawTransaction:
        raw, mine = raw_client(ops), RawTransaction(old, "b1", process=ops.new_process())
        raw.next_transaction(mine)
        first = asyncio.create_task(raw.end_transaction(mine, commit=False, version=5))
        await asked.wait()
        await raw.end_transaction(mine, commit=False, version=5, connection="again")
        raw.next_transaction(mine)
        late.set()
        await first
        return mine

    mine = asyncio.run(script())
    assert (mine.writer, mine.op) == (new, 3)
    assert [kind for kind, *_ in ops.begun] == ["begin", "abort", "abort", "begin"]
    assert ops.begun[1][1] != ops.begun[2][1]
    assert ops.ended[1] == (Outcome.INFO, "PRODUCER_FENCED")
    assert ops.ended[2] == (Outcome.OK, None)


def test_a_refused_batch_leaves_its_sequence_numbers_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    bases = []

    async def produce(*_: Any, base_sequence: int, **__: Any) -> Produced:
        bases.append(base_sequence)
        refused = len(bases) == 2
        return Produced(error="INVALID_TXN_STATE" if refused else "NONE", base_offset=0, message=None)

    monkeypatch.setattr(logs, "produce", produce)

    async def script() -> None:
        raw, mine = raw_client(Ops()), RawTransaction(Writer(producer_id=7, epoch=0, transactional_id="tx"), "b1")
        for _ in range(3):
            await raw.produce("b1", "t", 0, 5, transaction=mine)

    asyncio.run(script())
    assert bases == [0, 5, 5]
