"""`krash protections catch --real`: every protection off and on in a cluster of real processes, and the second half of the table.

    counterparts -> runs that are still missing, one at a time -> one Spark job for some -> tries.jsonl -> docs/protections.{md,json}

Without its protection a counterpart is tried until the anomaly came, with it until a run says something: TRIES times at most. Tries are
kept and count as long as no source that they depend on has changed, so that a command that was stopped goes on where it was; the table
shows what is known, also of tries that count no more. Directories of runs stay only where something did not come as stated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final, Protocol

import pyarrow.parquet as pq
from rich.console import Console

from harness.exits import INTERRUPTED, VALID
from harness.fingerprint import hash_of, sources
from harness.history.errors import HistoryError
from harness.history.rundir import VERDICT_JSON, read_run_info, update_run_info
from harness.judge_process import JudgeProcess
from harness.kept import Kept
from harness.protection_table import FILE, chosen, first_witness, kept_table, stated, write_table
from harness.publish import publish
from harness.race_order import settle, spec_of
from harness.real.counterpart import PROTECTIONS_OFF, Counterpart, NotRun, Played, Run
from harness.real.counterparts import COUNTERPARTS
from harness.run import Prepared, judged, perform, prepare
from harness.spec_file import load_spec
from harness.track_record import commit
from reports.protections import Real, RealTry, Row, Share, Table
from reports.verdict import Severity, Status, Validity, Verdict

TRIES: Final = 3
TOGETHER: Final = 8  # runs that are judged in one Spark job
MADE: Final = "protection_try"  # in run.json of a run that was made: {"key": Wanted.key, "seconds": 41.2}
_DEPENDS_ON: Final = ("nodes/reference", "workloads", "harness/checker", "harness/history")


@dataclass(frozen=True, kw_only=True)
class Flags:
    only: tuple[str, ...] = ()
    out: Path = Path("docs")
    runs: Path = Path("runs/protections/real")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One try that is to be made."""

    counterpart: Counterpart
    off: bool

    @property
    def name(self) -> str:
        return f"{self.counterpart.protection.value} {'off' if self.off else 'on'}"

    @property
    def key(self) -> str:
        """A hash of all that the outcome depends on; words are for people."""
        counterpart, shown = self.counterpart, self.counterpart.shown
        told = {name: value for name, value in asdict(shown).items() if name != "words"}
        about = json.dumps([self.name, counterpart.anomaly, counterpart.off(off=self.off), told], sort_keys=True)
        script = [Path(shown.source)] if isinstance(shown, Played) and shown.source != shown.race else []
        return hashlib.sha256("\0".join([_sources(), hash_of(script), about]).encode()).hexdigest()[:16]

    def came(self, one: RealTry) -> bool:
        """Did this try come as stated?"""
        return self.counterpart.anomaly in one.anomalies if self.off else one.verdict == Validity.VALID

    def missing(self, tries: Sequence[RealTry]) -> bool:
        """An alarm with all protections on is a finding, which no further try makes undone."""
        said = [one for one in tries if says(one)]
        return len(tries) < TRIES and not (any(map(self.came, said)) or (said and not self.off))


@cache
def _sources() -> str:
    return hash_of(sources(_DEPENDS_ON))


def says(one: RealTry) -> bool:
    """Does it say anything about the cluster?"""
    return one.status in (Status.JUDGED, Status.NO_DATA)


class Interrupted(Exception):
    """Somebody stopped a run. Runs before it that nobody has judged wait for the next command."""


class Runner(Protocol):
    async def run(self, batch: Sequence[Wanted]) -> Sequence[RealTry]: ...
    async def close(self) -> None: ...


def catch_really(flags: Flags, runner: Runner | None = None) -> int:
    """Make what is missing, and write the table. 0, or 130 after Ctrl-C; UsageError for a name that there is not."""
    console = Console(highlight=False)
    asked = chosen(flags.only, COUNTERPARTS)
    every = [Wanted(counterpart=one, off=off) for one in asked for off in (True, False) if not _is_left_out(one)]
    with Kept(flags.runs / FILE, lambda found: RealTry(**found)) as tries:
        missing = [one for one in every if one.missing(_of(one, tries.all))]
        left_out = sum(map(_is_left_out, asked))
        reasons = f"; {left_out} protections have none, and say why" if left_out else ""
        console.print(f" plan      {len(every)} runs, {len(missing)} to do{reasons}")
        try:
            asyncio.run(_all(missing, tries, runner or RunRunner(console, flags.runs), console))
        except (KeyboardInterrupt, Interrupted):
            return INTERRUPTED
        finally:
            _write(flags, asked, tries.all, console)
    return VALID


