"""Engines against brute force, and the slow run that does more of it.

10^4 histories each, here or (with what the engine blames) in `test_zones`, `test_exact_engines` and `test_epochs`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.code import code_of
from tests.harness.checker.linearizability import many
from tests.harness.checker.linearizability.many import BEGIN, CHUNK, END, Progress, load, main
from tests.harness.checker.linearizability.subjects import SUBJECTS, Subject

HISTORIES = {  # of transactions in `serializability.test_agreement`
    "frontier": 10_000, "slot-sweep": 10_000, "list-append": 50, "rw-register": 50,
}  # fmt: skip


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.engine)
def test_it_agrees_with_the_definition(subject: Subject) -> None:
    decided = seed = 0
    wanted = HISTORIES.get(subject.engine, 1000)
    while decided < wanted:
        agrees = subject.agrees(random.Random(seed))
        assert agrees is not False, seed
        decided += agrees is not None
        seed += 1
        assert seed < 4 * wanted, "it refuses too much"


def lying(rng: random.Random) -> bool | None:
    return None if rng.random() < 0.5 else rng.random() < 0.99


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trust.md").write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    subjects = (
        Subject(engine="right", files=("log",), agrees=lambda rng: True),
        Subject(engine="wrong", files=("zones",), agrees=lying),
    )
    monkeypatch.setattr(many, "SUBJECTS", subjects)
    return tmp_path


def test_a_slow_run_goes_on_where_it_was_and_tells_every_disagreement(docs: Path) -> None:
    assert main(["--histories", "1000", "--docs", str(docs)]) == 1
    right, wrong = load(docs / "brute-force.json")
    assert (right.histories, right.seeds, right.disagreements) == (CHUNK, CHUNK, [])
    assert 1000 <= wrong.histories < wrong.seeds
    assert all(not lying(random.Random(seed)) for seed in wrong.disagreements)
    assert wrong.disagreements
    assert main(["--histories", "1001", "--docs", str(docs)]) == 1
    again = load(docs / "brute-force.json")
    assert [one.seeds for one in again] == [2 * CHUNK, wrong.seeds]
    text = (docs / "trust.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "| right | 2,000 | 0 |" in text


def test_what_other_sources_did_stays_listed_as_such(docs: Path) -> None:
    old = Progress(engine="right", sources="0123456789ab", seeds=7, histories=7)
    (docs / "brute-force.json").write_text(json.dumps([vars(old)]))
    main(["--histories", "1000", "--docs", str(docs)])
    assert [(one.engine, one.seeds) for one in load(docs / "brute-force.json")][:2] == [("right", 7), ("right", CHUNK)]
    assert "earlier (0123456789ab)" in (docs / "trust.md").read_text()


def test_only_code_counts_as_another_source() -> None:
    one = '"""Doc."""\ndef f():\n    """Doc."""\n    return 1  # why\n'
    assert code_of(one) == code_of("def f():\n  return (1)\n")
    assert code_of(one) != code_of("def f():\n    return 2\n")
