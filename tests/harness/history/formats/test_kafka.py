"""jepsen.tests.kafka as our rows: offsets, values, transactions, and what does not fit named with its place."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.formats.event import event_of
from harness.history.formats.kafka import PART_BITS, KafkaTables, is_kafka, kafka_tables
from harness.history.formats.pairing import Paired, pair
from harness.history.formats.reading import history_reader
from workloads.op import OPS, RECORDS


def paired(edn: str) -> Paired:
    reader = history_reader()
    entries = [*reader.feed(edn), *reader.close()]
    return pair(event_of(entry, number) for number, entry in enumerate(entries))


def tables(edn: str) -> KafkaTables:
    found = paired(edn)
    assert found.problems == []
    return kafka_tables(found.operations, run="r")


def columns(table: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


SEND = """{:process 0 :type :invoke :f :send :value [[:send 7 1]] :time 10}
          {:process 0 :type :ok     :f :send :value [[:send 7 [0 1]]] :time 20}"""
TRANSACTION = """
    {:index 0 :process 0 :type :invoke :f :txn :value [[:send 7 1] [:poll] [:send 8 1]]}
    {:index 1 :process 1 :type :invoke :f :poll :value [[:poll]]}
    {:index 2 :process 0 :type %s :f :txn :value [[:send 7 [40 1]] [:poll {8 [[3 5] [4 nil]] 9 []}] [:send 8 %s]]}
    {:index 3 :process 1 :type :ok :f :poll :value [[:poll {7 [[40 1]]}]] :rebalance-log [{:keys [7 8]} {:keys [7]}]}"""


def test_a_send_outside_a_transaction() -> None:
    found = tables(SEND)
    assert found.problems == []
    assert columns(found.ops, "op", "kind", "invoked_ns", "completed_ns", "outcome", "transaction") == [
        (1, "send", 10, 20, "ok", None)
    ]
    assert columns(found.records, "op", "topic", "partition", "offset", "value", "sequence", "transaction") == [
        (1, "7", 0, 0, "7/1", 0, None)
    ]
    assert found.ops.schema.equals(OPS)
    assert found.records.schema.equals(RECORDS)


def test_a_committed_transaction() -> None:
    found = tables(TRANSACTION % (":ok", "1"))
    base = 0 << PART_BITS
    assert columns(found.ops, "op", "kind", "outcome", "transaction")[:5] == [
        (base, "begin", "ok", base),
        (base | 1, "send", "ok", base),
        (base | 2, "poll", "ok", base),
        (base | 3, "send", "ok", base),
        (base | 4, "commit", "ok", base),
    ]
    assert columns(found.records, "op", "kind", "topic", "offset", "value", "position") == [
        (1, "send", "7", 40, "7/1", 0),
        (2, "poll", "8", 3, "8/5", 0),
        (2, "poll", "8", 4, None, 1),
        (3, "send", "8", None, "8/1", 0),
        (1 << PART_BITS | 1, "poll", "7", 40, "7/1", 0),
    ]
    assert columns(found.rebalances, "op", "process", "topic") == [
        (1 << PART_BITS | 1, 1, "7"),
        (1 << PART_BITS | 1, 1, "8"),
    ]


@pytest.mark.parametrize(
    ("kind", "sends", "end"),
    [
        (":fail", ["ok", "fail"], ("abort", "ok")),
        (":info", ["ok", "info"], ("commit", "info")),
    ],
)
def test_a_transaction_that_did_not_commit(kind: str, sends: list[str], end: tuple[str, str]) -> None:
    found = tables(TRANSACTION % (kind, "1"))
    rows = [row for row in found.ops.to_pylist() if row["process"] == 0]
    assert [row["outcome"] for row in rows if row["kind"] == "send"] == sends
    assert (rows[-1]["kind"], rows[-1]["outcome"]) == end
    assert (rows[-1]["completed_ns"] is None) == (kind == ":info")


def test_a_send_that_never_completed() -> None:
    found = tables("{:process 0 :type :invoke :f :send :value [[:send 7 1]]}")
    assert columns(found.records, "offset", "outcome", "completed_ns") == [(None, "info", None)]


def test_assign_subscribe_crash_and_the_final_read() -> None:
    found = tables("""
        {:process 0 :type :invoke :f :subscribe :value [7 8]} {:process 0 :type :ok :f :subscribe :value [7 8]}
        {:process 0 :type :invoke :f :crash} {:process 0 :type :info :f :crash}
        {:process 5 :type :invoke :f :debug-topic-partitions :value [7]} {:process 5 :type :ok :f :debug-topic-partitions :value {}}
        {:process 5 :type :invoke :f :assign :value [7] :seek-to-beginning? true} {:process 5 :type :ok :f :assign :value [7]}
        {:process 5 :type :invoke :f :poll :value [[:poll]]} {:process 5 :type :ok :f :poll :value [[:poll {}]]}""")
    assert columns(found.ops, "process", "kind", "phase", "count") == [
        (0, "subscribe", "main", 2),
        (5, "assign", "final", 1),
        (5, "poll", "final", 0),
    ]
    assert columns(found.assignments, "process", "topic") == [(0, "7"), (0, "8")], "kept positions"


def test_times_that_run_backwards_are_not_used() -> None:
    found = tables(SEND.replace(":time 20", ":time 9"))
    assert columns(found.ops, "invoked_ns", "completed_ns") == [(0, 1)]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("[[:send 7 [-1 1]]]", "-1 is no offset"),
        ("[[:send 7 [9223372036854775808 1]]]", "is no offset"),
        ("[[:send 7 [1.5 1]]]", "is no offset"),
        ("[[:send 7 [1 2 3]]]", "expected [offset value]"),
        ("[[:send [7] 1]]", "no key"),
        ("[[:poll {7 [[nil 1]]}]]", "is no offset"),
        ("[[:poll {7 [5]}]]", "expected [offset value]"),
        ("[[:poll {7 5}]]", "expected [[offset value]]"),
        ("[[:poll 7]]", "expected a map"),
        ("[[:append 7 1]]", "neither"),
        ("17", "micro-ops"),
    ],
)
def test_what_no_log_can_have_is_a_problem_and_no_row(value: str, says: str) -> None:
    found = tables(
        SEND + "{:process 0 :type :invoke :f :send :value nil} {:process 0 :type :ok :f :send :value " + value + "}"
    )
    (problem,) = found.problems
    assert says in problem.sentence
    assert (problem.index, problem.place) == (2, "entry 4")
    assert found.ops.num_rows == found.records.num_rows == 1


def test_what_looks_like_kafka() -> None:
    assert is_kafka(paired(SEND).operations)
    assert is_kafka(paired(TRANSACTION % (":ok", "1")).operations)
    assert is_kafka(paired("{:process 0 :type :invoke :f :txn :value [[:poll]]}").operations)
    assert not is_kafka(paired("{:process 0 :type :invoke :f :txn :value []}").operations)
    assert not is_kafka(paired("{:process 0 :type :invoke :f :txn :value [[:append 1 2]]}").operations)
    assert not is_kafka(paired("{:process 0 :type :invoke :f :read}").operations)
