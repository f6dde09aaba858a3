"""Invocations and completions find each other; what cannot be is told with its place; order is what the history says."""

from __future__ import annotations

from typing import Any

from harness.history.formats.event import Event, event_of
from harness.history.formats.pairing import Paired, ProblemKind, pair
from workloads.op import Outcome


def history(*entries: dict[str, Any]) -> list[Event]:
    return [event_of(entry, number) for number, entry in enumerate(entries)]


def op(process: Any, kind: str, f: str = "write", value: Any = None, **more: Any) -> dict[str, Any]:
    return {"process": process, "type": kind, "f": f, "value": value, **more}


def paired(*entries: dict[str, Any], **options: Any) -> Paired:
    return pair(history(*entries), **options)


def precedes(result: Paired, a: int, b: int) -> bool:
    completed = result.operations[a].completed
    return completed is not None and completed < result.operations[b].invoked


def test_each_completion_finds_its_invocation() -> None:
    found = paired(op(0, "invoke", value=1), op(1, "invoke", "read"), op(0, "ok", value=1), op(1, "ok", "read", 1))
    write, read = found.operations
    assert (write.value, write.result, write.invoked, write.completed) == (1, 1, 0, 2)
    assert (read.value, read.result, read.invoked, read.completed, read.outcome) == (None, 1, 1, 3, Outcome.OK)
    assert found.problems == []


def test_unknown_outcomes_stay_open() -> None:
    found = paired(
        op(0, "invoke", value=1), op(1, "invoke", value=2), op(0, "info", error="timeout"), op(2, "invoke", value=3)
    )
    assert [(o.completed, o.outcome, o.error) for o in found.operations] == [
        (None, Outcome.INFO, "timeout"),
        (None, Outcome.INFO, None),
        (None, Outcome.INFO, None),
    ]


def test_a_timed_out_value_is_an_error_and_no_value() -> None:
    found = paired(op(0, "invoke", "read"), op(0, "fail", "read", "timed-out"))
    assert (found.operations[0].result, found.operations[0].error) == (None, "timed-out")


def test_a_value_timed_out_that_was_really_read_stays() -> None:
    assert paired(op(0, "invoke", "read"), op(0, "ok", "read", "timed-out")).operations[0].result == "timed-out"


def test_equal_times_mean_concurrent() -> None:
    entries = [(0, "invoke", 1), (0, "ok", 5), (1, "invoke", 5), (1, "ok", 9)]
    tied = paired(*(op(process, kind, time=time) for process, kind, time in entries))
    apart = paired(*(op(process, kind, time=time + number) for number, (process, kind, time) in enumerate(entries)))
    assert not precedes(tied, 0, 1)
    assert precedes(apart, 0, 1)


def test_a_clock_that_stands_still_orders_nothing_away() -> None:
    entries = [op(0, "invoke", time=-1), op(0, "ok", time=-1), op(1, "invoke", time=-1), op(1, "ok", time=-1)]
    assert precedes(paired(*entries), 0, 1)


def test_times_that_run_backwards_do_not_change_the_order() -> None:
    entries = [op(0, "invoke", time=10), op(0, "ok", time=30), op(1, "invoke", time=20), op(1, "ok", time=40)]
    assert precedes(paired(*entries), 0, 1)


def test_indices_that_each_process_counts_for_itself_are_no_order_and_no_problem() -> None:
    """As elle-cli's rwregister-fail.edn has them."""
    entries = [
        op(p, kind, index=index) for index, kind in ((1, "invoke"), (2, "ok"), (3, "invoke"), (4, "ok")) for p in (0, 1)
    ]
    found = paired(*entries)
    assert found.problems == []
    assert [operation.index for operation in found.operations] == [0, 1, 4, 5]
    assert not precedes(found, 0, 1)
    assert precedes(found, 1, 2)


def test_the_index_is_the_order() -> None:
    entries = [op(0, "ok", index=1), op(1, "ok", index=3), op(1, "invoke", index=2), op(0, "invoke", index=0)]
    found = paired(*entries)
    assert found.problems == []
    assert precedes(found, 0, 1)


def test_a_duplicate_index_is_told() -> None:
    (problem,) = paired(op(0, "invoke", index=3), op(1, "invoke", index=3)).problems
    assert (problem.kind, problem.index) == (ProblemKind.DUPLICATE_INDEX, 3)
    assert "entry 1 (index 3) and at entry 2 (index 3)" in problem.sentence


