"""`krash race run` and `krash race compare`: a race, as often as wanted, each try a run of its own, judged and reported.

    order (harness/race_order.py) -> run directory -> stage (harness/race_stage.py) -> history -> verdict -> report

The verdict is the checker's. Beside it stands what the race stated beforehand, and whether it came so. One judge serves all
tries: it warms up while the first cluster is deployed.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.text import Text

from harness import terminal
from harness.errors import UsageError
from harness.exits import ERROR, INVALID, UNKNOWN, VALID, exit_code
from harness.judge_process import JudgeProcess
from harness.race_order import Order, anomaly_types, as_expected, settle, spec_of
from harness.races import find_race, is_file
from harness.run import Prepared, execute, prepare
from harness.spec_file import parse_setting
from reports.terminal import STYLES
from reports.verdict import Status, Validity, Verdict

DEFAULT_SYSTEM = "kafka"


@dataclass(frozen=True, kw_only=True)
class RaceFlags:
    """The flags that `krash race run` and `compare` share."""

    variant: str | None = None
    settings: tuple[str, ...] = ()
    backend: str = "local"
    seed: int | None = None
    out: Path = Path("runs")

    def parsed(self) -> dict[str, Any]:
        return dict(parse_setting(text) for text in self.settings)


@dataclass(frozen=True, kw_only=True)
class Try:
    """One run of a race. What --json prints, one object per try."""

    order: Order
    verdict: Verdict
    status: str  # of the run: judged, not-reached, harness-error, ...
    seconds: float  # from the first node to the verdict
    directory: Path
    code: int
    interrupted: bool = False  # no other try is wanted, whatever has become of this one

    @property
    def as_expected(self) -> bool | None:
        return as_expected(self.order.expected, self.verdict, self.order.shows)

    @property
    def anomalies(self) -> list[str]:
        return anomaly_types(self.verdict, self.order.shows)

    def as_json(self) -> dict[str, Any]:
        counts, line = self.verdict.counts, self.order.expected
        return {
            "race": self.order.race.name,
            "variant": self.order.variant,
            "system": self.order.system,
            "metadata_version": self.order.metadata_version,
            "parameters": self.order.parameters.model_dump(mode="json"),
            "verdict": self.verdict.verdict,
            "status": self.status,
            "reason": self.verdict.reason,
            "anomalies": self.anomalies,
            "acknowledged": counts.acknowledged if counts else 0,
            "lost": counts.lost if counts else 0,
            "seconds": round(self.seconds, 1),
            "expected": line.outcome if line else None,
            "as_expected": self.as_expected,
            "run_dir": str(self.directory),
            "exit": self.code,
            "interrupted": self.interrupted,
        }


@dataclass(kw_only=True)
class Session:
    """Tries that share a judge."""

    console: Console
    quiet: bool
    flags: RaceFlags
    tries: list[Try] = field(default_factory=list)
    _judge: JudgeProcess | None = None

    async def run(self, order: Order, spec_settings: Mapping[str, Any]) -> Try:
        prepared = await asyncio.to_thread(self._prepare, order, spec_settings)
        assert self._judge is not None
        began = time.monotonic()
        verdict, ending = await execute(prepared, self.console, quiet=self.quiet, judge=self._judge, warm_at="deploy")
        done = Try(
            order=order,
            verdict=verdict,
            status=verdict.status,
            seconds=time.monotonic() - began,
            directory=prepared.directory,
            code=exit_code([(verdict, ending.status)]),
            interrupted=ending.interrupted,
        )
        self.tries.append(done)
        return done

    def _prepare(self, order: Order, spec_settings: Mapping[str, Any]) -> Prepared:
        spec = spec_of(order, backend=self.flags.backend, seed=self.flags.seed, settings=spec_settings)
        return prepare(
            spec,
            self.console,
            out=self.flags.out,
            quiet=self.quiet,
            replayed=None,
            purpose="race",
            topology=order.topology(),
            versions=order.race.rolls_to(order.parameters),
            more={"race": order.as_json()},
        )

    async def __aenter__(self) -> Session:
        self._scratch = tempfile.TemporaryDirectory(prefix="krash-judge-")
        self._judge = JudgeProcess(Path(self._scratch.name) / "judge.log")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._judge is not None
        await self._judge.close()
        self._scratch.cleanup()


def run_race(name: str, flags: RaceFlags, *, system: str | None, times: int, as_json: bool) -> int:
    """Run a race `times` times; returns the exit code over all tries: invalid > error > unknown > valid."""
    order, spec_settings = settle(name, system=system or DEFAULT_SYSTEM, variant=flags.variant, settings=flags.parsed())
    console = Console(stderr=as_json, highlight=False)
    session = Session(console=console, quiet=as_json, flags=flags)

    async def all_tries() -> None:
        async with session:
            for number in range(1, times + 1):
                if times > 1 and not as_json:
                    console.print(Text(f" try {number} of {times}", style="bold"))
                done = await session.run(order, spec_settings)
                _tell(done, console, again=again(order, flags, spec_settings), as_json=as_json)
                if done.interrupted:
                    return

    asyncio.run(all_tries())
    if times > 1 and not as_json:
        console.print(_summary_line(session.tries))
    return exit_code([(done.verdict, done.status) for done in session.tries])


def compare_races(name: str, flags: RaceFlags, *, systems: Sequence[str], times: int, as_json: bool) -> int:
    """One line per system. 0: every try came as stated beforehand; 1: one did not; 2: one said nothing; 3: the harness failed."""
    if not (wanted := list(systems) or list(find_race(name).systems)):
        raise UsageError(f"{name} names no systems; say --systems kafka:3.4.1,kafka:4.3.1@3.4")
    settled = [
        (system, *settle(name, system=system, variant=flags.variant, settings=flags.parsed())) for system in wanted
    ]
    console = Console(stderr=as_json, highlight=False)
    width = max(len(system) for system in wanted) + 2
    session = Session(console=console, quiet=True, flags=flags)

    async def all_systems() -> None:
        async with session:
            for system, order, spec_settings in settled:
                done = []
                for _ in range(times):
                    done.append(await session.run(order, spec_settings))
                    if as_json:
                        print(json.dumps(done[-1].as_json()), flush=True)
                    if done[-1].interrupted:
                        break
                if not as_json:
                    console.print(_compared(system.ljust(width), done), soft_wrap=True)
                if done[-1].interrupted:
                    return

    asyncio.run(all_systems())
    return _compared_code(session.tries)


def _tell(done: Try, console: Console, *, again: str, as_json: bool) -> None:
    if as_json:
        print(json.dumps(done.as_json()), flush=True)
        return
    verdict = replace(done.verdict, unavailability=[])  # a script writes when it wants to
    terminal.print_verdict(console, verdict, report=str(done.directory / "report.html"), again=again)
    terminal.print_line(console, "expected", expectation_line(done))


def expectation_line(done: Try) -> str:
    """ "lost-write, and so it came (no broker epoch in AlterPartition)"."""
    line = done.order.expected
    if line is None:
        return "nothing was stated beforehand for this version"
    because = f" ({line.because})" if line.because else ""
    match done.as_expected:
        case True:
            return f"{line.outcome}, and so it came{because}"
        case False:
            return f"{line.outcome}{because}; THIS DIFFERS, which is a finding"
    return f"{line.outcome}{because}; this run says nothing about it"


def _compared(system: str, done: Sequence[Try]) -> Text:
    """`kafka:3.4.1      INVALID  lost-write   200/200 lost   as expected   14.2 s`."""
    last = done[-1]
    counts = last.verdict.counts
    types = ", ".join(dict.fromkeys(kind for one in done for kind in one.anomalies))
    lost = f"{counts.lost}/{counts.acknowledged} lost" if counts else "nothing recorded"
    told = [one.as_expected for one in done]
    came = "as expected" if all(told) else "not reached" if None in told else "NOT AS EXPECTED"
    line = last.order.expected
    if line is None:
        came = "nothing stated"
    style = STYLES[Validity(last.verdict.verdict)]
    tries = "" if len(done) == 1 else f"{sum(one.as_expected is True for one in done)}/{len(done)} "
    return Text.assemble(
        f" {system}",
        (f"{last.verdict.verdict.upper():<9}", style),
        f"{types or last.status:<22}{lost:<16}{tries}{came:<18}{median(one.seconds for one in done):6.1f} s",
    )


def _compared_code(tries: Sequence[Try]) -> int:
    if any(one.status in (Status.HARNESS_ERROR, Status.HANG) for one in tries):
        return ERROR
    told = [one.as_expected for one in tries]
    if False in told:
        return INVALID
    return UNKNOWN if None in told else VALID


def _summary_line(tries: Sequence[Try]) -> str:
    verdicts = [one.verdict.verdict for one in tries]
    parts = [f"{verdicts.count(name)} {name}" for name in dict.fromkeys(verdicts)]
    missed = sum(one.status == Status.NOT_REACHED for one in tries)
    expected = sum(one.as_expected is True for one in tries)
    seconds = median(one.seconds for one in tries)
    return f" tries    {len(tries)}: {', '.join(parts)} · not reached {missed} · as expected {expected} · median {seconds:.1f} s"


def again(order: Order, flags: RaceFlags, spec_settings: Mapping[str, Any]) -> str:
    """The command that runs it once more."""
    defaults = order.race.parameters()
    words = ["krash", "race", "run", order.source if is_file(order.source) else order.race.name]
    words += ["--system", order.system]
    settings = {
        name: value
        for name, value in order.parameters.model_dump(mode="json").items()
        if value != getattr(defaults, name)
    }
    if order.metadata_version:
        settings["metadata_version"] = order.metadata_version
    settings |= {f"config.all.{key}": value for key, value in order.config.items()} | dict(spec_settings)
    for name, value in settings.items():
        words += ["--variant", str(value)] if name == "variant" else ["--set", f"{name}={value}"]
    if flags.backend != "local":
        words += ["--backend", flags.backend]
    return shlex.join(words)
