"""Each anomaly by its name and nothing else, next to a lawful history that differs by little."""

from __future__ import annotations

import pytest

from harness.checker.models.model import Question
from harness.history.formats.pairing import Paired
from reports.verdict import Validity
from tests.harness.checker.serializability.agreement import model_of, types
from tests.harness.checker.serializability.shorthand import in_turn, one_process, together


def _with_reader(history: Paired) -> Paired:
    """Another process, which reads both all the time."""
    count = len(history.operations)
    reader = together("rx12").operations[0]._replace(index=count, process=7, invoked=1)
    return Paired(operations=[*history.operations, reader])


def _behind_another(history: Paired) -> Paired:
    """Another process, which comes first, and does nothing but write another register."""
    other = together("wa1").operations[0]._replace(process=7)
    return Paired(operations=[other, *(one._replace(index=one.index + 1) for one in history.operations)])


def _lasting(history: Paired, row: int) -> Paired:
    """This one takes longer than all that follow."""
    operations = list(history.operations)
    operations[row] = operations[row]._replace(completed=100)
    return Paired(operations=operations)


LISTS = {
    "G0": (
        together("ax1 ay1", "ax2 ay2", "rx12 ry21"),
        together("ax1 ay1", "ax2 ay2", "rx12 ry12"),
    ),
    "G1a": (
        together("!ax1", "rx1"),
        together("?ax1", "rx1"),
    ),
    "G1b, G-single-item": (
        together("ax1 ax2", "rx1"),
        together("ax1 ax2", "rx12"),
    ),
    "G1c": (
        together("ax1 ry2", "ay2 rx1"),
        together("ax1 ry2", "ay2 rx"),
    ),
    "G-single-item": (
        together("ax1 ay1", "rx1 ry", "ry1"),
        together("ax1 ay1", "rx1 ry1"),
    ),
    "G-nonadjacent-item": (
        together("ax1", "ay1", "rx1 ry", "ry1 rx"),
        together("ax1", "ay1", "rx1 ry", "rx1 ry1"),
    ),
    "G2-item": (
        together("ax1 ry", "ay1 rx", "rx1 ry1"),
        together("ax1 ry", "ay1 rx1", "rx1 ry1"),
    ),
    "G0-process": (
        _with_reader(one_process("ax2", "ax1")),
        one_process("ax1", "ax2", "rx12"),
    ),
    "G1c-process": (
        one_process("rx1", "ax1"),
        one_process("ax1", "rx1"),
    ),
    "G-single-item-process": (
        one_process("ax1", "rx"),
        one_process("rx", "ax1"),
    ),
    "G0-realtime": (
        _with_reader(in_turn("ax2", "ax1")),
        in_turn("ax1", "ax2", "rx12"),
    ),
    "G1c-realtime": (
        in_turn("rx1", "ax1"),
        in_turn("ax1", "rx1"),
    ),
    "G-single-item-realtime": (
        in_turn("ax1", "rx"),
        together("ax1", "rx"),
    ),
    "internal": (
        together("ax1 rx", "rx1"),
        together("ax1 rx1", "rx1"),
    ),
    "future-read": (
        together("rx1 ax1"),
        together("rx ax1"),
    ),
    "incompatible-order": (
        together("ax1", "ax2", "rx12", "rx21"),
        together("ax1", "ax2", "rx12", "rx1"),
    ),
    "incompatible-order ": (  # of x nobody knows which came first, and that of y alone is no cycle
        together("ax1 ay1", "ax2 ay2", "rx12 ry21", "rx21"),
        together("ax1 ay1", "ax2 ay2", "rx12 ry12", "rx1"),
    ),
    "duplicate-elements": (
        together("ax1", "rx11"),
        together("ax1", "ax2", "rx12"),
    ),
    "G1a, dirty-update": (
        together("!ax1", "ax2", "rx12"),
        together("!ax1", "ax2", "rx2"),
    ),
    "G1a, phantom-value": (
        together("!ax1", "rx819", "ay1"),
        together("!ax1", "rx", "ay1"),
    ),
    "G2-item, lost-update": (
        together("rx ax1", "rx ax2"),
        together("ax1", "rx ax2"),
    ),
    "phantom-value": (
        together("rx1"),
        together("rx"),
    ),
}
REGISTERS = {
    "G1a": (
        together("!wx1", "rx1"),
        together("?wx1", "rx1"),
    ),
    "G1b": (
        together("wx1 wx2", "rx1"),
        together("wx1 wx2", "rx2"),
    ),
    "G1c": (
        together("wx1 ry2", "wy2 rx1"),
        together("wx1 ry2", "wy2 rx_"),
    ),
    "G1c, cyclic-versions": (
        together("rx1 wx2", "rx2 wx1"),
        together("rx_ wx1", "rx1 wx2"),
    ),
    "G-single-item": (
        together("wx1 wy1", "rx1 ry_"),
        together("wx1 wy1", "rx1 ry1"),
    ),
    "G-single-item ": (  # it read 1 and then wrote 2
        together("wx1", "rx1 wx2 wy1", "ry1 rx1"),
        together("wx1", "rx1 wx2 wy1", "ry1 rx2"),
    ),
    "G-nonadjacent-item": (
        together("wx1", "wy1", "rx1 ry_", "ry1 rx_"),
        together("wx1", "wy1", "rx1 ry_", "rx1 ry1"),
    ),
    "G2-item": (
        together("wx1 ry_", "wy1 rx_"),
        together("wx1 ry_", "wy1 rx1"),
    ),
    "G1c-process": (
        one_process("rx1", "wx1"),
        one_process("wx1", "rx1"),
    ),
    "G-single-item-process": (
        one_process("wx1", "wx2", "rx1"),
        one_process("wx1", "wx2", "rx2"),
    ),
    "G1c-realtime": (
        in_turn("rx1", "wx1"),
        in_turn("wx1", "rx1"),
    ),
    "G-single-item-process ": (
        _behind_another(one_process("wx1", "wx2", "rx1")),
        _behind_another(one_process("wx1", "wx2", "rx2")),
    ),
    "G-single-item-realtime  ": (
        _lasting(in_turn("wx1", "rx1 ry1", "wx2", "wy1"), 1),
        _lasting(in_turn("wx1", "rx1 ry_", "wx2", "wy1"), 1),
    ),
    "G-single-item-realtime ": (
        in_turn("wx1 wy1", "ry1 wy2", "ry2 wy3", "ry1"),
        in_turn("wx1 wy1", "ry1 wy2", "ry2 wy3", "ry3"),
    ),
    "G-single-item-realtime": (
        in_turn("wx1", "wx2", "rx1"),
        in_turn("wx1", "wx2", "rx2"),
    ),
    "internal": (
        together("wx1 rx2", "wx2"),
        together("wx1 rx1", "wx2"),
    ),
    "future-read": (
        together("rx1 wx1"),
        together("rx_ wx1"),
    ),
    "future-read ": (
        together("rx1 wx2 wx1"),
        together("rx_ wx2 wx1"),
    ),
    "G2-item, lost-update": (
        together("rx_ wx1", "rx_ wx2"),
        together("rx_ wx1", "rx1 wx2"),
    ),
    "phantom-value": (
        together("rx1", "wy2"),
        together("rx_", "wy2"),
    ),
}
CASES = [
    pytest.param(write, name, *pair, id=f"{write}-{name}")
    for write, cases in (("append", LISTS), ("w", REGISTERS))
    for name, pair in cases.items()
]


