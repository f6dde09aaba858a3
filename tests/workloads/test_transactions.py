"""The `transactions` workload against librdkafka's mock coordinator."""

from collections import defaultdict

from confluent_kafka import KafkaError

from tests.workloads.mock_cluster import END_TXN, INIT_PRODUCER_ID, MockCluster
from tests.workloads.recording import Invoked, MemoryRecorder, context
from tests.workloads.running import running
from workloads import clients, transactional
from workloads.membership import Membership
from workloads.op import OpKind, Outcome
from workloads.settings import TransactionSettings
from workloads.transactional import Step, User
from workloads.transactions import TransactionsWorkload, began, reached
from workloads.worker import Counts

TOPICS = {"log": 3}
QUICK = {"producers": 1, "consumers": 0, "poll_timeout_ms": 20, "records": 10, "mixed": 0, "aborts": 0, "zombies": 0}


def transactions(recorder: MemoryRecorder) -> dict[int, list[Invoked]]:
    """Begin -> all ops of it, in the order of their invocation."""
    found = defaultdict(list)
    for op in recorder.ops:
        if op.transaction is not None:
            found[op.transaction].append(op)
    return found


def ended(recorder: MemoryRecorder, kind: OpKind = OpKind.COMMIT, outcome: Outcome = Outcome.OK) -> list[Invoked]:
    return [op for op in recorder.of(kind) if op.outcome is outcome]


def test_a_transaction_is_begun_filled_and_ended_in_this_order(mock: MockCluster):
    mock.create("log", 3)
    recorder = MemoryRecorder()
    settings = QUICK | {"producers": 2, "aborts": 0.3}
    with running(context(mock.bootstrap, recorder, topics=TOPICS, settings=settings, rate=500), TransactionsWorkload):
        recorder.wait_for(lambda history: len(ended(history)) > 20 and len(ended(history, OpKind.ABORT)) > 5)

    assert sorted(op.client for op in recorder.of(OpKind.INIT)) == ["t0-0.w1.1", "t0-1.w1.1"]
    for number, ops in transactions(recorder).items():
        assert (ops[0].op, ops[0].kind) == (number, OpKind.BEGIN)
        assert {op.kind for op in ops[1:-1]} == {OpKind.SEND}
        assert ops[-1].kind in (OpKind.COMMIT, OpKind.ABORT)
        assert len({op.client for op in ops}) == 1
        assert all(op.completed_ns <= ops[-1].invoked_ns for op in ops[:-1]), "commit waits for every record"
        assert 1 <= len(ops) - 2 <= 10
    values = [send.value for send in recorder.sends()]
    assert len(set(values)) == len(values)
    sequences = defaultdict(list)
    for send in recorder.sends():
        sequences[send.client, send.partition].append(send.sequence)
    assert all(numbers == list(range(len(numbers))) for numbers in sequences.values())


def test_what_is_sent_and_aborted_is_drawn_from_the_seed(mock: MockCluster):
    mock.create("log", 3)
    plans = []
    for _ in range(2):
        recorder = MemoryRecorder()
        settings = QUICK | {"aborts": 0.5}
        with running(context(mock.bootstrap, recorder, topics=TOPICS, settings=settings), TransactionsWorkload):
            recorder.wait_for(lambda history: len(ended(history)) > 10)
        ops = list(transactions(recorder).values())[:10]
        plans.append([[(op.kind, op.partition) for op in mine] for mine in ops])
    assert plans[0] == plans[1]


def test_a_zombie_goes_on_until_the_end_of_its_transaction_and_its_heir_takes_the_next_one(mock: MockCluster):
    """The mock does not fence, so that all can be seen; that Kafka does is tested on Kafka."""
    mock.create("log", 3)
    recorder = MemoryRecorder()
    settings = QUICK | {"zombies": 0.2}
    with running(context(mock.bootstrap, recorder, topics=TOPICS, settings=settings, rate=500), TransactionsWorkload):
        recorder.wait_for(lambda history: len(history.of(OpKind.INIT)) > 3)

    first, second, third, *_ = recorder.of(OpKind.INIT)
    assert [op.client for op in (first, second, third)] == ["t0-0.w1.1", "t0-0.w1.2", "t0-0.w1.3"]
    zombie = next(ops for ops in transactions(recorder).values() if ops[0].op < second.op < ops[-1].op)
    assert {op.client for op in zombie} == {first.client}
    assert any(op.kind is OpKind.SEND and op.op > second.op for op in zombie), "it goes on as if nothing had happened"
    assert not [op for op in recorder.ops if op.client == first.client and op.op > zombie[-1].op]
    after = next(ops for begin, ops in transactions(recorder).items() if begin > zombie[-1].op)
    assert after[0].client == second.client


