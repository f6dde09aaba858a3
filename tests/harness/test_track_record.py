"""`krash track-record` with a runner that only pretends: which tries it makes, what it keeps, and what it concludes."""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import CommandError, UsageError
from harness.plugins import Group, registered
from harness.race_order import Order
from harness.races import find_race
from harness.track_record import Campaign, Flags, plan, track_record
from harness.tries import Tries
from nemesis.races.cells import samples, stated

RACE = '''
from typing import Literal
from nemesis.races.cells import Cell
from nemesis.races.expectation import Expectation
from nemesis.races.race import cluster, race, topic

@race(
    "toy", cluster=lambda given: cluster(given, brokers=1, topics=[topic("t", [1])]), affected="3.4", fixed="3.5",
    expects=(
        Expectation(outcome="valid", where={"variant": "calm"}),
        Expectation(outcome="lost-write", versions="< 3.5", where={"records": 20}),
        Expectation(outcome="valid", versions=">= 3.5"),
    ),
    systems=("kafka:3.4.1", "kafka:4.3.1", "kafka:4.3.1@3.4"),
    also=(Cell(system="kafka:3.4.1", settings={"records": 5}),),
    tries=3,
)
async def toy(on, variant: Literal["rough", "calm"] = "rough", records: int = 20) -> None:
    """A toy breaks."""
'''


@dataclass
class Pretender:
    """Says what `comes` says of each order; counts what it was asked."""

    comes: Callable[[Order], Mapping[str, Any]]
    asked: list[str] = field(default_factory=list)
    closed: int = 0

    async def run(self, order: Order) -> Mapping[str, Any]:
        self.asked.append(
            f"{order.variant} {order.system}{'@' + order.metadata_version if order.metadata_version else ''}"
        )
        return self.comes(order)

    async def close(self) -> None:
        self.closed += 1


def told(order: Order, **fields: Any) -> dict[str, Any]:
    """As stated beforehand, unless told otherwise."""
    assert order.expected is not None
    anomalies = [] if order.expected.outcome == "valid" else [order.expected.outcome]
    return {
        "status": "judged",
        "verdict": "invalid" if anomalies else "valid",
        "reason": None,
        "anomalies": anomalies,
        "acknowledged": 20,
        "lost": 20 if anomalies else 0,
        "seconds": 12.0,
        "as_expected": True,
        "run_dir": None,
        "interrupted": fields.get("status") == "interrupted",
        **fields,
    }


@pytest.fixture
def flags(tmp_path: Path) -> Flags:
    (tmp_path / "toy.py").write_text(RACE)
    return Flags(only=(str(tmp_path / "toy.py"),), out=tmp_path / "docs", runs=tmp_path / "runs", check=True)


def document(flags: Flags) -> dict[str, Any]:
    """Cells of the toy in track-record.json, by variant and system."""
    cells = json.loads((flags.out / "track-record.json").read_text())["cells"]
    return {f"{c['variant']} {c['system']}@{c['metadata_version']}": c for c in cells if c["race"] == "toy"}


def test_the_cells_are_those_of_which_something_was_stated(flags: Flags) -> None:
    chosen, every = plan(flags)
    assert [one.subject.words for one in chosen] == [
        "toy rough kafka:3.4.1",
        "toy rough kafka:4.3.1",
        "toy rough kafka:4.3.1@3.4",
        "toy calm kafka:3.4.1",
    ]
    assert len({one.subject.key for one in every}) == len(every) > len(chosen)


def test_the_first_try_of_each_comes_before_the_second_of_any(flags: Flags) -> None:
    runner = Pretender(told)
    assert track_record(flags, runner) == 0
    assert len(runner.asked) == 12
    assert runner.asked[:4] == runner.asked[4:8] == runner.asked[8:]
    assert runner.closed == 1
    cell = document(flags)["rough kafka:3.4.1@None"]
    assert (cell["tries"], cell["shown"], cell["standing"], cell["anomalies"]) == (3, 3, "as stated", {"lost-write": 3})
    assert (
        "| rough | kafka:3.4.1 | default | lost-write | 3/3 | - | - | 12 | lost-write | 20/20 |"
        in (flags.out / "track-record.md").read_text()
    )


def test_a_page_of_findings_beside_the_tables_gets_the_figures(flags: Flags) -> None:
    flags.out.mkdir()
    (flags.out / "findings.md").write_text("Words.\n<!-- tries: toy/rough -->\n<!-- end of tries -->\n")
    track_record(flags, Pretender(told))
    assert "- `toy rough`: shown on 3.4.1 3/3; not on 4.3.1 0/3" in (flags.out / "findings.md").read_text()


