"""A log of a consumer group, records of a client, of a transaction, what a process reads: looked at in order, in ranges of two
offsets as in one piece, on random histories.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.checker import history as tables
from harness.checker import polls
from harness.checker.coverage import uncovered
from harness.checker.producers import inside, overtaken
from harness.history.reading import open_run
from tests.harness.checker.stories import SAFE, Story

RUNS = 25
TABLES: dict[str, Callable[[Any], Any]] = {
    "uncovered": uncovered,
    "overtaken": overtaken,
    "inside": inside,
    "steps": polls.steps,
}


def messy(run: str, rng: random.Random) -> Story:
    """Two clients, whose transactions write between each other's records and by themselves, in order mostly; a group that hands on
    and commits what it likes, and readers that leave out, go back and do so within transactions.
    """
    story = Story(run=run, workload={**SAFE, "isolation": "read_committed"})
    places = sorted(range(60), key=lambda place: place + (rng.randrange(6) if rng.random() < 0.3 else 0))
    records: list[tuple[int, str | None]] = []
    now = 0
    for round_ in range(6):
        numbers = {}
        for client in ("w1.t0", "w1.t1"):
            numbers[client] = story.begin(at=now, client=client, process=50 + round_) if rng.random() < 0.7 else None
        for _ in range(rng.randrange(2, 9)):
            client, now = rng.choice(("w1.t0", "w1.t1")), now + 5
            offset, value = places[len(records)] + round_, f"v{len(records)}"
            records.append((offset, value))
            story.send(value, offset, at=(now, now + 3), client=client, process=60, transaction=numbers[client])
        for client, number in numbers.items():
            if number is not None:
                if rng.random() < 0.4:
                    at, read = (now, now + 1), rng.sample(records, min(len(records), 4))
                    story.poll(sorted(read), at=at, process=70, client=client, transaction=number)
                kind = "commit" if rng.random() < 0.8 else "abort"
                story.end_transaction(kind, number, at=(now, now + 4), client=client, process=50 + round_)
        now += 10
    story.position("assign", rng.choice((None, 0, 2)), at=(now, now))
    for member in ("w1.m0", "w1.m1", "w1.m0", "w1.c0", "w1.c0"):
        read = [record for record in sorted(records) if rng.random() < 0.7][rng.randrange(8) :]
        now += 10
        story.poll(read, at=(now, now + 3), client=member, process=int.from_bytes(member[3:].encode(), "big"))
        story.position("commit-offsets", rng.randrange(len(records) + 9), at=(now + 4, now + 6), client="w1.m0")
    story.position("assign", 0, at=(now, now), client="w1.m1")
    ends: dict[int, str | None] = dict(records)
    story.final_read({0: sorted(ends.items())}, since=now + 20)
    return story


@pytest.mark.spark
def test_ranges_change_nothing(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(20261122)
    stored = [open_run(messy(f"r{n}", rng).save(tmp_path / f"r{n}")) for n in range(RUNS)]

    def found() -> dict[str, list[str]]:
        with tables.opened(spark, stored) as history:
            rows = {name: sorted(map(str, make(history).collect())) for name, make in TABLES.items()}
            assert (history.bits is None) == (history.range_bits == 16)
        return rows

    whole = found()
    monkeypatch.setattr(tables, "RANGE_BITS", 1)
    monkeypatch.setattr(tables, "BROADCAST_ROWS", 0)
    cut = found()
    for name, rows in whole.items():
        assert len(rows) > RUNS, name
        assert cut[name] == rows, name
