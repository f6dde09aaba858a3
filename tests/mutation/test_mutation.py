"""The mutator and its runner: what is changed, what is not, and that a change nobody notices is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.code import digest_of
from tests.mutation import __main__ as command
from tests.mutation import pure
from tests.mutation import results as results_module
from tests.mutation.fork import BROKEN, forked
from tests.mutation.mutants import Mutant, changes_something, mutants_of
from tests.mutation.mutated import Mutated
from tests.mutation.results import BEGIN, END, Result, Results, table, write_table
from tests.mutation.subjects import PURE, RELATIONAL, drawn

ROOT = Path(__file__).parents[2]
SOURCE = '''\
"""Doc: 1 < 2."""
WORDS = f"{1 + 1} is told when 1 < 2 and x"


def f(rows: "list[int]", limit: int = 3) -> int:
    """1 < 2"""
    if not rows or limit <= 0:
        raise ValueError("1 < 2" + str(1 + 1))
    total = min(rows) + limit
    return total
'''
CHECK = """\
_LOST = f"ack_min is not null and ({_HOW}) >= 2"


def explain(frame):
    frame = frame.where("a = b and not c").join(frame, "x", "left_anti")
    return finding(KIND, text("1 < 2 and so"), since=F.col("a") + 1, because=F.min("b"))
