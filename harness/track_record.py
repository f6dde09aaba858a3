"""`krash track-record`: every race on every system that it speaks of, as often as it takes, and a table of what came.

    cells of the races -> tries that are still missing -> one run each -> tries.jsonl -> docs/track-record.{md,json}

The first try of every cell comes before the second of any, so that a table that was stopped early is thin, not narrow.
Tries are kept (harness/tries.py) and count as long as nothing that they depend on has changed (harness/fingerprint.py): run it
again after Ctrl-C, or after a crash, and it goes on where it was. A try that hangs or falls over is a row like any other;
what concerns all tries alike (no Java, a release that cannot be fetched) ends the command instead.

With --continue, a table of another machine counts as well (harness/tries.py), so that a checkout is enough to go on.

Directories of runs that came as stated are removed, but for one of each cell; those of all others stay.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from harness.errors import CommandError, UsageError
from harness.exits import INTERRUPTED, INVALID, UNKNOWN, VALID
from harness.fingerprint import key_of
from harness.plugins import Group, PluginError, load, registered
from harness.race import RaceFlags, Session
from harness.race_order import Order
from harness.races import find_race, is_file
from harness.tries import Tries
from nemesis.races.cells import Cell, cells
from nemesis.races.race import Race
from nodes.system import SystemUnavailable
from reports.findings import with_tries
from reports.tally import BROKEN, Attempt, Tally
from reports.track_record import AS_STATED, DIFFERS, NOTHING, Line, Subject, record_json, record_page
from reports.verdict import Status, Validity

TRY_LIMIT = 900.0  # seconds; a stage has limits of its own, and this is for what hangs around it
USUAL_S = 35.0  # a try on two cores, for the estimate before the first
RUNS_PER_JUDGE = 40  # then Spark begins anew
FILE = "tries.jsonl"
FINDINGS = "findings.md"


@dataclass(frozen=True, kw_only=True)
class Flags:
    times: int | None = None  # None: as the race says; 0: only write the tables
    only: tuple[str, ...] = ()  # RACE or RACE/VARIANT
    systems: tuple[str, ...] = ()  # patterns, as "kafka:4.*"
    out: Path = Path("docs")
    runs: Path = Path("runs/track-record")
    earlier: bool = False
    carry: Path | None = None  # a track-record.json whose tries count, too
    check: bool = False
    as_json: bool = False


@dataclass(frozen=True, kw_only=True)
class Planned:
    subject: Subject
    order: Order


class Runner(Protocol):
    """Runs one try. What it returns is harness.race.Try.as_json()."""

    async def run(self, order: Order) -> Mapping[str, Any]: ...
    async def close(self) -> None: ...


class RaceRunner:
    """Runs tries as `krash race run` does; consecutive ones share a judge."""

    def __init__(self, console: Console, runs: Path) -> None:
        self._console, self._runs = console, runs
        self._session: Session | None = None

    async def run(self, order: Order) -> Mapping[str, Any]:
        if self._session is not None and len(self._session.tries) >= RUNS_PER_JUDGE:
            await self.close()
        if self._session is None:
            made = Session(console=self._console, quiet=True, flags=RaceFlags(out=self._runs))
            self._session = await made.__aenter__()
        try:
            return (await self._session.run(order, {})).as_json()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.__aexit__()


def track_record(flags: Flags, runner: Runner | None = None) -> int:
    """Run what is missing, write the tables. Returns 0, or 130 after Ctrl-C.

    With --check, of the cells that the flags choose: 1 where one differs from what was stated, 2 where one says nothing.
    """
    console = Console(stderr=flags.as_json, highlight=False)
    planned, every = plan(flags)
    with Tries(flags.runs / FILE) as tries:
        if flags.carry is not None:
            console.print(f" carried   {tries.carry(flags.carry)} tries that {flags.carry} counts", soft_wrap=True)
        campaign = Campaign(planned=planned, tries=tries, runner=runner or RaceRunner(console, flags.runs), flags=flags)
        console.print(campaign.summary(), soft_wrap=True)
        interrupted = False

        def told(subject: Subject, attempt: Attempt) -> None:
            _tell(subject, attempt, campaign, console)
            write(flags.out, campaign.lines(every))  # whatever ends us, the tables show what is kept

        try:
            asyncio.run(campaign.run(told))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            lines = campaign.lines(planned)
            written = write(flags.out, campaign.lines(every))
        if not flags.as_json:
            console.print(_standing(lines), soft_wrap=True)
            console.print(f" written   {', '.join(map(str, written))}", soft_wrap=True)
    if interrupted or campaign.interrupted:
        return INTERRUPTED
    return _code(lines) if flags.check else VALID


def plan(flags: Flags) -> tuple[list[Planned], list[Planned]]:
    """The cells to try, and all cells: the tables show what is known of races that were not asked for, too.

    UsageError when nothing fits the flags.
    """
    named = list(registered(Group.RACES))
    asked = [_named(text) for text in flags.only] or [(name, "") for name in named]
    for name, variant in asked:
        if variant and variant not in (variants := find_race(name).variants):
            raise UsageError(f"{name} has no variant {variant!r}; it has: {', '.join(variants) or 'none'}")
    races = dict.fromkeys([*named, *(name for name, _ in asked)])
    every = [(name, one) for name in races for one in _cells_of(name, flags.times)]
    mine = [one for name, one in every if (name, "") in asked or (name, one.subject.variant) in asked]
    chosen = [one for one in mine if not flags.systems or any(fnmatch(_system(one), p) for p in flags.systems)]
    if not chosen:
        there = ", ".join(dict.fromkeys(map(_system, mine))) or "none"
        raise UsageError(f"no cell fits; systems of these races: {there}")
    return chosen, [one for _, one in every]


def _cells_of(name: str, times: int | None) -> list[Planned]:
    race = find_race(name)
    return [one for cell in cells(race) if (one := _planned(race, name, cell, times)) is not None]


def _named(text: str) -> tuple[str, str]:
    """ "kafka-14139/no-gate" -> race and variant; a file may have slashes of its own."""
    if text.endswith(".py"):
        return text, ""
    name, _, variant = text.partition("/")
    return name, variant


def _planned(race: Race, source: str, cell: Cell, times: int | None) -> Planned | None:
    """None where the system cannot be what the race asks for, such as a dynamic quorum before 3.9."""
    system, _, metadata_version = cell.system.partition("@")
    order = Order(
        race=race,
        source=str(Path(source).resolve()) if is_file(source) else source,
        parameters=race.settle(cell.settings),
        system=system,
        metadata_version=metadata_version or None,
        config={},
    )
    try:
        _system_class(system.partition(":")[0])().check(order.topology())
    except SystemUnavailable:
        return None
    line = order.expected
    assert line is not None
    parameters = order.parameters.model_dump(mode="json")
    subject = Subject(
        key=key_of(race, system=order.system, metadata_version=order.metadata_version, parameters=parameters),
        race=race.name,
        title=race.title,
        affected=race.affected,
        fixed=race.fixed,
        variant=order.variant,
        settings={key: value for key, value in cell.settings.items() if key != "variant"},
        system=order.system,
        metadata_version=order.metadata_version,
        expected=line.outcome,
        because=line.because,
        wanted=race.tries if times is None else times,
    )
    return Planned(subject=subject, order=order)


@cache
def _system_class(name: str) -> Any:
    return load(Group.SYSTEMS, name)


def _system(one: Planned) -> str:
    at = one.subject.metadata_version
    return f"{one.subject.system}@{at}" if at else one.subject.system


@dataclass(kw_only=True)
class Campaign:
    """The tries of one command."""

    planned: Sequence[Planned]
    tries: Tries
    runner: Runner
    flags: Flags
    limit: float = TRY_LIMIT
    interrupted: bool = False

    def __post_init__(self) -> None:
        self._commit, self._machine = commit(), machine()

    def done(self, subject: Subject) -> int:
        return self.tally(subject).tries

    def tally(self, subject: Subject) -> Tally:
        return self.tries.tally(subject, earlier=self.flags.earlier)

    def lines(self, planned: Sequence[Planned]) -> list[Line]:
        return [Line(subject=one.subject, tally=self.tally(one.subject)) for one in planned]

    def missing(self) -> int:
        return sum(max(0, one.subject.wanted - self.done(one.subject)) for one in self.planned)

    def summary(self) -> str:
        kept = sum(self.done(one.subject) for one in self.planned)
        known = [one.tally.seconds for one in self.lines(self.planned) if one.tally.seconds is not None]
        hours = self.missing() * (median(known) if known else USUAL_S) / 3600
        return (
            f" plan      {len(self.planned)} cells, {kept} tries kept, {self.missing()} to do, about {hours:.1f} hours"
        )

    async def run(self, tell: Callable[[Subject, Attempt], None]) -> None:
        """Every missing try, round by round, until all are done or somebody interrupts."""
        try:
            for number in range(max((one.subject.wanted for one in self.planned), default=0)):
                for one in self.planned:
                    if number < one.subject.wanted and self.done(one.subject) <= number:
                        attempt = await self._try(one)
                        if attempt.status != Status.INTERRUPTED:
                            self.tries.add(attempt)
                            tell(one.subject, attempt)
                        if self.interrupted:
                            return
        finally:
            await self.runner.close()

    async def _try(self, one: Planned) -> Attempt:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.limit):
                told = await self.runner.run(one.order)
            self.interrupted = told["interrupted"]
        except (UsageError, CommandError, PluginError, SystemUnavailable):
            raise
        except TimeoutError:
            told = _fallen(Status.HANG, f"it took longer than {self.limit:g} s", began)
        except Exception as error:  # noqa: BLE001 - a try that falls over is a row, not the end of hours of tries
            told = _fallen(BROKEN, f"{type(error).__name__}: {error}", began)
        return self._kept(one.subject, told)

    def _kept(self, subject: Subject, told: Mapping[str, Any]) -> Attempt:
        """The row, and of the run directory only what is worth its place."""
        directory = told["run_dir"]
        if directory is not None and told["as_expected"] is True and self._has_example(subject):
            shutil.rmtree(directory, ignore_errors=True)
            directory = None
        return Attempt(
            key=subject.key,
            subject=subject.words,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=self._commit,
            machine=self._machine,
            status=told["status"],
            verdict=told["verdict"],
            reason=told["reason"],
            anomalies=list(told["anomalies"]),
            acknowledged=told["acknowledged"],
            lost=told["lost"],
            seconds=told["seconds"],
            as_expected=told["as_expected"],
            run_dir=directory,
        )

    def _has_example(self, subject: Subject) -> bool:
        return any(one.as_expected and one.run_dir and Path(one.run_dir).is_dir() for one in self.tries.of(subject))


def _fallen(status: str, reason: str, began: float) -> dict[str, Any]:
    return {
        "status": str(status),
        "verdict": str(Validity.UNKNOWN),
        "reason": reason,
        "anomalies": [],
        "acknowledged": 0,
        "lost": 0,
        "seconds": round(time.monotonic() - began, 1),
        "as_expected": None,
        "run_dir": None,
    }


def write(out: Path, lines: Sequence[Line]) -> list[Path]:
    """Both tables, and the figures in a page of findings that lies beside them; each file replaced as a whole."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    texts = {"track-record.md": record_page(lines), "track-record.json": record_json(lines)}
    if (findings := out / FINDINGS).is_file():
        texts[FINDINGS] = with_tries(findings.read_text(encoding="utf-8"), lines)
    for name, text in texts.items():
        path, new = out / name, out / f".{name}.new"
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
        written.append(path)
    return written


