"""The real half of the catch table: what is stated for each protection, which runs are made, and what is written of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.checker.anomalies import BY_NAME
from harness.errors import UsageError
from harness.history.rundir import RunInfo, create_run
from harness.races import find_race
from harness.real import catch as command
from harness.real.catch import MADE, TRIES, Flags, Wanted, catch_really, made_before
from harness.real.counterpart import RACES, Counterpart, NotRun, Played, Run
from harness.real.counterparts import COUNTERPARTS
from harness.spec_file import load_spec
from nodes.reference.protections import Protection
from reports.protections import Real, RealTry, Row, Share, Table

KNOWN = {one.protection: one for one in COUNTERPARTS}
SHOWN = KNOWN[Protection.STABLE_OFFSET]
LEFT_OUT = replace(KNOWN[Protection.FSYNC_ON_VOTE], shown=NotRun(because="nobody has thought of a run yet"))


def test_every_protection_has_one_counterpart_or_one_reason() -> None:
    assert sorted(one.protection.value for one in COUNTERPARTS) == sorted(one.value for one in Protection)
    assert {one.anomaly for one in COUNTERPARTS} <= BY_NAME.keys()
    for one in COUNTERPARTS:
        assert not isinstance(one.shown, NotRun) or (one.shown.because and "\n" not in one.shown.because)


@pytest.mark.parametrize(
    "one", [one for one in COUNTERPARTS if isinstance(one.shown, Run)], ids=lambda one: one.protection.value
)
def test_a_spec_is_one(one: Counterpart) -> None:
    assert isinstance(one.shown, Run)
    spec = load_spec(None, settings=dict(one.shown.settings))
    assert spec.system_name == "reference"
    assert spec.time_limit <= 60


def test_every_race_of_its_own_is_used_with_parameters_that_it_has() -> None:
    played = [one.shown for one in COUNTERPARTS if isinstance(one.shown, Played)]
    for one in played:
        find_race(one.source).settle(one.parameters)
    scripts = {path.name for path in RACES.glob("*.py") if path.name != "__init__.py"}
    assert scripts == {one.race for one in played if one.race.endswith(".py")}


def a_try(wanted: Wanted, *, at: str = "2026-11-21T10:00:00+00:00", **more: object) -> RealTry:
    """One that came as stated, unless `more` says otherwise."""
    anomalies = {wanted.counterpart.anomaly: 3} if wanted.off else {}
    made = RealTry(
        key=wanted.key,
        subject=wanted.counterpart.protection.value,
        off=wanted.off,
        at=at,
        commit="abc",
        status="judged",
        verdict="invalid" if wanted.off else "valid",
        anomalies=anomalies,
        first_s=2.5 if wanted.off else None,
        seconds=40.0,
    )
    return replace(made, **more)  # type: ignore[arg-type]


@dataclass
class Fake:
    """Answers in order, then as stated."""

    answers: list[dict[str, object]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def run(self, batch: Sequence[Wanted]) -> Sequence[RealTry]:
        self.asked += [one.name for one in batch]
        return [a_try(one, **(self.answers.pop(0) if self.answers else {})) for one in batch]

    async def close(self) -> None:
        pass


def flags(tmp_path: Path, only: Sequence[Counterpart] = (SHOWN,)) -> Flags:
    return Flags(only=tuple(one.protection.value for one in only), out=tmp_path / "docs", runs=tmp_path / "runs")


def real_of(tmp_path: Path, protection: Protection) -> Real:
    row = Table.of_json((tmp_path / "docs" / "protections.json").read_text()).of(protection.value)
    assert row is not None
    return row.real


def test_a_command_that_is_run_again_makes_only_what_is_missing(tmp_path: Path) -> None:
    first, again = Fake(), Fake()
    assert catch_really(flags(tmp_path), first) == 0
    assert first.asked == ["stable-offset off", "stable-offset on"]
    assert catch_really(flags(tmp_path), again) == 0
    assert again.asked == []
    real = real_of(tmp_path, Protection.STABLE_OFFSET)
    assert real.shown
    assert (real.off, real.on.runs, real.on.found) == (Share(runs=1, found=1, first_s=2.5), 1, 0)


def test_what_says_nothing_is_tried_again_and_does_not_count(tmp_path: Path) -> None:
    missed = {"status": "not-reached", "verdict": "unknown", "anomalies": {}, "first_s": None}
    fake = Fake([missed, {}, missed])
    catch_really(flags(tmp_path), fake)
    assert fake.asked == ["stable-offset off", "stable-offset on", "stable-offset off", "stable-offset off"]
    assert real_of(tmp_path, Protection.STABLE_OFFSET).off.runs == 1


def test_a_defect_that_does_not_come_is_tried_so_often_and_no_more(tmp_path: Path) -> None:
    fake = Fake([{"verdict": "valid", "anomalies": {}}, {}, *[{"verdict": "valid", "anomalies": {}}] * TRIES])
    catch_really(flags(tmp_path), fake)
    assert fake.asked.count("stable-offset off") == TRIES
    real = real_of(tmp_path, Protection.STABLE_OFFSET)
    assert (real.off.runs, real.off.found, real.shown) == (TRIES, 0, False)


def test_an_alarm_with_all_protections_on_stands(tmp_path: Path) -> None:
    fake = Fake([{}, {"verdict": "invalid", "anomalies": {"lost-write": 1}}])
    catch_really(flags(tmp_path), fake)
    assert fake.asked == ["stable-offset off", "stable-offset on"]
    real = real_of(tmp_path, Protection.STABLE_OFFSET)
    assert (real.on.found, real.shown) == (1, False)


def test_the_table_says_why_something_is_not_run_and_keeps_what_others_have_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "COUNTERPARTS", (SHOWN, LEFT_OUT))
    simulated = Row(
        protection="stable-offset",
        source="s",
        without="w",
        anomaly="aborted-read",
        faults="kill",
        off=Share(runs=10, found=10),
        on=Share(runs=10),
    )
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "protections.json").write_text(Table(date="2026-11-20", rows=[simulated]).as_json())
    catch_really(flags(tmp_path, [SHOWN, LEFT_OUT]), Fake())
    page = (tmp_path / "docs" / "protections.md").read_text()
    assert "not run: nobody has thought of a run yet" in page
    assert "- 1 of 40 protections: found in at least nine of ten runs" in page
    assert "- 1 of 40 protections: found without it, and a valid run with it; 1 are" in page
    assert (
        "| `stable-offset` | spec: transactions, a third of which are aborted | `aborted-read` | 1/1 | 2 s | 0/1 | 40 s |"
        in page
    )
    assert "| not tried | - | not tried |" in page, "of the 38 that nobody has asked for yet"
    assert "2026-11-20" in page


def test_tries_of_other_sources_stay_in_the_table_until_there_are_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catch_really(flags(tmp_path), Fake())
    monkeypatch.setattr(command, "_sources", lambda: "changed")
    missed = {"status": "hang", "verdict": "unknown", "anomalies": {}}
    fake = Fake([missed] * 2 * TRIES)
    catch_really(flags(tmp_path), fake)
    assert len(fake.asked) == 2 * TRIES
    assert real_of(tmp_path, Protection.STABLE_OFFSET).shown


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    catch_really(flags(tmp_path), Fake())
    path = tmp_path / "runs" / "tries.jsonl"
    path.write_text(path.read_text() + '{"key": "ab')
    fake = Fake()
    catch_really(flags(tmp_path), fake)
    assert fake.asked == []
    assert json.loads(path.read_text().splitlines()[0])["subject"] == "stable-offset"


def test_a_run_that_was_made_and_not_judged_is_not_made_again(tmp_path: Path) -> None:
    wanted, other = Wanted(counterpart=SHOWN, off=True), Wanted(counterpart=SHOWN, off=False)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text('{"run": ')
    assert made_before(wanted, tmp_path) is None
    create_run(tmp_path / "stopped", RunInfo(run="stopped"))
    create_run(tmp_path / "made", RunInfo(run="made", more={MADE: {"key": wanted.key, "seconds": 12.5}}))
    found = made_before(wanted, tmp_path)
    assert found is not None
    assert (found.directory, found.seconds) == (tmp_path / "made", 12.5)
    assert made_before(other, tmp_path) is None
    (tmp_path / "made" / "verdict.json").touch()
    assert made_before(wanted, tmp_path) is None


def test_names_and_flags_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    from harness.protection_commands import protections_app

    with pytest.raises(UsageError, match="no entry in the table: nonsense; there are"):
        catch_really(Flags(only=("nonsense",), out=tmp_path, runs=tmp_path))
    refused = CliRunner().invoke(protections_app, ["catch", "--real", "--seeds", "3"])
    assert isinstance(refused.exception, UsageError)
    assert "takes neither --seeds nor --healthy" in str(refused.exception)