"""


def changed(source: str, *, sql: bool = False) -> dict[str, set[str]]:
    """What is replaced -> by what."""
    found: dict[str, set[str]] = {}
    for mutant in mutants_of("m.py", source, sql=sql):
        if changes_something(mutant, source):
            assert mutant.applied(source).count("\n") == source.count("\n"), "lines stay where they are"
            found.setdefault(mutant.old, set()).add(mutant.new)
    return found


def test_what_decides_is_changed_and_what_only_tells_is_not() -> None:
    assert changed(SOURCE) == {
        "not rows or limit <= 0": {
            "(not (not rows or limit <= 0))",
            "(not rows and limit <= 0)",
            "(limit <= 0)",
            "(not rows)",
        },
        "not rows": {"(rows)"},
        "limit <= 0": {"(limit < 0)"},
        "0": {"1"},
        "min(rows) + limit": {"(min(rows) - limit)"},
        "min": {"max"},
    }


def test_sql_in_strings_is_changed_and_sentences_are_not() -> None:
    assert changed(CHECK, sql=True) == {
        "is not null": {"is null"},
        "and": {"or"},
        ">=": {">"},
        "2": {"3"},
        "=": {"<>"},
        "not ": {""},
        '"left_anti"': {"'left_semi'"},
        "F.min": {"F.max"},
    }


def test_every_mutant_has_a_name_of_its_own_that_outlives_other_changes() -> None:
    before = mutants_of("m.py", SOURCE, sql=False)
    after = mutants_of("m.py", SOURCE.replace("WORDS", "\n\nSENTENCE"), sql=False)
    assert [one.name for one in before] == [one.name for one in after]
    assert len({one.name for one in before}) == len(before)


def test_the_same_mutants_are_drawn_and_fewer_are_a_part_of_more() -> None:
    modules = ("harness/checker/unseen.py", "harness/checker/vanished.py")
    more = drawn(ROOT, modules, 20, sql=True)
    assert [one.name for one in drawn(ROOT, modules, 8, sql=True)] == [one.name for one in more[:8]]
    assert {one.module for one in more} == set(modules)


def test_every_module_of_the_table_is_there_and_those_that_know_spark_are_apart() -> None:
    for module in (*PURE, *RELATIONAL):
        assert ("import pyspark" in (text := (ROOT / module).read_text()) or "from pyspark" in text) == (
            module in RELATIONAL
        )


def test_a_module_is_imported_as_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample_of_mutation.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    hook = Mutated(tmp_path / "sample_of_mutation.py", "sample_of_mutation", "VALUE = 2\n")
    monkeypatch.setattr(sys, "meta_path", [hook, *sys.meta_path])
    import sample_of_mutation  # type: ignore[import-not-found]

    assert sample_of_mutation.VALUE == 2
    del sys.modules["sample_of_mutation"]


def test_a_fork_says_what_it_found_or_why_it_ended(tmp_path: Path) -> None:
    def loops() -> str:
        while True:
            pass

    def fails() -> str:
        raise KeyError("x")

    def ended(work: object, processor: float = 60.0) -> str:
        found = forked(work, processor=processor, wall=60.0, memory=None, log=tmp_path / "log")  # type: ignore[arg-type]
        return found.how if found.said is None else found.said

    assert ended(lambda: "a test") == "a test"
    assert ended(lambda: "") == ""
    assert ended(fails).startswith(BROKEN), "it must not be taken for a killed mutant"
    assert ended(loops, processor=0.0) == "out of processor time"


@pytest.mark.parametrize(
    ("tried", "quick", "recorded"),
    [
        ("a test", True, ("a test", False)),
        ("a test", False, ("a test", False)),
        ("", True, ("", True)),
        ("", False, ("", False)),
    ],
)
def test_a_quick_run_calls_nobody_a_survivor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: str, quick: bool, recorded: tuple[str, bool]
) -> None:
    module = "harness/checker/models/rules.py"
    source = (ROOT / module).read_text()
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")  # set by the command, and back as it was in the end
    monkeypatch.setattr(pure, "prepare", lambda stack, root: None)
    monkeypatch.setattr(pure, "tried", lambda root, module, text: "" if text == source else tried)
    monkeypatch.setattr(command, "drawn", lambda *about, **more: mutants_of(module, source, sql=False)[:1])
    (tmp_path / "trust.md").write_text(f"{BEGIN}\n{END}\n")
    command.main(["--only", "pure", "--docs", str(tmp_path), *(["--quick", "60"] if quick else [])])
    (result,) = map(json.loads, (tmp_path / "mutation.jsonl").read_text().splitlines())
    assert (result["killed_by"], result["undecided"]) == recorded


def result(name: str, killed_by: str, code: str) -> Result:
    mutant = Mutant(module="m.py", line=3, kind="comparison", start=0, end=1, old="a < b", new="a <= b", name=name)
    return Result.of(mutant, code, killed_by, 1.5)


def test_results_hold_while_the_code_does_and_survivors_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.py").write_text(SOURCE)
    code = digest_of(SOURCE)
    monkeypatch.setattr(results_module, "EQUIVALENT", {"same": "both are never equal"})
    found = Results(tmp_path / "mutation.jsonl", tmp_path)
    for name, killed_by, of in (("dead", "a test", code), ("live", "", code), ("same", "", code), ("old", "", "0123")):
        found.add(result(name, killed_by, of))
    again = Results(tmp_path / "mutation.jsonl", tmp_path)
    assert [one.name for one in again.current()] == ["dead", "live", "same"]
    assert again.share() == pytest.approx(1 / 2)
    text = table(again)
    assert "| all | 3 | 1 | 1 | 0 | 33.3% (6.1% to 79.2%) | 50.0% (9.5% to 90.5%) |" in text
    assert "- `m.py:3` `a < b` becomes `a <= b`: **no test notices**" in text
    assert "both are never equal" in text
    (tmp_path / "trust.md").write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    write_table(tmp_path / "trust.md", again)
    assert (tmp_path / "trust.md").read_text() == f"before\n{BEGIN}\n{text}\n{END}\nafter\n"


def test_survivors_are_tried_again_on_request_and_what_others_changed_always() -> None:
    mutant = mutants_of("m.py", SOURCE, sql=False)[0]
    found = Results(Path("/nonexistent/mutation.jsonl"))
    assert not found.settled(mutant, "code", again=False)
    for killed_by, again, settled in (("a test", True, True), ("", False, True), ("", True, False)):
        found._all[mutant.name] = Result.of(mutant, "code", killed_by, 1.0)
        assert found.settled(mutant, "code", again=again) is settled
        assert not found.settled(mutant, "other", again=again)
    found._all[mutant.name] = Result.of(mutant, "code", "", 1.0, undecided=True)
    assert found.settled(mutant, "code", again=False, quick=True)
    assert not found.settled(mutant, "code", again=False, quick=False)


def test_what_is_in_the_documents_is_readable() -> None:
    path = ROOT / "docs" / "mutation.jsonl"
    if path.exists():
        for line in path.read_text().splitlines():
            Result(**json.loads(line))