def _is_left_out(one: Counterpart) -> bool:
    return isinstance(one.shown, NotRun)


def _of(wanted: Wanted, tries: Sequence[RealTry]) -> list[RealTry]:
    return [one for one in tries if one.key == wanted.key]


async def _all(wanted: Sequence[Wanted], tries: Kept[RealTry], runner: Runner, console: Console) -> None:
    """Round by round, so that the first try of everything comes before the second of anything."""
    try:
        for _ in range(TRIES):
            missing = [one for one in wanted if one.missing(_of(one, tries.all))]
            for begin in range(0, len(missing), TOGETHER):
                batch = missing[begin : begin + TOGETHER]
                for one, found in zip(batch, await runner.run(batch), strict=True):
                    tries.add(found)
                    console.print(_told(one, found), soft_wrap=True)
    finally:
        await runner.close()


def _told(wanted: Wanted, found: RealTry) -> str:
    came = "as stated" if wanted.came(found) else "DIFFERS" if says(found) else "says nothing"
    what = ", ".join(found.anomalies) or found.verdict
    words = f" {wanted.name}: {what}, {came}, {found.seconds:.0f} s"
    return words if came == "as stated" else f"{words}\n          {found.note or ''} {found.run_dir or ''}"


@dataclass(frozen=True, kw_only=True)
class Made:
    """A run that was made, before anybody has judged it; seconds from the first node to its end."""

    wanted: Wanted
    directory: Path
    seconds: float


class RunRunner:
    """Runs as `krash run` and `krash race run` make them, judged together."""

    def __init__(self, console: Console, runs: Path) -> None:
        self._console, self._runs = console, runs
        self._judge = JudgeProcess(runs / "judge.log", cold=True)

    async def run(self, batch: Sequence[Wanted]) -> Sequence[RealTry]:
        made = []
        for wanted in batch:
            made.append(made_before(wanted, self._runs) or await self._make(wanted))
            self._console.print(f" run       {wanted.name}: {made[-1].seconds:.0f} s", soft_wrap=True)
        verdicts = await judged([one.directory for one in made], self._judge)
        return [self._found(one, verdicts[one.directory]) for one in made]

    async def _make(self, wanted: Wanted) -> Made:
        prepared, began = await asyncio.to_thread(self._prepare, wanted), time.monotonic()
        ending = await perform(prepared, self._console, self._judge)
        seconds = round(time.monotonic() - began, 1)
        if ending.status != Status.INTERRUPTED:
            update_run_info(prepared.directory, **{MADE: {"key": wanted.key, "seconds": seconds}})
        if ending.interrupted:
            raise Interrupted
        return Made(wanted=wanted, directory=prepared.directory, seconds=seconds)

    def _found(self, made: Made, verdict: Verdict) -> RealTry:
        """The row, and of the run's directory only what is worth its place, with a report."""
        wanted = made.wanted
        found = RealTry(
            key=wanted.key,
            subject=wanted.counterpart.protection.value,
            off=wanted.off,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=commit(),
            status=verdict.status,
            verdict=verdict.verdict,
            anomalies={one.type: one.count for one in verdict.anomalies if one.severity == Severity.VIOLATION},
            first_s=_first_s(made.directory, wanted.counterpart.anomaly) if wanted.off else None,
            seconds=made.seconds,
        )
        if wanted.came(found):
            shutil.rmtree(made.directory)
            return found
        for complaint in publish(made.directory, verdict):
            self._console.print(f" note      {complaint}", soft_wrap=True)
        return replace(found, note=_why(verdict), run_dir=str(made.directory))

    async def close(self) -> None:
        await self._judge.close()

    def _prepare(self, wanted: Wanted) -> Prepared:
        counterpart, shown = wanted.counterpart, wanted.counterpart.shown
        config = {PROTECTIONS_OFF: off} if (off := counterpart.off(off=wanted.off)) else {}
        quiet: Any = {"out": self._runs, "quiet": True, "replayed": None}
        if isinstance(shown, Run):
            spec = load_spec(None, settings=_with_config(shown.settings, config, name=counterpart.protection.value))
            return prepare(spec, self._console, **quiet)
        assert isinstance(shown, Played)
        settings = {
            **shown.parameters,
            **{f"config.all.{key}": value for key, value in {**shown.config, **config}.items()},
            **{f"checks.{key}": value for key, value in shown.checks.items()},
        }
        variant = settings.pop("variant", None)
        order, more = settle(shown.source, system="reference", variant=variant, settings=settings)
        spec = spec_of(order, backend="local", seed=None, settings=more)
        race: Any = {"purpose": "race", "topology": order.topology(), "more": {"race": order.as_json()}}
        return prepare(spec, self._console, **quiet, **race)