@pytest.mark.parametrize(("write", "name", "defect", "lawful"), CASES)
def test_an_anomaly_has_its_name_and_its_lawful_neighbour_none(
    write: str, name: str, defect: Paired, lawful: Paired
) -> None:
    found = model_of(write).judge(defect, Question())
    assert types(found) == set(name.strip().split(", "))
    assert found.verdict == (Validity.VALID if name == "phantom-value" else Validity.INVALID)
    assert all(one.sentence and set(one.ops) <= set(range(len(defect.operations))) for one in found.found)
    clean = model_of(write).judge(lawful, Question())
    assert (types(clean), clean.verdict) == (set(), Validity.VALID)


def test_of_an_element_that_several_appended_nobody_knows_who_wrote_it_and_of_others_it_is_known() -> None:
    several = ("ax1 ay1", "ax2 ay2", "?ax9", "?ax9")
    cycle, lawful = (
        model_of("append").judge(together(*several, read), Question()) for read in ("rx129 ry21", "rx129 ry12")
    )
    assert (types(cycle), cycle.verdict) == ({"G0"}, Validity.INVALID)
    assert (types(lawful), lawful.verdict) == (set(), Validity.UNKNOWN)


@pytest.mark.parametrize(("write", "name", "defect", "lawful"), [case for case in CASES if "-process" in str(case.id)])
def test_nobody_knows_in_which_order_the_transactions_of_nobody_came(
    write: str, name: str, defect: Paired, lawful: Paired
) -> None:
    """They are not of one process because none of them says of which it is."""
    for history in (defect, lawful):
        strangers = Paired(operations=[one._replace(process=None) for one in history.operations])
        assert types(model_of(write).judge(strangers, Question())) == set()