def test_what_is_kept_is_not_tried_again(flags: Flags) -> None:
    track_record(replace(flags, times=2), Pretender(told))
    runner = Pretender(told)
    track_record(flags, runner)
    assert len(runner.asked) == 4
    assert len((flags.runs / "tries.jsonl").read_text().splitlines()) == 12


def test_flags_choose_variants_and_systems_and_the_table_keeps_the_others(flags: Flags) -> None:
    track_record(replace(flags, times=1), Pretender(told))
    runner = Pretender(told)
    track_record(replace(flags, times=2, systems=("kafka:4.*",)), runner)
    assert {name.split()[1] for name in runner.asked} == {"kafka:4.3.1", "kafka:4.3.1@3.4"}
    assert {cell["tries"] for cell in document(flags).values()} == {1, 2}
    with pytest.raises(UsageError, match=r"no cell fits.*kafka:3\.4\.1"):
        plan(replace(flags, systems=("kafka:9.*",)))
    with pytest.raises(UsageError, match="has no variant 'x'"):
        plan(replace(flags, only=("kafka-14139/x",)))
    chosen, _ = plan(replace(flags, only=("kafka-14139/no-gate",), systems=("kafka:3.4.1",)))
    assert [one.subject.words for one in chosen] == ["kafka-14139 no-gate kafka:3.4.1"]


def test_a_changed_race_is_tried_anew_and_a_changed_sentence_is_not(flags: Flags) -> None:
    source = Path(flags.only[0])
    once = replace(flags, times=1)
    track_record(once, Pretender(told))
    source.write_text(RACE.replace("A toy breaks.", "A toy breaks, and how.") + "# so it goes\n")
    assert {one.subject.key for one in plan(once)[0]} == _kept_keys(once)
    source.write_text(RACE.replace("brokers=1", "brokers=2"))
    fresh = Pretender(told)
    track_record(replace(once, times=0), fresh)
    assert {cell["tries"] for cell in document(flags).values()} == {0}
    track_record(replace(once, times=0, earlier=True), fresh)
    assert {cell["tries"] for cell in document(flags).values()} == {1}
    assert not fresh.asked


def _kept_keys(flags: Flags) -> set[str]:
    return {json.loads(line)["key"] for line in (flags.runs / "tries.jsonl").read_text().splitlines()}


def test_a_try_that_falls_over_or_hangs_is_a_row(flags: Flags) -> None:
    def falls(order: Order) -> Mapping[str, Any]:
        raise RuntimeError("the judge is gone")

    assert track_record(replace(flags, times=1), Pretender(falls)) == 1
    cells = document(flags)
    assert cells["rough kafka:3.4.1@None"]["standing"] == "differs"
    assert cells["rough kafka:4.3.1@None"]["standing"] == "says nothing"
    assert {cell["failed"] for cell in cells.values()} == {1}
    assert "RuntimeError: the judge is gone" in (flags.out / "track-record.md").read_text()