def commit() -> str | None:
    """Of krash's own checkout, with a + when something in it was changed; None outside of one."""
    root = Path(__file__).parents[1]
    try:
        head = _git(root, "rev-parse", "--short=10", "HEAD")
        return head + ("+" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def machine() -> str:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} processors, {gib:.0f} GiB"


def _tell(subject: Subject, attempt: Attempt, campaign: Campaign, console: Console) -> None:
    if campaign.flags.as_json:
        print(json.dumps({"cell": subject.words, **json.loads(attempt.as_line())}), flush=True)
        return
    came = {True: "as stated", False: "DIFFERS", None: "says nothing"}[attempt.as_expected]
    style = {True: "", False: "bold red", None: "bold yellow"}[attempt.as_expected]
    what = ", ".join(attempt.anomalies) or (attempt.verdict if attempt.said else attempt.status)
    number = campaign.done(subject)
    console.print(
        Text.assemble(
            f" {number:>3}/{subject.wanted:<4}{subject.words}: {what}, {attempt.lost}/{attempt.acknowledged} lost, ",
            (came, style),
            f", {attempt.seconds:.0f} s · {campaign.missing()} to do",
            "" if attempt.as_expected else f"\n          {attempt.reason or ''} {attempt.run_dir or ''}",
        ),
        soft_wrap=True,
    )


def _standing(lines: Sequence[Line]) -> str:
    standings = [line.standing for line in lines]
    counted = [f"{standings.count(one)} {one}" for one in (AS_STATED, DIFFERS, NOTHING) if one in standings]
    return f" cells     {', '.join(counted)}"


def _code(lines: Sequence[Line]) -> int:
    standings = {line.standing for line in lines}
    return INVALID if DIFFERS in standings else UNKNOWN if NOTHING in standings else VALID
