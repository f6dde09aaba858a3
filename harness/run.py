"""`krash run`: from a spec to a judged and reported run directory.

    spec + flags -> Spec -> what is missing here? -> jars -> run directory -> supervisor (stage inside) -> history -> verdict -> report

Nothing is started before everything that can be checked was checked. After the stage ended, however it ended, what it
recorded is judged, and the report is written; a report that fails is told but never changes the verdict.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from harness import plugins, terminal
from harness.deployment import topic_facts
from harness.doctor import missing_for
from harness.environment import environment
from harness.errors import CommandError, UsageError
from harness.exits import exit_code
from harness.history import store
from harness.history.arrow import spare_pandas
from harness.history.errors import HistoryError
from harness.history.rundir import RunInfo, create_run, read_run_info, update_run_info
from harness.judge_process import JudgeError, JudgeProcess
from harness.plugins import Group
from harness.publish import load, publish
from harness.replayed import keep_replayed
from harness.spec import Spec
from harness.spec_file import load_spec, parse_setting
from harness.supervisor import Ending, Supervisor, stage_command
from harness.verdicts import read_verdict, write_failed
from harness.wiring import refusal
from nemesis.schedule import ImpossiblePlan, lacking, make_plan
from nemesis.settings import from_names
from nodes.backend import Capability
from nodes.system import System, SystemUnavailable
from nodes.topology import Topology
from reports.verdict import Verdict

# `krash run` without a spec: what shows most in a minute, with settings that promise to lose nothing.
BUILTIN: Mapping[str, Any] = {
    "name": "quick",
    "topics": [{"name": "log", "partitions": 4, "config": {"min.insync.replicas": 2}}],
    "nemesis": {"mix": {"faults": ["kill", "pause", "partition"]}},
}
DEPLOY_LIMIT = 300.0  # seconds; with what the spec allows for its phases, the longest a stage may take


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of `krash run` that override the spec; None leaves it alone."""

    system: str | None = None
    backend: str | None = None
    seed: int | None = None
    time_limit: str | None = None
    nemesis: str | None = None
    rate: str | None = None
    settings: tuple[str, ...] = ()

    def overrides(self) -> dict[str, Any]:
        """Dotted path -> value, as spec_file.load_spec takes them; `--set` has the last word."""
        put: dict[str, Any] = {}
        for name in ("system", "backend", "seed", "time_limit"):
            if (value := getattr(self, name)) is not None:
                put[name] = value
        if self.nemesis is not None:
            put["nemesis"] = _mix(self.nemesis)
        if self.rate is not None:
            put["rate"] = None if self.rate == "max" else self.rate
        return put | dict(parse_setting(text) for text in self.settings)


def _mix(names: str) -> dict[str, Any]:
    try:
        settings = from_names(names)
    except ValidationError as error:
        raise UsageError("--nemesis: " + "; ".join(item["msg"] for item in error.errors())) from None
    return settings.model_dump(mode="json", by_alias=True, exclude_unset=True)


def run_spec(spec_file: Path | None, flags: Flags, *, out: Path, replay: Path | None, as_json: bool) -> int:
    """Run a spec to its end; returns the exit code (DESIGN decision 8)."""
    console = Console(stderr=as_json, highlight=False)
    if replay is not None and (race := read_run_info(replay).more.get("race")):
        return _race_again(replay, race, out=out, as_json=as_json)
    spec, recorded = _what_to_run(spec_file, flags, replay)
    prepared = prepare(spec, console, out=out, quiet=as_json, replayed=recorded)
    verdict, ending = asyncio.run(execute(prepared, console, quiet=as_json))
    code = exit_code([(verdict, ending.status)])
    if as_json:
        print(json.dumps({"run_dir": str(prepared.directory), "exit": code, **verdict.as_json()}))
    else:
        again = f"krash run --replay {shlex.quote(str(prepared.directory))}"
        terminal.print_verdict(console, verdict, report=str(prepared.directory / "report.html"), again=again)
    return code


def _race_again(earlier: Path, race: Mapping[str, Any], *, out: Path, as_json: bool) -> int:
    """A race has no choices to take again: its script, system and parameters are all of it. The flags of `krash run` do not apply."""
    from harness.race import RaceFlags, run_race

    spec = read_run_info(earlier).spec
    settings = {**race["parameters"], **{f"config.all.{key}": value for key, value in race["config"].items()}}
    at = f"@{spec['metadata_version']}" if spec["metadata_version"] else ""
    flags = RaceFlags(
        settings=tuple(f"{name}={json.dumps(value)}" for name, value in settings.items()),
        backend=spec["backend"],
        out=out,
    )
    return run_race(race["source"], flags, system=f"{spec['system']}{at}", times=1, as_json=as_json)