def test_a_hung_try_is_given_up(flags: Flags) -> None:
    class Hangs(Pretender):
        async def run(self, order: Order) -> Mapping[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

    planned, _ = plan(replace(flags, times=1, systems=("kafka:3.4.1",), only=(flags.only[0],)))
    with Tries(flags.runs / "tries.jsonl") as tries:
        campaign = Campaign(planned=planned[:1], tries=tries, runner=Hangs(told), flags=flags, limit=0.01)
        asyncio.run(campaign.run(lambda subject, attempt: None))
        assert [(one.status, one.reason) for one in tries.all] == [("hang", "it took longer than 0.01 s")]


def test_what_concerns_all_tries_ends_the_command_and_keeps_what_there_is(flags: Flags) -> None:
    answers = iter([True, False])

    def broken(order: Order) -> Mapping[str, Any]:
        if next(answers):
            return told(order)
        raise CommandError("no Java")

    with pytest.raises(CommandError, match="no Java"):
        track_record(flags, Pretender(broken))
    assert sum(cell["tries"] for cell in document(flags).values()) == 1


def test_an_interrupted_try_is_not_kept_and_the_rest_is(flags: Flags) -> None:
    answers = iter([{}, {}, {"status": "interrupted", "as_expected": None}])
    assert track_record(flags, Pretender(lambda order: told(order, **next(answers)))) == 130
    assert sum(cell["tries"] for cell in document(flags).values()) == 2

    late = iter([{}, {"interrupted": True}])
    assert track_record(flags, Pretender(lambda order: told(order, **next(late)))) == 130
    assert sum(cell["tries"] for cell in document(flags).values()) == 4, "one that was over when the word came counts"

    def interrupts(order: Order) -> Mapping[str, Any]:
        raise KeyboardInterrupt

    assert track_record(flags, Pretender(interrupts)) == 130
    assert sum(cell["tries"] for cell in document(flags).values()) == 4


@pytest.mark.parametrize(
    ("system", "fields", "code", "standing"),
    [
        ("kafka:3.4.1", {}, 0, "as stated"),
        ("kafka:3.4.1", {"verdict": "valid", "anomalies": [], "as_expected": False}, 1, "differs"),
        ("kafka:3.4.1", {"status": "not-reached", "verdict": "unknown", "as_expected": None}, 1, "differs"),
        ("kafka:4.3.1", {"verdict": "invalid", "anomalies": ["phantom"], "as_expected": False}, 1, "differs"),
        ("kafka:4.3.1", {"status": "no-data", "verdict": "unknown", "as_expected": False}, 1, "differs"),
        ("kafka:4.3.1", {"status": "not-reached", "verdict": "unknown", "as_expected": None}, 2, "says nothing"),
    ],
)
def test_check_counts_what_must_come_and_what_must_not(
    flags: Flags, system: str, fields: dict[str, Any], code: int, standing: str
) -> None:
    chosen = replace(flags, times=1, systems=(system,))
    assert (
        track_record(
            chosen, Pretender(lambda order: told(order, **fields) if order.variant == "rough" else told(order))
        )
        == code
    )
    assert document(flags)[f"rough {system}@None"]["standing"] == standing
    assert track_record(replace(chosen, check=False), Pretender(told)) == 0


def test_one_miss_in_twenty_is_within_the_bar_and_two_are_not(flags: Flags) -> None:
    chosen = replace(flags, times=20, systems=("kafka:3.4.1",))
    missed = {"verdict": "valid", "anomalies": [], "as_expected": False}
    answers = iter([missed, *[{}] * 18, missed, {}])

    def comes(order: Order) -> Mapping[str, Any]:
        return told(order) if order.variant == "calm" else told(order, **next(answers))

    assert track_record(replace(chosen, times=19), Pretender(comes)) == 1  # 18 of 19
    (flags.runs / "tries.jsonl").unlink()
    answers = iter([missed, *[{}] * 19])
    assert track_record(chosen, Pretender(comes)) == 0
    (flags.runs / "tries.jsonl").unlink()
    answers = iter([missed, missed, *[{}] * 18])
    assert track_record(chosen, Pretender(comes)) == 1
    page = (flags.out / "track-record.md").read_text()
    assert "- toy rough kafka:3.4.1: `lost-write` in 18 of 20 tries; anomalies: lost-write × 18" in page  # noqa: RUF001


def test_of_runs_as_stated_one_directory_stays_and_of_others_all(flags: Flags, tmp_path: Path) -> None:
    made: list[Path] = []

    def comes(order: Order) -> Mapping[str, Any]:
        made.append(tmp_path / f"run-{len(made)}")
        made[-1].mkdir()
        wrong = {"verdict": "valid", "anomalies": [], "as_expected": False} if len(made) == 3 else {}
        return told(order, run_dir=str(made[-1]), **wrong)

    track_record(replace(flags, times=4, systems=("kafka:3.4.1",), only=(f"{flags.only[0]}",)), Pretender(comes))
    rough, calm = made[::2], made[1::2]
    assert [one.is_dir() for one in rough] == [True, True, False, False]
    assert [one.is_dir() for one in calm] == [True, False, False, False]


def test_a_torn_line_is_cut_off_and_a_wrong_one_is_named(flags: Flags) -> None:
    track_record(replace(flags, times=1, systems=("kafka:3.4.1",)), Pretender(told))
    kept = flags.runs / "tries.jsonl"
    whole = kept.read_text()
    kept.write_text(whole + whole[:40])
    track_record(replace(flags, times=2, systems=("kafka:3.4.1",)), Pretender(told))
    assert len(kept.read_text().splitlines()) == 4
    kept.write_text(whole + '{"key": 1}\n')
    with pytest.raises(CommandError, match=r"tries\.jsonl, line 3: no try that this krash knows"):
        track_record(flags, Pretender(told))


def test_two_do_not_write_at_once(flags: Flags) -> None:
    flags.runs.mkdir()
    with (flags.runs / "tries.jsonl").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(CommandError, match="another krash writes here"):
            track_record(flags, Pretender(told))


def test_json_has_a_line_per_try(flags: Flags, capsys: pytest.CaptureFixture[str]) -> None:
    track_record(replace(flags, times=1, as_json=True), Pretender(told))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["cell"] for line in lines][:2] == ["toy rough kafka:3.4.1", "toy rough kafka:4.3.1"]
    assert {line["status"] for line in lines} == {"judged"}


