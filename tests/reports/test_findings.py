"""Figures inside a page that people wrote."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reports.findings import with_tries
from reports.tally import Attempt, Tally
from reports.track_record import Line, Subject

PAGE = """# Findings

By hand: 3/3.

<!-- tries: toy -->
old figures
<!-- end of tries -->

What to do: nothing.
"""


def line(
    system: str, expected: str, outcomes: list[bool | None], *, variant: str = "rough", at: str | None = None
) -> Line:
    subject = Subject(
        key="k",
        race="toy",
        title="A toy",
        affected="3.4",
        fixed="3.5",
        variant=variant,
        settings={},
        system=system,
        metadata_version=at,
        expected=expected,
        because="",
        wanted=5,
    )
    return Line(subject=subject, tally=Tally.of([attempt(one) for one in outcomes], safe=expected == "valid"))


def attempt(as_expected: bool | None) -> Attempt:
    return Attempt(
        key="k",
        subject="toy",
        at="2026-11-21T00:00:00+00:00",
        commit=None,
        machine="",
        status="judged" if as_expected is not None else "not-reached",
        verdict="valid",
        reason=None,
        anomalies=[],
        acknowledged=1,
        lost=0,
        seconds=1.0,
        as_expected=as_expected,
        run_dir=None,
    )


def test_a_marked_part_tells_every_variant_and_nothing_else_changes() -> None:
    written = with_tries(
        PAGE,
        [
            line("kafka:3.4.1", "lost-write", [True, True]),
            line("kafka:4.3.1", "lost-write", [True, None], at="3.4"),
            line("kafka:4.3.1", "valid", [True, True, True]),
            line("kafka:4.3.1", "valid", [True], variant="calm"),
            line("kafka:4.4.0", "valid", []),
        ],
    )
    assert (
        "- `toy rough`: shown on 3.4.1 2/2, 4.3.1 at 3.4 1/2 (1 of them did not get there); not on 4.3.1 0/3.\n"
        in written
    )
    assert "- `toy calm`: not on 4.3.1 0/1.\n" in written
    assert "old figures" not in written
    assert "4.4.0" not in written
    assert written.startswith("# Findings\n\nBy hand: 3/3.\n\n<!-- tries: toy -->\n")
    assert written.endswith("<!-- end of tries -->\n\nWhat to do: nothing.\n")


def test_what_was_not_tried_is_said_to_be() -> None:
    assert "krash: not tried yet.\n" in with_tries(PAGE, [line("kafka:3.4.1", "lost-write", [])])


def test_a_mark_that_names_no_race_is_refused() -> None:
    with pytest.raises(ValueError, match="'toy/smooth'"):
        with_tries(PAGE.replace("tries: toy", "tries: toy/smooth"), [line("kafka:3.4.1", "valid", [True])])


def test_the_page_of_findings_marks_every_race() -> None:
    page = (Path(__file__).parents[2] / "docs/findings.md").read_text()
    marked = {name for found in re.findall(r"<!-- tries: (.*?) -->", page) for name in found.split()}
    assert {name.partition("/")[0] for name in marked} >= {
        "kafka-14139",
        "last-replica-standing",
        "controller-disk",
        "late-end-txn",
        "hanging-transaction",
        "two-controllers",
        "read-then-vanished",
        "epoch-inflation",
        "fenced-replica",
        "recreated-topic",
        "undemoted-leader",
    }
    assert page.count("<!-- tries: ") == page.count("<!-- end of tries -->")