def made_before(wanted: Wanted, runs: Path) -> Made | None:
    """A run that an earlier command made, and was stopped before it was judged."""
    for directory in sorted(path.parent for path in runs.glob("*/run.json")):
        try:
            made = read_run_info(directory).more.get(MADE, {})
        except HistoryError:
            continue  # torn, or of another krash
        if made.get("key") == wanted.key and not (directory / VERDICT_JSON).exists():
            return Made(wanted=wanted, directory=directory, seconds=made["seconds"])
    return None


def _with_config(settings: Mapping[str, Any], config: Mapping[str, str], *, name: str) -> dict[str, Any]:
    """A spec's settings with configuration for all nodes on top of its own."""
    own = settings.get("config", {})
    return {**settings, "name": name, "config": {**own, "all": {**own.get("all", {}), **config}}}


def _why(verdict: Verdict) -> str | None:
    """What a reader wants to know of a try that did not come as stated."""
    return verdict.reason or next((found.sentence for found in verdict.anomalies), None)


def _first_s(run_dir: Path, kind: str) -> float | None:
    """Seconds from the first op to the first that a finding of a kind names."""
    try:
        anomalies, ops = (pq.read_table(run_dir / place) for place in ("anomalies", "history/ops"))
    except OSError:
        return None
    first = first_witness(run_dir, anomalies, kind)
    began = min(ops["invoked_ns"].to_pylist(), default=None)
    return None if first is None or began is None else (first - began) / 1e9


def _write(flags: Flags, asked: Sequence[Counterpart], tries: Sequence[RealTry], console: Console) -> None:
    """Of counterparts that were not chosen, or not tried since the sources changed, the table keeps what it had."""
    old, mine = kept_table(flags.out), {one.protection.value: one for one in asked}
    rows = []
    for row in stated(old):
        counterpart = mine.get(row.protection)
        rows.append(row if counterpart is None else replace(row, real=_real(counterpart, tries, row)))
    table: Table = replace(old, rows=rows)
    for row in rows:
        if row.protection in mine:
            real = row.real
            found = f"{real.anomaly} in {real.off.found} of {real.off.runs} without it, {real.on.found} of {real.on.runs} with it"
            console.print(f" {row.protection}: {f'not run: {real.because}' if real.because else found}", soft_wrap=True)
    write_table(flags.out, table)
    shown = sum(row.real.shown for row in rows)
    console.print(f" shown     {shown} of {len(rows)}; written {flags.out / 'protections.md'}", soft_wrap=True)


def _real(counterpart: Counterpart, tries: Sequence[RealTry], row: Row) -> Real:
    shown = counterpart.shown
    if isinstance(shown, NotRun):
        return Real(because=shown.because)
    off, on = (_of(Wanted(counterpart=counterpart, off=off), tries) for off in (True, False))
    fresh = Real(how=shown.words, anomaly=counterpart.anomaly)
    if not (said := [one for one in (*off, *on) if says(one)]):
        same = (row.real.how, row.real.anomaly) == (fresh.how, fresh.anomaly)
        return row.real if same else fresh
    return replace(
        fresh,
        off=Share.without([one for one in off if says(one)], counterpart.anomaly),
        on=Share.having([one for one in on if says(one)]),
        seconds=median(one.seconds for one in said),
        at=max(one.at for one in said)[:10],
    )
