"""Foreign histories of jepsen.tests.kafka: each rule of its catalogue with a history that breaks it, and a lawful neighbour.

A history is a list of ops, each one (process, type, f, value); the invocation is made up from the completion.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.checker.models.model import Judgement
from harness.history.formats.event import event_of
from harness.history.formats.pairing import Paired, pair
from harness.history.formats.reading import history_reader

Make = Callable[[], str]
DEFECTS: dict[str, tuple[Make, dict[str, int]]] = {}
FINE: dict[str, tuple[Make, dict[str, int]]] = {}


def defect(**expected: int) -> Callable[[Make], Make]:
    """Anomaly type (underscores for hyphens) -> how many violations."""

    def register(make: Make) -> Make:
        DEFECTS[make.__name__] = (make, {name.replace("_", "-"): count for name, count in expected.items()})
        return make

    return register


def fine(**information: int) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        FINE[make.__name__] = (make, {name.replace("_", "-"): count for name, count in information.items()})
        return make

    return register


@dataclass
class Written:
    text: str = ""
    time: int = 0

    def op(
        self, process: int, f: str, value: str, *, type: str = "ok", invoked: str | None = None, more: str = ""
    ) -> None:
        asked = value if invoked is None else invoked
        self.text += f"{{:process {process} :type :invoke :f :{f} :value {asked} :time {self.time} {more}}}\n"
        self.text += f"{{:process {process} :type :{type} :f :{f} :value {value} :time {self.time + 5} {more}}}\n"
        self.time += 10

    def send(self, process: int, offset: int | None, value: int, *, key: int = 7, type: str = "ok") -> None:
        told = f"[{offset} {value}]" if offset is not None else str(value)
        self.op(process, "send", f"[[:send {key} {told}]]", type=type)

    def poll(self, process: int, *pairs: tuple[int, int], key: int = 7, type: str = "ok", more: str = "") -> None:
        told = " ".join(f"[{offset} {value}]" for offset, value in pairs)
        self.op(process, "poll", f"[[:poll {{{key} [{told}]}}]]", type=type, more=more)

    def txn(self, process: int, value: str, *, type: str = "ok", more: str = "") -> None:
        self.op(process, "txn", f"[{value}]", type=type, more=more)

    def assign(self, process: int, keys: str = "[7]", *, f: str = "assign", more: str = "") -> None:
        self.op(process, f, keys, more=more)


def log(count: int = 6, *, time: int = 0) -> Written:
    """So many records of key 7, value i at offset i, sent by process 0 and read by process 1."""
    history = Written(time=time)
    for i in range(count):
        history.send(0, i, i)
    history.assign(1)
    history.poll(1, *[(i, i) for i in range(count)])
    return history


def poll_of(process: int, *pairs: tuple[int, int]) -> str:
    history = Written(time=1000)
    history.poll(process, *pairs)
    return history.text


# --- identity


@defect(inconsistent_offset=1)
def two_values_at_one_offset() -> str:
    history = Written()
    history.send(9, None, 99, type="info")
    return history.text + log(time=100).text + poll_of(2, (3, 99))


@defect(duplicate=1)
def one_value_at_two_offsets() -> str:
    history = log()
    history.poll(2, (5, 5), (6, 3))
    return history.text


@defect(phantom_value=1)
def a_value_that_nobody_sent() -> str:
    history = log()
    history.poll(2, (6, 1000))
    return history.text


@defect(aborted_read=1)
def a_failed_send_is_read() -> str:
    history = log()
    history.send(0, None, 6, type="fail")
    history.poll(1, (6, 6))
    return history.text


@defect(aborted_read=1)
def an_aborted_transaction_is_read() -> str:
    history = log()
    history.txn(0, "[:send 7 [6 6]]", type="fail")
    history.poll(1, (6, 6))
    return history.text


@defect(precommitted_read=1)
def a_transaction_reads_itself() -> str:
    history = log()
    history.txn(0, "[:send 7 [6 6]] [:poll {7 [[6 6]]}]")
    history.poll(1, (6, 6))
    return history.text


@defect(precommitted_read=1)
def a_transaction_reads_itself_and_fails() -> str:
    history = log()
    history.txn(0, "[:send 7 [6 6]] [:poll {7 [[6 6]]}]", type="fail")
    return history.text


# --- loss


@defect(lost_write=1)
def a_record_that_all_pass_over() -> str:
    history = log()
    history.send(0, 6, 6)
    history.send(0, 7, 7)
    history.poll(1, (7, 7))
    return history.text


@defect(lost_write=1, torn_transaction=1)
def a_transaction_of_unknown_outcome_of_which_one_record_was_read() -> str:
    history = log()
    history.txn(0, "[:send 7 [6 6]] [:send 7 [7 7]]", type="info")
    history.poll(1, (7, 7))
    return history.text


@fine()
def a_transaction_of_unknown_outcome_that_nobody_read() -> str:
    history = log()
    history.txn(0, "[:send 7 [6 6]] [:send 7 [7 7]]", type="info")
    history.send(2, 9, 9)
    history.poll(1, (9, 9))
    return history.text


@defect(unseen=1)
def a_record_above_all_reads() -> str:
    history = log()
    history.send(0, 6, 6)
    return history.text


@defect(unseen=1)
def a_record_without_an_offset_that_nobody_read() -> str:
    history = log()
    history.send(0, None, 6)
    return history.text


@defect(unseen=1)
def a_log_that_nobody_read() -> str:
    history = log()
    history.send(0, 0, 1, key=8)
    return history.text


@defect(lost_write=1)
def a_truncated_tail() -> str:
    history = log()
    history.send(0, 6, 6)
    history.assign(2, more=":seek-to-beginning? true")
    history.poll(2, *[(i, i) for i in range(6)])
    history.op(2, "poll", "[[:poll {}]]")
    return history.text


@fine()
def a_key_first_polled_by_the_last_op() -> str:
    history = log()
    history.send(0, None, 5, key=9, type="info")
    history.poll(1, (0, 5), key=9)
    return history.text


# --- polls


@defect(int_poll_skip=1)
def a_poll_passes_over_records() -> str:
    history = log()
    history.poll(2, (1, 1), (4, 4))
    return history.text


@defect(int_poll_skip=1)
def a_transaction_passes_over_records() -> str:
    history = log()
    history.txn(2, "[:poll {7 [[1 1]]}] [:poll {7 [[4 4]]}]")
    return history.text


@defect(int_poll_skip=1)
def a_poll_that_fails_passes_over_records() -> str:
    history = log()
    history.poll(2, (1, 1), (4, 4), type="fail")
    return history.text


@fine()
def a_rebalance_in_the_middle_of_a_poll() -> str:
    history = log()
    history.poll(2, (1, 1), (4, 4), (2, 2), more=":rebalance-log [{:keys [7]}]")
    return history.text


@fine()
def gaps_that_are_no_records() -> str:
    """Markers of transactions: nobody ever saw a record at offsets 1 and 3."""
    history = Written()
    for offset in (0, 2, 4):
        history.send(0, offset, offset)
    history.poll(1, (0, 0), (2, 2))
    history.poll(1, (4, 4))
    return history.text


@defect(int_nonmonotonic_poll=1)
def a_poll_goes_back() -> str:
    history = log()
    history.poll(2, (2, 2), (1, 1))
    return history.text


@defect(int_nonmonotonic_poll=1)
def a_poll_stays() -> str:
    history = log()
    history.poll(2, (2, 2), (2, 2), type="info")
    return history.text


@defect(poll_skip=1)
def a_process_passes_over_records() -> str:
    history = log()
    history.poll(2, (1, 1))
    history.poll(2, (4, 4))
    return history.text


@defect(nonmonotonic_poll=1)
def a_process_goes_back() -> str:
    history = log()
    history.poll(2, (2, 2))
    history.poll(2, (2, 2))
    return history.text


@defect(nonmonotonic_poll=1)
def a_failed_poll_is_checked_against_where_its_process_stood() -> str:
    history = log()
    history.poll(2, (2, 2))
    history.poll(2, (1, 1), type="fail")
    history.poll(2, (3, 3))
    return history.text


@fine()
def a_failed_poll_is_read_again() -> str:
    history = log()
    history.poll(2, (2, 2))
    history.poll(2, (3, 3), (4, 4), type="fail")
    history.poll(2, (3, 3))
    history.txn(2, "[:poll {7 [[4 4]]}]", type="info")
    history.poll(2, (4, 4))
    return history.text


@defect(nonmonotonic_poll=1)
def an_assign_keeps_the_positions_of_its_keys() -> str:
    history = log()
    history.poll(2, (2, 2))
    history.assign(2, "[7 8]")
    history.poll(2, (1, 1))
    return history.text


@fine()
def an_assign_forgets_the_others() -> str:
    history = log()
    history.poll(2, (2, 2))
    history.assign(2, "[8]")
    history.assign(2, "[7 8]")
    history.poll(2, (1, 1))
    return history.text


@fine()
def an_assign_from_the_beginning() -> str:
    history = log()
    history.poll(2, (2, 2))
    history.assign(2, "[7]", more=":seek-to-beginning? true")
    history.poll(2, (0, 0))
    return history.text


@fine(nonmonotonic_poll=1)
def a_subscriber_may_be_moved_by_its_group() -> str:
    history = log()
    history.assign(2, "[7]", f="subscribe")
    history.poll(2, (2, 2))
    history.poll(2, (1, 1))
    return history.text


# --- sends


def sent(*ops: str, type: str = "ok") -> str:
    """Records of values 0.. at the offsets told by the ops, each read."""
    history = Written()
    places: list[tuple[int, int]] = []
    for op in ops:
        parts = []
        for offset in map(int, op.split()):
            parts.append(f"[:send 7 [{offset} {len(places)}]]")
            places.append((offset, len(places)))
        history.txn(0, " ".join(parts), type=type)
    if type == "ok":
        history.poll(1, *sorted(places))
    return history.text


@defect(nonmonotonic_send=1, nonlinearizable_log=1)
def a_later_transaction_stands_before() -> str:
    return sent("0 2", "1")


@defect(int_nonmonotonic_send=1)
def a_later_record_of_a_transaction_stands_before() -> str:
    return sent("2 1")


@defect(int_nonmonotonic_send=1)
def a_later_record_of_an_aborted_transaction_stands_before() -> str:
    return sent("2 1", type="fail")


@fine(int_send_skip=1)
def others_send_between() -> str:
    history = Written()
    history.send(1, 1, 0)
    history.txn(0, "[:send 7 [0 1]] [:send 7 [2 2]]", type="ok")
    history.text = interleaved(history.text)
    history.poll(1, (0, 1), (1, 0), (2, 2))
    return history.text


def interleaved(text: str) -> str:
    """Two ops of a text at the same time."""
    one, one_done, other, other_done = text.splitlines()
    begin, end = ":time 0", ":time 15"
    return "\n".join((one, other.replace(":time 10", begin), one_done.replace(":time 5", end), other_done, ""))


# --- cycles


def together(one: str, other: str, *, then: Callable[[Written], None] = lambda history: None) -> str:
    """Two transactions at one time, and what is done after them."""
    history = Written()
    history.txn(0, one)
    history.txn(1, other)
    history.text = interleaved(history.text)
    then(history)
    return history.text


@defect(G1c=1)
def two_transactions_read_each_other() -> str:
    return together("[:send 7 [0 0]] [:poll {8 [[0 0]]}]", "[:send 8 [0 0]] [:poll {7 [[0 0]]}]")


@fine()
def one_transaction_reads_the_other() -> str:
    def read(history: Written) -> None:
        history.poll(2, (0, 0))

    return together("[:send 7 [0 0]] [:poll {8 [[0 0]]}]", "[:send 8 [0 0]] [:poll {}]", then=read)


@defect(G1c_realtime=1)
def a_cycle_by_real_time() -> str:
    """T2 read T1, T3 read T2, and T3 was over before T1 began."""
    history = Written()
    history.txn(2, "[:send 9 [0 0]] [:poll {8 [[0 0]]}]")
    history.txn(1, "[:send 8 [0 0]] [:poll {7 [[0 0]]}]")
    history.txn(0, "[:send 7 [0 0]] [:poll {}]")
    third, third_done, second, second_done, first, first_done = history.text.splitlines()
    history.text = "\n".join(
        (second.replace(":time 10", ":time 0"), third, third_done, first, first_done, second_done.replace(":time 15", ":time 30"), "")
    )  # fmt: skip
    history.time = 100
    history.poll(5, (0, 0), key=9)
    return history.text


@fine(G0=1)
def transactions_write_between_each_other() -> str:
    def read(history: Written) -> None:
        history.poll(2, (0, 0), (1, 1))
        history.poll(2, (0, 0), (1, 1), key=8)
        history.txn(3, "[:poll {7 [[0 0] [1 1]]}] [:poll {8 [[0 0]]}]")

    return together("[:send 7 [0 0]] [:send 8 [1 1]]", "[:send 8 [0 0]] [:send 7 [1 1]]", then=read)


@fine(G1c=1)
def a_cycle_that_needs_the_order_of_a_log() -> str:
    """T2 read T1 and wrote before it in another log: allowed, since writes are not isolated."""

    def read(history: Written) -> None:
        history.poll(2, (0, 0), (1, 1), key=8)

    return together("[:send 7 [0 0]] [:send 8 [1 1]]", "[:send 8 [0 0]] [:poll {7 [[0 0]]}]", then=read)


@fine(**{"G-single-item": 1})
def a_cycle_that_needs_what_was_not_read() -> str:
    """T2 read T1's record of one log, and stopped before its record of another."""

    def read(history: Written) -> None:
        history.poll(2, (0, 0), (1, 1), key=8)

    history = Written()
    history.send(3, 0, 0, key=8)
    before = history.text
    both = "[:send 7 [0 0]] [:send 8 [1 1]]", "[:poll {7 [[0 0]]}] [:poll {8 [[0 0]]}]"
    return before + later(together(*both, then=read), 100)


