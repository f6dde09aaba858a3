"""`krash check`: judge run directories again, and histories of other tools, many at once, in one Spark session.

    $ krash check runs/* etcd_000.log history.edn --json

Directories are runs: their verdicts and reports are written anew. Files are histories of other tools: nothing is
written. One line per path in the order in which they were given; a path that cannot be read is an error with its
place, and the others are judged all the same.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from harness import terminal
from harness.errors import UsageError
from harness.exits import ERROR, INVALID, UNKNOWN, VALID, exit_code, worst
from harness.history.place import is_uri, local
from harness.history.rundir import HISTORY
from harness.judge_process import JudgeProcess
from harness.publish import publish
from harness.verdicts import read_verdict
from reports.terminal import STYLES
from reports.verdict import Status, Validity, Verdict
from reports.wording import number, one_line, plural

RUN_MODEL = "log"
_EXITS = {"valid": VALID, "invalid": INVALID, "unknown": UNKNOWN}
_SENTENCE = 400  # characters


@dataclass
class _Paths:
    """What was given, sorted by who judges it."""

    runs: list[Path | str] = field(default_factory=list)  # a string is a URI
    histories: list[Path] = field(default_factory=list)
    errors: dict[Path | str, str] = field(default_factory=dict)  # of runs and of what is neither
    answers: dict[Path | str, dict[str, Any]] = field(default_factory=dict)  # of histories
    verdicts: dict[Path | str, Verdict] = field(
        default_factory=dict
    )  # of runs whose verdict is not in their directory here


@dataclass(frozen=True, kw_only=True)
class Where:
    """On which Spark, and where verdicts of runs go: by default on this machine, into the run directories."""

    master: str | None = None
    settings: Sequence[str] = ()  # "spark.executor.memory=4g"
    out: Path | None = None

    @property
    def options(self) -> list[str]:
        """For the judge's process. UsageError for settings that make no sense."""
        from harness.checker.cluster import Cluster, settings_from

        try:
            Cluster(master=self.master or "local[*]", settings=settings_from(self.settings))
        except ValueError as error:
            raise UsageError(f"--spark-conf: {error}") from None
        given = [] if self.master is None else ["--master", self.master]
        return [*given, *(word for pair in self.settings for word in ("--spark-conf", pair))]


HERE = Where()


def check_paths(
    given: Sequence[Path | str],
    *,
    model: str | None = None,
    initial: str | None = None,
    consistency: Sequence[str] = (),
    format_name: str | None = None,
    all_keys: bool = False,
    where: Where = HERE,
    as_json: bool = False,
) -> int:
    """Judge them all, by path or URI; the exit code is that of the worst. UsageError for an option that makes no sense."""
    paths = [one if isinstance(one, Path) or is_uri(one) else local(one) for one in given]
    options = where.options
    question = _question(model, initial, consistency, format_name, all_keys=all_keys)
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    display = terminal.PhaseDisplay(Console(stderr=True, highlight=False), quiet=as_json)
    asked = [*dict.fromkeys(paths)]
    sorted_paths = _sorted(asked, where)
    if sorted_paths.runs or sorted_paths.histories:
        asyncio.run(_judge(sorted_paths, question, display, where.out and where.out.resolve(), options))
    codes = []
    for path in asked:
        if path in sorted_paths.answers:
            codes.append(_tell_history(path, sorted_paths.answers[path], console, as_json=as_json))
        elif sorted_paths.errors.get(path) is not None:
            codes.append(
                _tell_error(path, sorted_paths.errors[path], is_run=path in sorted_paths.runs, as_json=as_json)
            )
        else:
            codes.append(_tell_run(path, sorted_paths.verdicts.get(path), console, as_json=as_json))
    return worst(codes)


def _question(
    model: str | None, initial: str | None, consistency: Sequence[str], format_name: str | None, *, all_keys: bool
) -> dict[str, Any]:
    from harness.checker.foreign import BadInitial, Request, initial_value
    from harness.checker.models.registry import NoModel, plain_name
    from harness.checker.serializability.consistency import UnknownConsistency, forbidden
    from harness.history.formats.reading import Format

    try:
        if model is not None:
            plain_name(model)
        if initial is not None:
            initial_value(initial)
        forbidden(consistency)
    except (NoModel, UnknownConsistency) as error:
        raise UsageError(str(error)) from None
    except BadInitial as error:
        raise UsageError(f"--initial: {error}") from None
    if format_name is not None and format_name not in set(Format):
        raise UsageError(f"there is no format {format_name!r} of histories; there are {', '.join(Format)}")
    return Request(
        model=model, initial=initial, consistency=tuple(consistency), format=format_name, all_keys=all_keys
    ).as_json()


def _sorted(paths: Sequence[Path | str], where: Where) -> _Paths:
    found = _Paths()
    for path in paths:
        try:
            if isinstance(path, str) or path.is_dir():
                found.runs.append(path)
            elif path.is_file() and where.master is not None:
                found.errors[path] = "histories of other tools are judged whole, on this machine: leave out --master"
            elif path.is_file():
                found.histories.append(path)
            elif path.exists():
                found.errors[path] = "is neither a run directory nor a file that can be read twice"
            else:
                found.errors[path] = "there is no such run directory or file"
        except (OSError, ValueError) as error:
            found.errors[path] = str(error)
    return found