def _what_to_run(spec_file: Path | None, flags: Flags, replay: Path | None) -> tuple[Spec, Path | None]:
    """The spec, and the run whose choices are to be taken again."""
    if replay is None:
        return load_spec(spec_file, settings={**({} if spec_file else BUILTIN), **flags.overrides()}), None
    if spec_file is not None:
        raise UsageError("--replay takes the spec of the earlier run; leave SPEC out")
    info = read_run_info(replay)
    return load_spec(None, settings={**info.spec, "seed": info.seed, **flags.overrides()}), replay


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run that may start: everything it needs is here, and its directory holds run.json."""

    spec: Spec
    directory: Path
    backend: Any  # the Backend class


def prepare(
    spec: Spec,
    console: Console,
    *,
    out: Path,
    quiet: bool,
    replayed: Path | None,
    purpose: str = "run",
    topology: Topology | None = None,
    versions: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> Prepared:
    """Check what the machine lacks, fetch what is needed, make the run directory. Raises CommandError naming the remedy.

    topology: what is deployed, where that is not the spec's; versions: others that are needed; more: further fields of run.json.
    """
    display = terminal.PhaseDisplay(console, quiet=quiet)
    backend, system_class = plugins.load(Group.BACKENDS, spec.backend), plugins.load(Group.SYSTEMS, spec.system_name)
    _refuse_what_is_missing(spec)
    _mention_leftovers(backend, console)
    system = system_class()
    topology = topology or spec.topology(system_class.default_version())
    _refuse_an_impossible_plan(spec, topology, backend.capabilities)
    _refuse_what_the_system_lacks(system, topology)
    fetch(system, sorted({node.version for node in topology.nodes} | set(versions)), display)
    directory = _make_directory(spec, topology, out, purpose, more or {})
    if replayed is not None:
        keep_replayed(directory, replayed)
    return Prepared(spec=spec, directory=directory, backend=backend)


def fetch(system: System, versions: Sequence[str], display: terminal.PhaseDisplay) -> None:
    """A phase of its own only where there is something to fetch."""
    begun = False

    def say(text: str) -> None:
        nonlocal begun
        if not begun:
            display.begin("fetch")
            begun = True
        display.say(text)

    for version in versions:
        system.fetch(version, progress=say)
    display.end()


def _make_directory(spec: Spec, topology: Topology, out: Path, purpose: str, more: Mapping[str, Any]) -> Path:
    started = datetime.now(UTC)
    run = f"{started:%Y-%m-%dT%H-%M-%S}-{spec.name}-{secrets.token_hex(2)}"
    seed = spec.seed if spec.seed is not None else secrets.randbits(31)
    info = RunInfo(
        run=run,
        spec=spec.model_dump(mode="json", by_alias=True),
        seed=seed,
        system=spec.system_name,
        versions={node.name: node.version for node in topology.nodes},
        topics=topic_facts(topology),
        started_at=started.isoformat(timespec="seconds"),
        environment=environment(),
        command=["krash", *sys.argv[1:], *(["--seed", str(seed)] if purpose == "run" and spec.seed is None else [])],
        more={
            "purpose": purpose,
            "status": "harness-error",
            "reason": "the run never ended; `krash recover` finishes its directory",
            **more,
        },
    )
    create_run(out / run, info)
    return out / run


def _refuse_what_is_missing(spec: Spec) -> None:
    missing = [
        row
        for row in missing_for(spec.backend, spec.system_name)
        if not (row.replaced_by and getattr(spec, row.replaced_by))
    ]
    if missing:
        lines = [f"  {item.name}: {item.found}\n    {item.remedy}" for item in missing]
        raise CommandError(
            f"this machine lacks what {spec.system_name} on the {spec.backend} backend needs:\n"
            + "\n".join(lines)
            + "\n`krash doctor` shows the whole table."
        )


def _refuse_what_the_system_lacks(system: System, topology: Topology) -> None:
    try:
        system.check(topology)
    except SystemUnavailable as lacking:
        raise UsageError(str(lacking)) from None


def _refuse_an_impossible_plan(spec: Spec, topology: Topology, capabilities: frozenset[Capability]) -> None:
    """UsageError when the faults ask for nodes or topics that are not there, or for what the backend cannot do."""
    try:
        plan = make_plan(spec.nemesis, topology, lambda actor, index: random.Random(index), spec.time_limit)
    except ImpossiblePlan as error:
        raise UsageError(f"nemesis: {error}") from None
    if impossible := lacking(plan, capabilities):
        raise UsageError(f"the {spec.backend} backend cannot do this: {'; '.join(impossible)}")
    if (why := refusal(spec, capabilities)) is not None:
        raise UsageError(why)


def _mention_leftovers(backend: Any, console: Console) -> None:
    left = backend.leftovers()
    if left:
        runs = sorted({item.run for item in left})
        console.print(
            f" note      {len(left)} things of crashed runs are still here ({', '.join(runs)}); `krash heal --all` removes them"
        )


def _fault_name(fault: dict[str, Any]) -> str:
    return " ".join([fault["name"], *fault["targets"]])


class _Listener:
    """Shows what the stage says, and starts the judge when the phase `warm_at` begins."""

    def __init__(
        self, display: terminal.PhaseDisplay, judge: JudgeProcess, spec: Spec, warm_at: str = "workload"
    ) -> None:
        self._warm_at = warm_at
        self._display = display
        self._judge = judge
        self._spec = spec
        self._phase = ""
        self._first = 0.0  # when the clients' first counters came
        self._fault = ""
        self._faults: dict[int, dict[str, Any]] = {}  # the last that was said of each
        self._counters: Mapping[str, Any] = {}
        self.warming: asyncio.Task[None] | None = None

    def heard(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "phase":
            if self._phase == "workload":
                broken = [_fault_name(fault) for fault in self._faults.values() if fault["status"] == "healed"]
                self._fault = f" · broken and healed: {', '.join(broken)}" if broken else ""
                self._show()
            self._fault, self._phase = "", message["name"]
            self._display.begin(message["name"], message.get("text", ""))
            if message["name"] == self._warm_at:
                self.warming = asyncio.create_task(self._judge.start())
        elif kind == "say":
            self._display.say(message["text"])
        elif kind == "note":
            self._display.note(message["text"])
        elif kind == "step":
            self._display.note(terminal.step_line(message))
        elif kind == "progress":
            self._counters = message["counters"]
            self._first = self._first or time.monotonic()
            self._show()
        elif kind == "fault":
            if message["status"] in {"failed", "refused"}:
                self._display.note(f"{message['name']}: {message['sentence']}")
            self._faults[message["fault"]] = message
            now = [_fault_name(fault) for fault in self._faults.values() if fault["status"] == "active"]
            self._fault = f" · now: {', '.join(now)}" if now else ""
            self._show()

    def _show(self) -> None:
        if self._phase == "drain":
            self._display.say(f"{self._counters.get('read', 0):,} records read back")
        else:
            seconds = time.monotonic() - self._first
            self._display.say(terminal.progress_line(self._counters, seconds, self._spec.rate) + self._fault)

    def interrupted(self, times: int) -> None:
        self._display.note(
            "interrupted: healing and draining what can be; Ctrl-C again to stop at once"
            if times == 1
            else "stopping at once"
        )


async def execute(
    prepared: Prepared, console: Console, *, quiet: bool, judge: JudgeProcess | None = None, warm_at: str = "workload"
) -> tuple[Verdict, Ending]:
    """Stage, history, verdict, report. `judge`: one that serves several runs, and is the caller's to close."""
    spare_pandas()
    directory = prepared.directory
    display = terminal.PhaseDisplay(console, quiet=quiet)
    own = judge is None
    judge = judge or JudgeProcess(directory / "judge.log", expect_in=prepared.spec.time_limit)
    listener = _Listener(display, judge, prepared.spec, warm_at)
    try:
        ending = await _staged(prepared, listener)
        if listener.warming is not None:
            await listener.warming
        display.begin("judge")
        loading = asyncio.create_task(asyncio.to_thread(load))
        verdict = (await judged([directory], judge))[directory]
        display.say(f"{len(verdict.checks)} checks")
        display.end()
        await loading
        publishing = asyncio.create_task(asyncio.to_thread(publish, directory, verdict))
    finally:
        if own:
            await judge.close()
    for complaint in await publishing:
        console.print(f" note      {complaint}", soft_wrap=True)
    return verdict, ending