def later(text: str, by: int) -> str:
    return re.sub(r":time (\d+)", lambda found: f":time {int(found[1]) + by}", text)


def paired(edn: str) -> Paired:
    reader = history_reader()
    return pair(event_of(entry, number) for number, entry in enumerate([*reader.feed(edn), *reader.close()]))


@pytest.fixture(scope="module")
def judgements(spark: Any) -> dict[str, Judgement]:
    from harness.checker.foreign_kafka import judge_foreign

    stories = {name: make for name, (make, _) in (DEFECTS | FINE).items()} | {
        "clean": lambda: log().text,
        "empty": lambda: "",
        "broken": lambda: log().text + "{:process 3 :type :ok :f :poll :value [[:poll {}]]}",
        "odd": lambda: log().text + "{:process 3 :type :invoke :f :dance :value 1}",
    }
    return judge_foreign(spark, {name: paired(make()) for name, make in stories.items()})


@pytest.mark.spark
@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_gives_exactly_its_anomaly(name: str, judgements: dict[str, Judgement]) -> None:
    judgement = judgements[name]
    found = {one.type: one.count for one in judgement.found if one.violation}
    assert found == DEFECTS[name][1], [one.sentence for one in judgement.found]
    assert judgement.verdict == "invalid"
    for one in judgement.found:
        assert "?" not in one.sentence, "a hole in the sentence"
        assert one.ops