def test_an_index_per_op_is_no_duplicate_and_no_order() -> None:
    entries = [op(0, "invoke", index=5), op(1, "invoke", index=4), op(0, "ok", index=5), op(1, "ok", index=4)]
    found = paired(*entries)
    assert found.problems == []
    assert [(o.index, o.invoked, o.completed) for o in found.operations] == [(5, 0, 2), (4, 1, 3)]


def test_a_completion_without_invocation_is_told() -> None:
    found = paired(op(0, "invoke"), op(0, "ok"), op(0, "ok"))
    assert [(p.kind, p.index) for p in found.problems] == [(ProblemKind.COMPLETION_WITHOUT_INVOCATION, 2)]
    assert len(found.operations) == 1


def test_overlapping_ops_of_one_process_are_told() -> None:
    found = paired(op(0, "invoke", value=1), op(0, "invoke", value=2), op(0, "ok", value=2))
    assert [(p.kind, p.index) for p in found.problems] == [(ProblemKind.OVERLAP, 1)]
    assert [o.outcome for o in found.operations] == [Outcome.INFO, Outcome.OK]


def test_a_process_that_goes_on_after_an_unknown_outcome_is_no_problem() -> None:
    assert paired(op(0, "invoke"), op(0, "info"), op(0, "invoke"), op(0, "ok")).problems == []


def test_a_completion_of_another_op_is_told() -> None:
    found = paired(op(0, "invoke", "write"), op(0, "ok", "read", 3))
    assert [p.kind for p in found.problems] == [ProblemKind.MISMATCH]
    assert [(o.outcome, o.result) for o in found.operations] == [(Outcome.INFO, None)]


def test_the_nemesis_is_kept_apart() -> None:
    found = paired(op("nemesis", "info", "kill"), op(0, "invoke"), op("nemesis", "info", "kill"), op(0, "ok"))
    assert found.problems == []
    assert [event.f for event in found.nemesis] == ["kill", "kill"]
    assert [o.process for o in found.operations] == [0]


def test_ops_without_a_process_find_each_other_by_value() -> None:
    found = paired(
        op(None, "invoke", "read"), op(None, "invoke", value=1), op(None, "ok", value=1), op(None, "ok", "read", 5)
    )
    assert found.problems == []
    assert [(o.result, o.completed) for o in found.operations] == [(5, 3), (1, 2)]


def test_ops_without_a_process_that_nothing_tells_apart() -> None:
    found = paired(op(None, "invoke", "read"), op(None, "invoke", "read"), op(None, "ok", "read", 5))
    assert [p.kind for p in found.problems] == [ProblemKind.AMBIGUOUS]


def test_completions_only_are_ordered_within_a_process_and_not_between() -> None:
    found = paired(op(0, "ok", value=1), op(1, "ok", value=2), op(0, "ok", value=3), op(1, "info", value=4))
    assert precedes(found, 0, 2)
    assert precedes(found, 1, 3)
    assert not precedes(found, 0, 1)
    assert [o.outcome for o in found.operations] == [Outcome.OK, Outcome.OK, Outcome.OK, Outcome.INFO]
    assert found.problems == []


def test_independent_keys_are_taken_apart() -> None:
    found = paired(
        op(0, "invoke", "cas", (7, (1, 2))), op(0, "fail", "cas", (7, (1, 2))),
        op(0, "invoke", "read", (7, None)), op(0, "ok", "read", (7, 1)),
    )  # fmt: skip
    assert found.independent
    assert [(o.key, o.value, o.result) for o in found.operations] == [(7, (1, 2), (1, 2)), (7, None, 1)]


def test_a_cas_register_has_no_independent_keys() -> None:
    found = paired(
        op(0, "invoke", "cas", (1, 2)), op(0, "ok", "cas", (1, 2)), op(0, "invoke", "read"), op(0, "ok", "read", 2)
    )
    assert not found.independent
    assert found.operations[0].value == (1, 2)


def test_a_read_that_finds_a_plain_vector_did_not_ask_for_a_key() -> None:
    """So is a published history of a set: elements look like [0 7], and the read finds [0 1 2 ... 7]."""
    found = paired(
        op(0, "invoke", "add", (0, 7)),
        op(0, "ok", "add", (0, 7)),
        op(0, "invoke", "read", (0, None)),
        op(0, "ok", "read", (0, 7, 8)),
    )
    assert not found.independent
    assert [operation.value for operation in found.operations] == [(0, 7), (0, None)]