async def perform(prepared: Prepared, console: Console, judge: JudgeProcess) -> Ending:
    """The stage alone, without a word: what it recorded is for `judged`, later and together with that of other runs."""
    display = terminal.PhaseDisplay(console, quiet=True)
    return await _staged(prepared, _Listener(display, judge, prepared.spec, warm_at="never"))


async def _staged(prepared: Prepared, listener: _Listener) -> Ending:
    spec, directory = prepared.spec, prepared.directory
    supervisor = Supervisor(
        stage=stage_command(directory),
        enclose=prepared.backend.enclose,
        log=directory / "stage.log",
        listener=listener,
        limit=DEPLOY_LIMIT + spec.time_limit + spec.recovery_limit + 2 * spec.drain_limit,
    )
    ending = await supervisor.run()
    update_run_info(directory, status=ending.status, reason=ending.reason)
    return ending


async def judged(directories: Sequence[Path], judge: JudgeProcess) -> dict[Path, Verdict]:
    """Histories written out and judged in one job; where that fails, the verdict is unknown and says why."""
    verdicts: dict[Path, Verdict] = {}
    for directory in directories:
        try:
            await asyncio.to_thread(store.finish, directory)
        except HistoryError as failure:
            verdicts[directory] = write_failed(directory, str(failure))
    whole = [directory for directory in directories if directory not in verdicts]
    try:
        errors = await judge.judge(whole) if whole else {}
    except JudgeError as failure:
        errors = dict.fromkeys(whole, str(failure))
    for directory, error in errors.items():
        verdicts[directory] = read_verdict(directory) if error is None else write_failed(directory, error)
    return verdicts