@pytest.mark.parametrize("name", registered(Group.RACES))
def test_each_race_names_a_sample_where_it_comes_and_one_where_it_does_not(name: str) -> None:
    race = find_race(name)
    outcomes = [line.outcome for cell in samples(race) if (line := stated(race, cell)) is not None]
    assert [outcome == "valid" for outcome in outcomes] == [False, True]


def test_a_fresh_machine_goes_on_from_what_a_table_counts(
    flags: Flags, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missed = {"status": "not-reached", "verdict": "unknown", "reason": "b1 is down", "as_expected": None, "lost": 0}
    answers = iter([{}, {}, {}, {}, missed, {}, {}, {}])
    track_record(replace(flags, times=2), Pretender(lambda order: told(order, **next(answers))))
    table = tmp_path / "checkout.json"
    table.write_text((flags.out / "track-record.json").read_text())
    elsewhere = replace(flags, runs=tmp_path / "elsewhere", carry=table, check=False)

    runner = Pretender(lambda order: told(order, seconds=24.0))
    track_record(elsewhere, runner)
    assert len(runner.asked) == 4, "the third of each"
    assert f"carried 8 tries that {table} counts" in " ".join(capsys.readouterr().out.split())
    cell = document(flags)["rough kafka:3.4.1@None"]
    assert (cell["tries"], cell["shown"], cell["not_reached"], cell["seconds"]) == (3, 2, 1, 18.0)
    assert (cell["anomalies"], cell["silent"]) == ({"lost-write": 3}, {"b1 is down": 1})

    again = Pretender(told)
    track_record(elsewhere, again)
    assert (again.asked, document(flags)["rough kafka:3.4.1@None"]) == ([], cell), "counted once"
    other = tmp_path / "other.json"
    other.write_text(table.read_text())
    with pytest.raises(UsageError, match=r"goes on from .*checkout\.json already"):
        track_record(replace(elsewhere, carry=other), again)


def test_tries_that_a_table_may_count_already_are_not_counted_twice(flags: Flags) -> None:
    track_record(replace(flags, times=1), Pretender(told))
    with pytest.raises(UsageError, match=r"may count tries that .*tries\.jsonl has, such as that of toy rough"):
        track_record(replace(flags, carry=flags.out / "track-record.json"), Pretender(told))
    assert len((flags.runs / "tries.jsonl").read_text().splitlines()) == 4


def test_what_a_table_expected_otherwise_does_not_count(flags: Flags, tmp_path: Path) -> None:
    track_record(replace(flags, times=1), Pretender(told))
    table = tmp_path / "checkout.json"
    written = json.loads((flags.out / "track-record.json").read_text())
    for cell in written["cells"]:
        if cell["race"] == "toy" and cell["expected"] == "valid":
            cell["expected"] = "phantom"
    table.write_text(json.dumps(written))
    runner = Pretender(told)
    track_record(replace(flags, times=1, runs=tmp_path / "elsewhere", carry=table), runner)
    assert runner.asked == ["rough kafka:4.3.1", "rough kafka:4.3.1@3.4", "calm kafka:3.4.1"], "all that are safe"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no track record: JSONDecodeError"),
        ('{"format": 2, "cells": []}', "format 2; this krash knows 1"),
        ('{"format": 1, "cells": [{"key": "k"}]}', "no track record: KeyError"),
        ("[]", "no track record"),
    ],
)
def test_a_table_that_is_none_is_named(flags: Flags, tmp_path: Path, text: str, said: str) -> None:
    table = tmp_path / "checkout.json"
    table.write_text(text)
    with pytest.raises(CommandError, match=rf"checkout\.json: .*{said}"):
        track_record(replace(flags, carry=table), Pretender(told))
    with pytest.raises(CommandError, match=r"gone\.json: No such file"):
        track_record(replace(flags, carry=tmp_path / "gone.json"), Pretender(told))