def test_a_new_value_after_an_old_one_after_the_new_one() -> None:
    """Two writes at the same time, and reads that change their mind: only who read what when tells the order."""
    history = Paired(
        operations=[
            *together("wx1", "wx2").operations,
            *(
                o._replace(index=o.index + 2, process=9 + o.index, invoked=o.invoked + 10, completed=o.completed + 10)
                for o in in_turn("rx1 ry_", "rx2 ry_", "rx1 ry_").operations
            ),
        ]
    )
    assert types(model_of("w").judge(history, Question())) == {"G-single-item-realtime"}


def test_another_process_sees_a_session_out_of_order() -> None:
    session = one_process("wx1", "wx2 wy1").operations
    other = together("ry1 rx1", "wz9").operations[0]._replace(index=2, process=1, invoked=2)
    judgement = model_of("w").judge(Paired(operations=[*session, other]), Question())
    assert types(judgement) == {"G-single-item-process"}
    (found,) = judgement.found
    assert found.sentence == (
        "T2 read 1 from x and did not see T1's write of 2, T2 saw T1's write of 1 to y: "
        "so T2 would have to come before itself"
    )


def test_a_cycle_is_told_with_a_sentence_per_edge() -> None:
    judgement = model_of("append").judge(together("ax1 ry", "ay2 rx"), Question())
    (found,) = judgement.found
    assert found.sentence == (
        "T0 did not see T1's append of 2 to y, T1 did not see T0's append of 1 to x: "
        "so T0 would have to come before itself"
    )
    assert found.ops == (0, 1)


def test_an_append_that_nobody_read_came_after_what_was_read() -> None:
    judgement = model_of("append").judge(together("ax1", "ax2 ay3", "rx19", "ry3 rx1"), Question())
    sentences = {one.type: one.sentence for one in judgement.found}
    assert sentences["G-single-item"] == (
        "T3 did not see T1's append of 2 to x, T3 saw T1's append of 3 to y: so T3 would have to come before itself"
    )
    judgement = model_of("append").judge(together("ax1 ry3", "ax2 ay3", "rx19"), Question())
    sentences = {one.type: one.sentence for one in judgement.found}
    assert sentences["G1c"] == (
        "T1 appended 2 to x after T0 appended 1, T0 saw T1's append of 3 to y: so T0 would have to come before itself"
    )


def test_a_shortest_cycle_is_told_although_time_has_longer_ones() -> None:
    judgement = model_of("append").judge(in_turn("ax1", "ay1", "az1", "ry1 rz1", "rx"), Question())
    (found,) = judgement.found
    assert found.ops in ((4, 0), (0, 4))
    assert "T0 was over before T4 began" in found.sentence


def test_of_unknown_outcomes_counts_what_was_seen() -> None:
    seen = in_turn("?ax1 ay1", "rx1 ry")
    unseen = in_turn("?ax1 ay1", "rx ry")
    assert types(model_of("append").judge(seen, Question())) == {"G-single-item"}
    assert types(model_of("append").judge(unseen, Question())) == set()


def test_many_that_appended_unread_and_read_before_are_linear() -> None:
    texts = [f"rx ax{i}" for i in range(1, 60)]
    judgement = model_of("append").judge(together(*texts, *["rx"] * 50), Question())
    assert {one.type: one.count for one in judgement.found} == {"lost-update": 1, "G2-item": 1}


def test_many_that_read_one_version_and_then_wrote_are_linear() -> None:
    judgement = model_of("w").judge(together("wx0", *[f"rx0 wx{i}" for i in range(1, 60)]), Question())
    assert {one.type: one.count for one in judgement.found} == {"lost-update": 1, "G2-item": 1}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("texts", "name", "length"),
    [
        (("aa1 rc3", "ab2 ra1 rc3", "ac3 rb2"), "G1c", 2),
        (("ax1 ab2", "rb2 ac3", "rx ry rc3 rf6", "ay1 ad4", "rd4 ae5", "re5 af6"), "G-single-item", 3),
    ],
)
def test_the_shortest_cycle_is_told(texts: tuple[str, ...], name: str, length: int, turned: bool) -> None:
    (found,) = model_of("append").judge(together(*(texts[::-1] if turned else texts)), Question()).found
    assert (found.type, len(found.ops)) == (name, length)


@pytest.mark.parametrize("first", ["ax1 ay1", "?ax1 ay1"])
def test_who_may_have_been_aborted_contradicts_read_committed_and_nothing_weaker(first: str) -> None:
    """Adya: read-uncommitted allows to read what is aborted later; then these two never met."""
    history = together(first, "ax2 ay2", "rx12 ry21")
    sure = not first.startswith("?")
    assert types(model_of("append").judge(history, Question())) == {"G0" if sure else "G1c"}
    for level, verdict in (("read-uncommitted", not sure), ("read-committed", False)):
        judged = model_of("append").judge(history, Question(consistency=(level,)))
        assert (judged.verdict == Validity.VALID) == verdict
