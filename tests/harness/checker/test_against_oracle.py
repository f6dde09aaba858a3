"""The checks against the definitions as loops (oracle.py), on hundreds of small messy histories judged in one job."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from harness.checker.conclude import Judged
from tests.harness.checker.oracle import Key, Oracle
from tests.harness.checker.stories import Story, clean

RUNS = 300


def messy(run: str, rng: random.Random) -> Story:
    """A log with some order in it, and anything wrong with it: times, offsets, outcomes and reads are drawn almost freely."""
    story = Story(run=run)
    values: list[str] = []
    for partition in range(rng.choice((1, 1, 2))):
        for i in range(rng.randrange(1, 8)):
            value = f"{partition}/{i}"
            values.append(value)
            outcome = rng.choices(("ok", "info", "fail"), (8, 2, 1))[0]
            begin = rng.randrange(30)
            story.send(
                value,
                (i if rng.random() < 0.7 else rng.randrange(8)) if outcome == "ok" else None,
                at=(begin, None if outcome == "info" and rng.random() < 0.5 else begin + rng.randrange(1, 9)),
                outcome=outcome,
                client=rng.choice(("a", "b")),
                process=i,
                partition=partition,
            )
    values += ["ghost"] * (rng.random() < 0.2)
    for partition in range(2):
        for _ in range(rng.randrange(4)):
            begin = rng.randrange(40)
            story.poll(
                _reads(values, partition, rng),
                at=(begin, begin + rng.randrange(1, 5)),
                process=100 + (rng.random() < 0.2),
                partition=partition,
                outcome=rng.choices(("ok", "fail"), (5, 1))[0],
            )
        if rng.random() < 0.9:
            reads = sorted(_reads(values, partition, rng) + _reads(values, partition, rng))
            story.poll(reads, at=(100, 101), phase="final", process=900 + partition, partition=partition)
            end = max([offset for offset, _ in reads], default=0) + rng.randrange(3)
            story.end(
                end,
                at=(102, 103),
                read_to=max(0, end - rng.choice((0, 0, 0, 2))),
                log_start=rng.choice((0, 0, 0, 1)),
                partition=partition,
            )
    return story


def _reads(values: list[str], partition: int, rng: random.Random) -> list[tuple[int, str | None]]:
    """Mostly what one would expect at consecutive offsets."""
    start, found = rng.randrange(4), []
    for offset in range(start, start + rng.randrange(4)):
        value = f"{partition}/{offset}"
        if value not in values or rng.random() < 0.15:
            value = rng.choice(values)
        found.append((offset if rng.random() < 0.9 else rng.randrange(8), value))
    return [*found]


def key(row: dict[str, Any]) -> Key:
    detail = json.loads(row["detail"] or "{}")
    log = (row["topic"], row["partition"])
    match row["type"]:
        case "duplicate":
            return row["type"], row["value"]
        case "inconsistent-offset":
            return row["type"], log, row["offset"], None if "values" in detail else row["value"]
        case "phantom-value" | "aborted-read":
            return row["type"], row["value"], log, row["offset"]
        case "read-then-vanished":
            return row["type"], log, row["offset"], row["value"]
        case "nonmonotonic-poll" | "poll-skip" | "int-nonmonotonic-poll" | "int-poll-skip":
            return row["type"], row["ops"][0], row["offset"], detail["before_offset"]
        case _:
            return row["type"], row["ops"][0]


def stories() -> list[Story]:
    rng = random.Random(20261121)
    return [messy(f"m{number}", rng) for number in range(RUNS)]


@pytest.mark.spark
def test_findings_are_those_of_the_definitions(conclusions: dict[str, Judged]) -> None:
    seen: set[str] = set()
    for story in stories():
        rows = conclusions[story.run].anomalies.to_pylist()
        found = {key(row) for row in rows if row["severity"] == "violation"}
        wanted = Oracle(story).findings()
        assert found == wanted, _report(story, found, wanted)
        seen |= {kind for kind, *_ in wanted}
    assert len(seen) == 12, f"the messy histories never showed some types: only {sorted(seen)}"


def test_the_oracle_finds_nothing_in_a_clean_history() -> None:
    assert Oracle(clean()).findings() == set()


def _report(story: Story, found: set[Key], wanted: set[Key]) -> str:
    rows = [*story.records, *story.bounds]
    lines = [f"{story.run}: not found {wanted - found}, found wrongly {found - wanted}", *map(str, rows)]
    return "\n".join(lines)