def test_offsets_are_committed_with_what_was_sent(mock: MockCluster):
    mock.create("log", 3)
    mock.quick_groups()
    recorder = MemoryRecorder()
    settings = QUICK | {"mixed": 1, "aborts": 0.2}
    with running(context(mock.bootstrap, recorder, topics=TOPICS, settings=settings, rate=500), TransactionsWorkload):
        recorder.wait_for(lambda history: len(ended(history, OpKind.COMMIT_OFFSETS)) > 10)

    assert any(ops[-1].kind is OpKind.ABORT for ops in transactions(recorder).values())
    read: dict[int, int] = {}
    for op in recorder.ops:
        if op.kind is OpKind.POLL and op.reads:
            read |= {p: o + 1 for p, o in zip(op.reads.partitions, op.reads.offsets, strict=True)}
        if op.kind is OpKind.COMMIT_OFFSETS:
            assert op.positions is not None
            assert op.positions.generation is not None
            assert op.positions.member
            asked = dict(zip(op.positions.partitions, op.positions.offsets, strict=True))
            assert asked.items() <= read.items(), "what was read last, and nothing else"
    for ops in transactions(recorder).values():
        commits = [op for op in ops if op.kind is OpKind.COMMIT_OFFSETS and op.outcome is Outcome.OK]
        assert len(commits) <= (ops[-1].kind is OpKind.COMMIT), "none in a transaction that is to be aborted"


def test_a_commit_that_cannot_be_retried_is_followed_by_an_abort(mock: MockCluster):
    mock.create("log", 3)
    recorder = MemoryRecorder()
    settings = QUICK | {"retry_backoff_ms": 10_000}
    mock.answer(END_TXN, KafkaError.INVALID_TXN_STATE)
    with running(context(mock.bootstrap, recorder, topics=TOPICS, settings=settings, rate=500), TransactionsWorkload):
        recorder.wait_for(lambda history: len(ended(history)) > 3)
    first = next(iter(transactions(recorder).values()))
    commit = next(op for op in first if op.kind is OpKind.COMMIT)
    assert commit.outcome is Outcome.FAIL
    users = {op.client for op in recorder.of(OpKind.INIT)}
    assert first[-1].kind is OpKind.ABORT or len(users) == 2, "aborted, or taken over"


def test_offsets_whose_coordinator_has_gone_end_a_producer_and_not_the_workload(mock: MockCluster, monkeypatch):
    """librdkafka waits for the coordinator longer than it was told to, perhaps for ever: its issue 5456."""
    monkeypatch.setattr(transactional, "CALL_S", 0.5)
    mock.create("log", 1)
    mock.lead("log", 0, 1)
    mock.coordinate("transaction", "t0-0", 1)
    mock.coordinate("group", "krash", 2)
    mock.down(2)
    recorder = MemoryRecorder()
    settings = TransactionSettings(finish_ms=60_000)
    names = {"bootstrap": mock.bootstrap, "client": "t0-0.w1.1", "transactional_id": "t0-0"}
    user = User(recorder, Counts(), settings, **names, patience_s=60)
    member = Membership(
        recorder,
        Counts(),
        client="w1.t0-1",
        group="krash",
        config=clients.consumer_config(mock.bootstrap, "w1.t0-1", settings),
        topics=["log"],
        value_bytes=10,
        settle=lambda records, may_commit: None,
    )
    assert (user.take_over(), user.begin()) == (Step.DONE, Step.DONE)
    user.send([("log", 0)])
    user.flush()
    assert user.send_offsets(member, {("log", 0): 1}) in (Step.BROKEN, Step.ABORT)
    (asked,) = recorder.of(OpKind.COMMIT_OFFSETS)
    assert (asked.outcome, asked.error) == (Outcome.INFO, "_TIMED_OUT")
    user.close()
    member.leave()


def test_an_id_that_no_coordinator_gives_out_is_asked_for_again(mock: MockCluster):
    mock.create("log", 3)
    recorder = MemoryRecorder()
    mock.answer(INIT_PRODUCER_ID, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with running(context(mock.bootstrap, recorder, topics=TOPICS, settings=QUICK, rate=500), TransactionsWorkload):
        recorder.wait_for(lambda history: len(ended(history)) > 3)
    assert [op.client for op in recorder.of(OpKind.INIT)] == ["t0-0.w1.1", "t0-0.w1.2"]
    assert recorder.of(OpKind.INIT)[0].error == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


class Read:
    def __init__(self, partition: int, offset: int) -> None:
        self._partition, self._offset = partition, offset

    def topic(self) -> str:
        return "log"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset


def test_where_reading_began_and_what_it_reached():
    records = [Read(0, 7), Read(1, 3), Read(0, 9)]
    assert began(records) == {("log", 0): 7, ("log", 1): 3}
    assert reached(records) == {("log", 0): 10, ("log", 1): 4}
