"""./run-tests: runs tox environments, two at a time where they do not disturb one another, then says in a few lines what passed, what
failed, and what was skipped and why.

    ./run-tests                        all of tox.ini's env_list
    ./run-tests lint unit              these
    ./run-tests unit -- -k partition   what follows -- goes to pytest

The exit code is tox's, but an environment that did not run at all is a failure too. Without names, what this account cannot do (ROOT_ONLY)
is left out, and said and counted so. The last line is a count like pytest's own.

Side by side go environments of which one leaves the other half of a small machine: unit tests beside those of Spark, the browser beside
containers. Never two with clusters: each start of one takes the whole machine for seconds, and the other's timeouts run on.
What the second of two says is shown when both have ended. `.venv/bin/tox run` runs one environment after the other.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / ".tox" / "results"
ROOT_ONLY = {"docker": "entering the namespaces of containers needs root: sudo ./run-tests docker"}
# Side by side, one phase after the other. Not beside docker: tests that look for what was left on the host.
LANES = (
    (("lint", "typing", "unit", "setup"), ("checker",)),
    (("kafka", "reference"),),
    (("races",),),
    (("docker",), ("report",)),
)
OUTCOMES = {"failure": "failed", "error": "error", "skipped": "skipped"}


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str  # "tests.nodes.test_x::test_y"
    outcome: str  # passed, failed, error, skipped
    reason: str  # of a skip


@dataclass(frozen=True, kw_only=True)
class Environment:
    name: str
    ran: bool
    ok: bool
    seconds: float
    cases: tuple[Case, ...]


def phases(wanted: Sequence[str]) -> list[list[list[str]]]:
    """Phases one after the other, each with the lanes that run side by side; what has no place in LANES comes last, one by one."""
    planned = [[[name for name in lane if name in wanted] for lane in phase] for phase in LANES]
    placed = {name for phase in LANES for lane in phase for name in lane}
    planned += [[[name]] for name in wanted if name not in placed]
    return [lanes for phase in planned if (lanes := [lane for lane in phase if lane])]


def tox_command(lane: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Flags of `arguments` go to tox, what follows -- to pytest."""
    ours, _, theirs = _split(arguments)
    flags = [argument for argument in ours if argument.startswith("-")]
    told = str(RESULTS / f"tox-{lane[0]}.json")
    return [sys.executable, "-m", "tox", "run", "-e", ",".join(lane), "--result-json", told, *flags, *theirs]


def side_by_side(lanes: Sequence[Sequence[str]], arguments: Sequence[str]) -> int:
    """Run lanes at the same time, the first one's output as it comes, the others' when all have ended. The worst exit code."""
    logs = [RESULTS / f"{lane[0]}.log" for lane in lanes[1:]]
    with ExitStack() as opened:
        outputs = [None, *(opened.enter_context(log.open("wb")) for log in logs)]
        running = [
            subprocess.Popen(tox_command(lane, arguments), cwd=ROOT, stdout=said, stderr=said)
            for lane, said in zip(lanes, outputs, strict=True)
        ]
        try:
            return max([process.wait() for process in running])
        finally:
            for process in running:
                process.wait()
            for log in logs:
                print(log.read_text(errors="replace"), flush=True)


def read_results(results: Path, wanted: Sequence[str]) -> list[Environment]:
    """What tox and pytest wrote about the environments that should have run."""
    environments: dict[str, Any] = {}
    for told in results.glob("tox-*.json"):  # each names all environments, those of other lanes with nothing in them
        ran = json.loads(told.read_text())["testenvs"]
        environments |= {name: environment for name, environment in ran.items() if environment}
    return [_environment(name, environments.get(name, {}), results / f"{name}.xml") for name in wanted]


def left_out(wanted: Sequence[str], *, root: bool) -> dict[str, str]:
    """Of the environments that nobody named: which this account cannot do, and why."""
    return {} if root else {name: reason for name, reason in ROOT_ONLY.items() if name in wanted}


def summary(
    environments: Sequence[Environment], without: Mapping[str, str] | None = None, *, seconds: float
) -> list[str]:
    """Lines for people; `without`: environments that were left out, and why; `seconds` that all of it took."""
    without = without or {}
    lines = [_line(environment) for environment in environments]
    lines += [f"{name:<16} LEFT OUT    {reason}" for name, reason in without.items()]
    for environment in environments:
        lines += [
            f"  skipped in {environment.name}: {c.name}: {c.reason}"
            for c in environment.cases
            if c.outcome == "skipped"
        ]
        bad = [case for case in environment.cases if case.outcome in ("failed", "error")]
        lines += [f"  {case.outcome} in {environment.name}: {case.name}" for case in bad]
    every = [case for environment in environments for case in environment.cases]
    missing = f", {len(without)} environment left out" if without else ""
    return [*lines, f"=== {_counts(every)}{missing} in {seconds:.2f}s ==="]


def main(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in ("-h", "--help"):
        print(f"{__doc__}\nEnvironments:")
        return subprocess.run([sys.executable, "-m", "tox", "list", "--quiet"], cwd=ROOT).returncode
    wanted, without, began = _names(arguments), dict[str, str](), time.monotonic()
    if not wanted:
        listed = _listed()
        without = left_out(listed, root=os.geteuid() == 0)
        wanted = [name for name in listed if name not in without]
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    code = max(side_by_side(lanes, arguments) for lanes in phases(wanted))
    environments = read_results(RESULTS, wanted)
    print("\n" + "\n".join(summary(environments, without, seconds=time.monotonic() - began)), flush=True)
    return code or int(not all(environment.ok for environment in environments))


def _split(arguments: Sequence[str]) -> tuple[list[str], int, list[str]]:
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:end]), end, list(arguments[end:])


def _names(arguments: Sequence[str]) -> list[str]:
    return [argument for argument in _split(arguments)[0] if not argument.startswith("-")]


def _listed() -> list[str]:
    """tox.ini's env_list."""
    listed = subprocess.run(
        [sys.executable, "-m", "tox", "list", "--no-desc", "-qq", "-d"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split()


def _environment(name: str, told: dict[str, Any], junit: Path) -> Environment:
    result = told.get("result", {})
    return Environment(
        name=name,
        ran=bool(told.get("test")),
        ok=bool(result.get("success")) and bool(told.get("test")),
        seconds=float(result.get("duration", 0.0)),
        cases=tuple(_cases(junit)) if junit.is_file() else (),
    )


def _cases(junit: Path) -> list[Case]:
    cases = []
    for case in ElementTree.parse(junit).iter("testcase"):
        child = next((child for child in case if child.tag in OUTCOMES), None)
        outcome = "passed" if child is None else OUTCOMES[child.tag]
        reason = "" if child is None else child.get("message", "")
        cases.append(Case(name=f"{case.get('classname')}::{case.get('name')}", outcome=outcome, reason=reason))
    return cases


def _line(environment: Environment) -> str:
    state = "ok" if environment.ok else "FAILED" if environment.ran else "DID NOT RUN"
    counts = _counts(environment.cases) if environment.cases else ""
    return f"{environment.name:<16} {state:<12} {environment.seconds:7.1f} s   {counts}".rstrip()


def _counts(cases: Sequence[Case]) -> str:
    counted = Counter(case.outcome for case in cases)
    told = [f"{counted[outcome]} {outcome}" for outcome in ("failed", "passed", "skipped", "error") if counted[outcome]]
    return ", ".join(told) or "no tests ran"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
