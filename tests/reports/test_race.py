# ruff: noqa: E501  (made-up rows read best one to a line)
"""The story of a race on its page: what happened in order, in words and as a picture, from tables of any size and shape."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from nemesis.races.step import STEPS
from nemesis.wire.message import MESSAGES
from nodes.event import EVENTS, Event, EventKind
from nodes.metadata_row import METADATA
from reports.evidence import Evidence, gather
from reports.exchange import MESSAGE_LIMIT, QUOTE_LIMIT, Claim, patterns
from reports.page import render, system
from reports.race_view import around
from reports.sequence import ROW_LIMIT, sequence, spoken
from reports.story import story
from reports.verdict import AnomalySummary, Counts, Verdict
from tests.reports import synthetic, synthetic_race
from tests.reports.synthetic import Run, rows_of, write
from tests.reports.synthetic_race import ns


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return synthetic_race.race(tmp_path_factory.mktemp("race"))


@pytest.fixture(scope="module")
def evidence(run: Run) -> Evidence:
    return gather(run.run, run.verdict, run.history)


def test_the_story_tells_what_was_promised_what_did_it_and_what_is_gone(evidence: Evidence) -> None:
    assert story(evidence) == [
        "At 2.200 s b2 was killed.",
        "By 5.100 s 200 records were acknowledged: the cluster told the client that it had stored them.",
        "At 6.200 s b1 sent c1 AlterPartition (t-0, newIsr [1, 2], leaderEpoch 1, partitionEpoch 1). krash held "
        "it back for 3.9 s: it arrived at 10.100 s and was accepted.",
        "At 6.200 s b2 was killed.",
        "At 8.900 s b2 was given an empty disk in place of its own.",
        "At 8.950 s the network was cut: b1 ↔ b2.",
        "At 10.200 s b1 was killed.",
        "t-0 was led by b1 until 12.402 s, then by b2 from 12.402 s.",
        "In the end 200 of the 200 acknowledged records are gone from t-0 (offsets 0 to 199).",
    ]


def test_a_race_that_was_not_reached_says_where_it_stopped(evidence: Evidence) -> None:
    steps = list(evidence.exchange.steps)[:5]
    steps[4] = replace(steps[4], status="not-reached", text="until AlterPartition is held", seen="no message matched")
    verdict = Verdict(run="r", verdict="unknown", status="not-reached", reason="step 4")
    stopped = replace(evidence, exchange=replace(evidence.exchange, steps=tuple(steps)), verdict=verdict, losses=())
    assert (
        story(stopped)[-1]
        == "The race stopped at step 4, until AlterPartition is held. Seen instead: no message matched."
    )
    assert "not-reached" in render(stopped)


def test_a_refused_message_is_told_as_refused(evidence: Evidence) -> None:
    messages = [
        replace(one, error="INELIGIBLE_REPLICA") if one.answers == 3 else one for one in evidence.exchange.messages
    ]
    refused = replace(evidence, exchange=replace(evidence.exchange, messages=tuple(messages)))
    assert any("was refused: INELIGIBLE_REPLICA." in sentence for sentence in story(refused))
    (row,) = [row for row in sequence(refused).rows if row.kind == "answer"]
    assert row.bad
    assert row.words == "AlterPartition is answered: INELIGIBLE_REPLICA (refused)"


def test_rows_are_in_order_and_a_held_message_has_two(evidence: Evidence) -> None:
    rows = sequence(evidence)
    assert rows.lanes == ("c1", "b1", "b2", "w1")
    assert [row.at_ns for row in rows.rows] == sorted(row.at_ns for row in rows.rows)
    words = [words for _, _, words in spoken(rows.rows, evidence.zero_ns)]
    held = words.index("AlterPartition (t-0, newIsr [1, 2], leaderEpoch 1, partitionEpoch 1) is held")
    wiped = words.index("replace the disk of b2 by an empty one with its old directory id")
    released, answered = (
        words.index("AlterPartition is released after 3.9 s"),
        words.index("AlterPartition is answered: NONE (accepted)"),
    )
    led = words.index("t-0: ISR b2; leader b2; leader epoch 2; partition epoch 3")
    assert held < wiped < released < answered < led
    assert words[-1] == "final read: t-0 ends at offset 0: it is empty"
    assert not any("Heartbeat" in word for word in words), "what tells nothing is only counted"
    assert evidence.exchange.messages_seen == 26


def test_nothing_after_the_final_read_is_part_of_it(evidence: Evidence) -> None:
    assert evidence.drained_ns == ns(14.4)
    assert all(row.at_ns < ns(14.4) for row in sequence(evidence).rows)


def test_the_page_shows_picture_table_steps_losses_and_quotes(evidence: Evidence) -> None:
    html = render(evidence)
    assert html.count('<svg class="sequence"') == 1
    drawn = re.sub(r"<[^>]+>", " ", html[html.index('<svg class="sequence"') :])
    for row in sequence(evidence).rows:
        assert html.count(row.words.replace("&", "&amp;")) >= 2, f"in the picture and in the table: {row.words}"
    assert "until AlterPartition is held" in drawn
    assert "offset 199" in drawn
    assert "[Partition t-0 broker=1] ISR updated to 1,2" in drawn
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "krash report <b>kafka 3.4.1</b>" in html


def test_leaders_and_isrs_of_the_timeline_come_from_the_metadata_log(evidence: Evidence) -> None:
    (lane,) = evidence.states.partitions
    assert [(span.state, span.detail) for span in lane.leaders] == [("1", "0"), ("2", "2")]
    assert [span.state for span in lane.isr] == ["1,2", "1", "1,2", "2", "1,2"]
    assert abs(lane.leaders[1].start_ns - ns(12.402)) < 1000, "the wall clock, moved by what was seen live"


def test_a_flood_of_messages_is_reduced_and_said(tmp_path: Path) -> None:
    run = synthetic_race.race(tmp_path)
    flood = [
        synthetic_race.message(1000 + n, "b1", "c1", 56, "AlterPartition", 7 + n * 0.0001, fields={"newIsr": [1]})
        for n in range(3 * MESSAGE_LIMIT)
    ]
    write(run, "messages", rows_of(MESSAGES, flood))
    evidence = gather(run.run, run.verdict, run.history)
    assert len(evidence.exchange.messages) == MESSAGE_LIMIT
    assert evidence.exchange.messages_left_out > 2 * MESSAGE_LIMIT
    assert {row.kind for row in sequence(evidence).rows} >= {"held", "released", "answer", "down", "wipe"}, (
        "the story stays"
    )
    assert len(sequence(evidence).rows) == ROW_LIMIT
    assert "that tell less are left out" in render(evidence)


def test_a_run_without_a_gate_has_no_sequence(tmp_path: Path) -> None:
    run = synthetic.unclean(tmp_path)
    html = render(gather(run.run, run.verdict, run.history))
    assert 'class="sequence"' not in html.partition("<body>")[2]
    assert 'id="story"' not in html


def test_an_ordinary_run_with_a_gate_shows_messages_around_its_anomalies(tmp_path: Path) -> None:
    run = synthetic.unclean(tmp_path)
    moment = min(op for witness in run.verdict.anomalies[0].witnesses for op in witness["ops"])
    plain = gather(run.run, run.verdict, run.history)
    seconds = plain.since_start(plain.ops[moment].invoked_ns)
    messages = [
        synthetic_race.message(
            n, "b2", "c1", 56, "AlterPartition", seconds + n, fields={"topic": "log", "partition": 0}
        )
        for n in range(100)
    ]
    write(run, "messages", rows_of(MESSAGES, messages))
    evidence = gather(run.run, run.verdict, run.history)
    drawn = around(evidence)
    assert list(drawn) == [1], "information and what could not be judged get none"
    assert 5 < len(drawn[1].rows) <= 40
    assert "Messages between the nodes around the first witnesses" in render(evidence)


@pytest.mark.parametrize("table", ["steps", "messages", "metadata"])
def test_a_damaged_table_costs_only_itself(table: str, tmp_path: Path) -> None:
    run = synthetic_race.race(tmp_path)
    (run.history / table / "part-0.parquet").write_bytes(b"PAR1 not really")
    evidence = gather(run.run, run.verdict, run.history)
    assert any(table in problem for problem in evidence.problems)
    assert "200 acknowledged records were lost" in render(evidence)


def test_what_a_foreign_history_holds_cannot_stop_the_page(tmp_path: Path) -> None:
    run = synthetic_race.race(tmp_path)
    step = {"run": "r", "clock": "c", "step": 99, "verb": "hold", "nodes": [], "text": "", "started_ns": 0, "ended_ns": -5, "status": "?", "seen": None, "message": -1}  # fmt: skip
    row: dict[str, Any] = dict.fromkeys(METADATA.names)
    row |= {"run": "r", "clock": "c", "node": "x", "offset": -1, "index": 0, "epoch": 0, "timestamp_ms": -(2**60), "kind": "", "fields": "[" * 5000}  # fmt: skip
    write(run, "steps", pa.Table.from_pylist([step], schema=STEPS))
    write(run, "metadata", pa.Table.from_pylist([row] * 50, schema=METADATA))
    html = render(
        gather({**run.run, "race": "just a name", "phases": [None], "started_at": 7}, run.verdict, run.history)
    )
    assert "just a name" in html


@pytest.mark.parametrize(
    ("race", "found"),
    [
        ({"quotes": ["a", {"pattern": "b", "node": "c*"}]}, [("a", "*"), ("b", "c*")]),
        ({"quotes": ["", 7, {"node": "b1"}, "x" * 300, None]}, []),
        ({"quotes": "no list"}, []),
        ("a name", []),
        (None, []),
    ],
)
def test_only_patterns_that_fit_are_looked_for(race: Any, found: list[tuple[str, str]]) -> None:
    assert patterns({"race": race}) == found


def test_quotes_are_bounded_and_safe_against_slow_patterns(tmp_path: Path) -> None:
    run = synthetic_race.race(tmp_path, quotes=["(a+)+$", "line", "["])
    for node in range(30):
        log = run.folder / "nodes" / f"n{node}" / "log"
        log.mkdir(parents=True)
        (log / "server.log").write_text("a" * 400 + "!\n" + "line\n" * 100)
    quotes = gather(run.run, run.verdict, run.history).exchange.quotes
    assert len(quotes) == QUOTE_LIMIT
    assert {quote.pattern for quote in quotes} == {"line"}
    assert quotes[0].line == 2


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"system": "kafka", "versions": {"b1": "3.4.1", "c1": "3.4.1"}}, "kafka 3.4.1"),
        ({"system": "kafka", "versions": {"b1": "3.4.1", "c1": "4.3.1"}}, "kafka 3.4.1 and 4.3.1"),
        (
            {"system": "kafka", "versions": {"b1": "4.3.1"}, "spec": {"metadata_version": "3.4"}},
            "kafka 4.3.1, metadata.version 3.4",
        ),
        ({"system": "Apache Kafka 4.3.1", "versions": {"b1": "4.3.1"}}, "Apache Kafka 4.3.1"),
        ({}, ""),
    ],
)
def test_the_top_line_names_system_and_versions(run: dict[str, Any], said: str) -> None:
    assert system(run) == said


def test_who_says_to_be_the_active_controller_is_in_the_sequence(evidence: Evidence) -> None:
    claims = (
        Claim(node="c1", epoch=1, at_ns=ns(2.0), ends=None),
        Claim(node="c2", epoch=4, at_ns=ns(9.0), ends=None),
        Claim(node="c1", epoch=1, at_ns=ns(12.0), ends="it says otherwise"),
        Claim(node="c2", epoch=4, at_ns=ns(14.5), ends="the run ended"),
    )
    two = replace(evidence, exchange=replace(evidence.exchange, claims=claims))
    assert [(row.nodes, row.words) for row in sequence(two).rows if "say" in row.words] == [
        (("c1",), "c1 says that it is the active controller, in epoch 1"),
        (("c2",), "c2 says that it is the active controller, in epoch 4"),
        (("c1",), "c1 does not say so any more (epoch 1)"),
    ]


def test_claims_come_from_the_events(tmp_path: Path) -> None:
    run = synthetic_race.race(tmp_path)
    kinds = (EventKind.CONTROLLER_CLAIMS, EventKind.CONTROLLER_CLAIM_ENDS)
    rows = [
        Event(run="r", clock="host", at_ns=ns(at), node="c1", kind=kind, leader=101, leader_epoch=3, detail=detail)
        for at, kind, detail in zip((3.0, 9.0), kinds, (None, "it says otherwise"), strict=True)
    ]
    write(run, "events", rows_of(EVENTS, rows))
    assert gather(run.run, run.verdict, run.history).exchange.claims == (
        Claim(node="c1", epoch=3, at_ns=ns(3.0), ends=None),
        Claim(node="c1", epoch=3, at_ns=ns(9.0), ends="it says otherwise"),
    )


def test_a_valid_race_does_not_hide_what_was_information_only(evidence: Evidence) -> None:
    deposed = AnomalySummary(
        type="epoch-inflation",
        severity="information",
        count=1,
        expected=False,
        tolerated=False,
        sentence="",
        witnesses=[],
    )
    counts = Counts(ops={}, attempted=1, acknowledged=1, read=1, lost=0)
    verdict = Verdict(run="r", verdict="valid", status="judged", reason=None, anomalies=[deposed], counts=counts)
    told = story(replace(evidence, verdict=verdict, losses=()))
    assert told[-1] == "In the end every acknowledged record was there, but 1 healthy controller was deposed."
    clean = story(replace(evidence, verdict=replace(verdict, anomalies=[]), losses=()))
    assert clean[-1] == "In the end every acknowledged record was there, and nothing that was checked went wrong."


def test_what_was_never_agreed_on_is_not_told(tmp_path: Path) -> None:
    """A controller without its quorum wrote offset 12 in epoch 1; epoch 3 begins at 10 in another copy."""
    run = synthetic_race.race(tmp_path)
    row = synthetic_race.metadata(12, 9.0, "partition-change", topic="t", partition=0, isr=(2,), leader=2)
    agreed = [replace(row, offset=9), replace(row, node="c2", offset=10, epoch=3, kind="leader-change")]
    write(run, "metadata", rows_of(METADATA, [row, replace(row, offset=8), *agreed]))
    exchange = gather(run.run, run.verdict, run.history).exchange
    assert [moment.row.offset for moment in exchange.metadata] == [8, 9]
    assert exchange.metadata_left_out == 0