@pytest.mark.spark
@pytest.mark.parametrize("name", ["clean", *FINE])
def test_its_lawful_neighbour_gives_none(name: str, judgements: dict[str, Judgement]) -> None:
    judgement = judgements[name]
    assert [one.sentence for one in judgement.found if one.violation] == []
    assert judgement.verdict == "valid", judgement.reason
    assert {one.type: one.count for one in judgement.found} == (FINE[name][1] if name in FINE else {})


@pytest.mark.spark
def test_nothing_to_judge_and_what_no_client_could_have_recorded(judgements: dict[str, Judgement]) -> None:
    assert (judgements["empty"].verdict, judgements["empty"].reason) == (
        "unknown",
        "nothing was acknowledged and nothing was read",
    )
    for name, says in (("broken", "line 15"), ("odd", "no op of jepsen.tests.kafka")):
        (found,) = judgements[name].found
        assert (judgements[name].verdict, found.type) == ("unknown", "bad-history")
        assert says in found.sentence or name == "broken"


def test_rows_travel() -> None:
    from harness.checker.foreign_kafka import Rows, rows, unpacked

    made = rows(paired(two_transactions_read_each_other()), "h7")
    assert isinstance(made, Rows)
    assert unpacked("h7", made.packed()) == made


@pytest.mark.spark
def test_files_of_many_kinds_are_judged_together(spark: Any, tmp_path: Path) -> None:
    from harness.checker.foreign import Request, judge_histories

    files = {
        "clean.edn": log().text,
        "skipped.edn": a_process_passes_over_records(),
        "register.edn": "{:process 0 :type :invoke :f :write :value 1}\n{:process 0 :type :ok :f :write :value 1}\n",
        "bad.edn": log().text + "{:process 3 :type :invoke :f :send :value 1}\n",
        "broken.edn": "{:process",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = [tmp_path / name for name in files]
    answers = dict(zip(files, judge_histories(spark, paths, Request()), strict=True))
    assert {name: (one["model"], one["verdict"]) for name, one in answers.items() if name != "bad.edn"} == {
        "clean.edn": ("kafka", "valid"),
        "skipped.edn": ("kafka", "invalid"),
        "register.edn": ("register", "valid"),
        "broken.edn": (None, "error"),
    }
    (found,) = answers["skipped.edn"]["anomalies"]
    assert (found["type"], found["count"], len(found["ops"])) == ("poll-skip", 1, 2)
    assert found["ops"][0].startswith("18: process 2 poll")
    (named,) = judge_histories(spark, [tmp_path / "bad.edn"], Request(model="kafka"))
    assert (named["verdict"], named["anomalies"][0]["type"]) == ("unknown", "bad-history")