async def _judge(
    paths: _Paths,
    question: dict[str, Any],
    display: terminal.PhaseDisplay,
    out: Path | None,
    options: Sequence[str],
) -> None:
    display.begin("judge", "Spark starts")
    with tempfile.TemporaryDirectory(prefix="krash-judge-") as scratch:
        judge = JudgeProcess(
            Path(scratch) / "judge.log", cold=True, options=[*options, "--rows", str(_rows(paths.runs))]
        )
        try:
            if paths.histories:
                paths.answers.update([*(await judge.judge_histories(paths.histories, question, display.say)).items()])
            if paths.runs:
                for path, answer in (await judge.judge_elsewhere(paths.runs, out, display.say)).items():
                    if "error" in answer:
                        paths.errors[path] = answer["error"]
                    elif "document" in answer:
                        paths.verdicts[path] = Verdict.from_json(answer["document"])
            display.say(", ".join(_counted(paths)))
        finally:
            display.end()
            await judge.close()


def _rows(runs: Sequence[Path | str]) -> int:
    """Of the records tables, from their footers, as far as they are here and can be read: the judge complains about the others."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 0
    for run in runs:
        for file in (run / HISTORY / "records").glob("*.parquet") if isinstance(run, Path) else ():
            with suppress(OSError, pa.ArrowException):
                rows += pq.read_metadata(file).num_rows
    return rows


def _counted(paths: _Paths) -> Iterator[str]:
    if paths.runs:
        yield plural(len(paths.runs), "run")
    if paths.histories:
        yield plural(len(paths.histories), "history", "histories")


def _tell_run(directory: Path | str, elsewhere: Verdict | None, console: Console, *, as_json: bool) -> int:
    verdict = elsewhere or read_verdict(Path(directory))
    if as_json:
        print(json.dumps({"run_dir": str(directory), **verdict.as_json(), **_same_keys(directory, verdict)}))
    else:
        console.print(Text(one_line(str(directory), 2_000), style="bold"))
        terminal.print_verdict(console, verdict)
    if elsewhere is None:
        for complaint in publish(Path(directory), verdict):
            print(f"krash: {complaint}", file=sys.stderr)
    status = "completed" if verdict.status == Status.INTERRUPTED else verdict.status
    return exit_code([(verdict, status)])


def _same_keys(directory: Path | str, verdict: Verdict) -> dict[str, Any]:
    """What a line about any path has, beside `verdict` and `anomalies`."""
    engines = dict.fromkeys(check.engine for check in verdict.checks)
    return {
        "path": str(directory),
        "model": RUN_MODEL,
        "engine": "+".join(engines) or None,
        "ops": 0 if verdict.counts is None else sum(verdict.counts.ops.values()),
        "seconds": round(sum(check.seconds for check in verdict.checks), 3),
    }


def _tell_error(path: Path | str, error: str, *, is_run: bool, as_json: bool) -> int:
    if as_json:
        nothing: dict[str, Any] = {
            "verdict": "error",
            "engine": None,
            "anomalies": [],
            "ops": 0,
            "seconds": 0.0,
            "error": error,
        }
        about = {"run_dir": str(path), "model": RUN_MODEL} if is_run else {"model": None}
        print(json.dumps({"path": str(path), **about, **nothing}))
    else:
        print(one_line(f"krash: {path}: {error}", 2_000), file=sys.stderr)
    return ERROR


def _tell_history(path: Path | str, answer: dict[str, Any], console: Console, *, as_json: bool) -> int:
    answer = {**answer, "path": str(path)}
    if as_json:
        print(json.dumps(answer))
    elif answer["verdict"] == "error":
        print(one_line(f"krash: {path}: {answer['error']}", 2_000), file=sys.stderr)
    else:
        for line in _lines(answer):
            console.print(line)
    return _EXITS.get(answer["verdict"], ERROR)


def _lines(answer: dict[str, Any]) -> Iterator[Text]:
    """history.edn: invalid  cas-register, zones, 85 ops, 0.01 s
    nonlinearizable × 1: compare-and-sets 4 and 6 both replaced one and the same value
        4: process 1 cas [nil 1] -> ok, line 8 to line 9
    """  # noqa: RUF002
    verdict = Validity(answer["verdict"])
    about = [
        answer["model"] or "no model",
        answer["engine"],
        f"{number(answer['ops'])} ops",
        f"{answer['seconds']:.2f} s",
    ]
    yield Text.assemble(
        one_line(answer["path"], 2_000), ": ", (verdict.value, STYLES[verdict]), f"  {', '.join(about)}"
    )
    for anomaly in answer["anomalies"]:
        allowed = "" if anomaly["violation"] or verdict != Validity.VALID else " (allowed)"
        sentence = one_line(anomaly["sentence"], _SENTENCE)
        yield Text(f"  {anomaly['type']} × {number(anomaly['count'])}{allowed}: {sentence}")  # noqa: RUF001
        for operation in anomaly["ops"]:
            yield Text(f"      {one_line(operation, _SENTENCE)}", style="dim")
    if answer["reason"] and not answer["anomalies"]:
        yield Text(f"  {one_line(answer['reason'], _SENTENCE)}")
