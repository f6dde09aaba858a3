"""Healthy systems that must be found healthy: every workload on real Kafka, 50 times; hours, goes on where it was
(`tox run -e slow-false-alarms`).

    python -m tests.false_alarms [--runs 50] [--workloads log,groups,transactions] [--seconds 3600] [--system kafka:4.3.1]

Every second run has faults that Kafka, set to lose nothing, survives: those of the workload's example, and so leaders
that change. Each run has a seed of its own and is one line of docs/false-alarms.jsonl; docs/trust.md gets the table. A
run that is not valid is kept, and its directory named; the exit code is 1 then. A run that failed as such (exit code 3)
says nothing about the judge: it is written down, and done again the next time. One that was too small, or in which no
leader changed although things were broken, counts as what it is, and there is one more with another seed for it.

Not every verdict of invalid is a false alarm. Whoever has looked into one and found that the records are as it says adds it
to TRUE, with what is at fault; it stays in the table, and no longer fails the command.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from tests.generated import replace_part

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- false alarms: written by tests/false_alarms.py -->", "<!-- end of false alarms -->"
FIRST_SEED = 5_000
ENOUGH = 10_000  # acknowledgements that a run should have
EXAMPLES = {"log": "chaos", "groups": "groups", "transactions": "transactions"}  # what breaks things, per workload
RATES = {
    "log": (),
    "groups": ("rate=1500",),
    "transactions": ("rate=2000",),
}  # enough records in the time of the examples
BROKEN = {  # faults of the examples that need no luck: a disk is not taken, there is time for enough records
    **RATES,
    "log": ("nemesis.mix.faults=[partition, kill, pause]", "time_limit=45s"),
    "transactions": (*RATES["transactions"], "time_limit=40s"),
}
CALM = {**RATES, "log": ("time_limit=20s",), "transactions": BROKEN["transactions"]}
JUDGED = (0, 1, 2)  # exit codes that are a verdict
TRUE = {  # (workload, seed) -> what was really wrong
    (
        "log",
        5035,
    ): "true: the record stands twice. A new leader, which had it, refused a later one of the five in flight as out "
    "of order, and then took it once more, as if it were new (librdkafka 2.16, its issue 4953; docs/findings.md, 11)",
}


@dataclass(frozen=True, kw_only=True)
class Run:
    workload: str
    seed: int
    system: str
    faults: int  # that took effect
    leader_changes: int
    acknowledged: int
    verdict: str  # of the judge, or "error"
    told: list[str]  # anomalies and what could not be judged
    commit: str
    seconds: float
    date: str

    @property
    def breaks(self) -> bool:
        return bool(self.seed % 2)

    @property
    def whole(self) -> bool:
        return self.acknowledged >= ENOUGH and (self.leader_changes > 0 or not self.breaks)


class Runs:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.all = [Run(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def add(self, run: Run) -> None:
        self.all.append(run)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")

    def wants(self, workload: str, seed: int, runs: int) -> bool:
        """Whether this one is still to be done, so that half of `runs` are whole and valid with faults, and half without."""
        done = [run for run in self.all if run.workload == workload and run.verdict != "error"]
        whole = [run for run in done if run.whole and run.verdict == "valid" and run.breaks == bool(seed % 2)]
        return seed not in {run.seed for run in done} and len(whole) < -(-runs // 2)


def command(workload: str, seed: int, system: str, out: Path) -> list[str]:
    """Even seeds: nothing is broken."""
    breaks = bool(seed % 2)
    settings = [flag for setting in (BROKEN if breaks else CALM)[workload] for flag in ("--set", setting)]
    calm = [] if breaks else ["--nemesis", "none"]
    spec = ROOT / "examples" / f"{EXAMPLES[workload]}.yaml"
    return [
        *(sys.executable, "-m", "harness", "run", str(spec), "--json", "--seed", str(seed)),
        *("--system", system, "--out", str(out), *calm, *settings),
    ]


def one_run(workload: str, seed: int, system: str, out: Path) -> tuple[Run, Path | None]:
    began = time.monotonic()
    done = subprocess.run(
        command(workload, seed, system, out), stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    answer = answers[-1] if answers else {}
    directory = Path(answer["run_dir"]) if answer.get("run_dir") else None
    judged = done.returncode in JUDGED and directory is not None
    run = Run(
        workload=workload,
        seed=seed,
        system=system,
        faults=_faults(directory) if judged and directory is not None else 0,
        leader_changes=_leader_changes(directory) if judged and directory is not None else 0,
        acknowledged=answer.get("counts", {}).get("acknowledged", 0),
        verdict=answer["verdict"] if judged else "error",
        told=[
            *(f"{one['type']} ({one['severity']})" for one in answer.get("anomalies", [])),
            *answer.get("unjudged", []),
            *([] if judged else [str(answer.get("error") or f"exit code {done.returncode}")]),
        ],
        commit=_commit(),
        seconds=round(time.monotonic() - began, 1),
        date=datetime.now(UTC).date().isoformat(),
    )
    return run, directory


def _faults(directory: Path) -> int:
    rows = _rows(directory, "faults", ["fault", "status"])
    return len({row["fault"] for row in rows if row["status"] in ("active", "healed")})


def _leader_changes(directory: Path) -> int:
    """Elections after the first one of each partition, in which somebody else was elected."""
    leaders: dict[tuple[str, int], int] = {}
    changes = 0
    rows = _rows(directory, "events", ["kind", "at_ns", "topic", "partition", "leader"])
    for row in sorted((row for row in rows if row["kind"] == "leader-changed"), key=lambda row: row["at_ns"]):
        place = (row["topic"], row["partition"])
        if row["leader"] is not None and row["leader"] >= 0:
            changes += leaders.get(place, row["leader"]) != row["leader"]
            leaders[place] = row["leader"]
    return changes


def _rows(directory: Path, table: str, columns: list[str]) -> list[dict[str, object]]:
    path = directory / "history" / table
    found: list[dict[str, object]] = pq.read_table(path, columns=columns).to_pylist() if path.exists() else []
    return found


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    return done.stdout.strip()


def table(runs: Iterable[Run]) -> str:
    groups: dict[tuple[str, str, bool], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.workload, run.system, run.breaks), []).append(run)
    lines = [
        "| workload | system | faults | runs | valid | unknown | invalid | harness errors | with 10^4 acknowledgements "
        "and, under faults, another leader | last run |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for (workload, system, broken), ones in sorted(groups.items()):
        judged = [one for one in ones if one.verdict != "error"]
        counts = {verdict: sum(one.verdict == verdict for one in judged) for verdict in ("valid", "unknown", "invalid")}
        full = sum(one.whole for one in judged)
        lines.append(
            f"| {workload} | {system} | {'tolerated ones' if broken else 'none'} | {len(judged)} | {counts['valid']} | "
            f"{counts['unknown']} | {counts['invalid']} | {len(ones) - len(judged)} | {full} | "
            f"{max(one.date for one in ones)} |"
        )
    other = [one for group in groups.values() for one in group if one.verdict not in ("valid", "error")]
    lines += [""] * bool(other)
    lines += [
        f"- {one.workload}, seed {one.seed}: {one.verdict}: {'; '.join(one.told)}{_because(one)}" for one in other
    ]
    return "\n".join(lines)


def _because(run: Run) -> str:
    true = TRUE.get((run.workload, run.seed))
    return "" if true is None else f". {true[0].upper()}{true[1:]}."


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="whole ones of each workload")
    parser.add_argument("--workloads", default=",".join(EXAMPLES), help="comma-separated")
    parser.add_argument("--system", default="kafka:4.3.1")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after this long")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "false-alarms", help="where runs go, and some stay")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    chosen = parser.parse_args(arguments)
    names = chosen.workloads.split(",")
    if strange := set(names) - set(EXAMPLES):
        parser.error(f"no workload {', '.join(sorted(strange))}; there are {', '.join(EXAMPLES)}")
    runs = Runs(chosen.docs / "false-alarms.jsonl")
    deadline = time.monotonic() + chosen.seconds
    chosen.out.mkdir(parents=True, exist_ok=True)
    for seed in range(FIRST_SEED, FIRST_SEED + 2 * chosen.runs):  # one of each workload at a time
        for workload in names:
            if not runs.wants(workload, seed, chosen.runs) or time.monotonic() > deadline:
                continue
            run, directory = one_run(workload, seed, chosen.system, chosen.out)
            runs.add(run)
            if run.verdict == "valid" and directory is not None:
                shutil.rmtree(directory)
            print(f"{workload} {seed}: {run.verdict}, {run.acknowledged:,} acknowledged, {run.faults} faults, "
                  f"{run.leader_changes} leader changes, {run.seconds:.0f} s {directory if run.verdict != 'valid' else ''} "
                  f"{'; '.join(run.told)}", flush=True)  # fmt: skip
            replace_part(chosen.docs / "trust.md", BEGIN, END, table(runs.all))
    replace_part(chosen.docs / "trust.md", BEGIN, END, table(runs.all))
    print(table(runs.all))
    alarms = [run for run in runs.all if run.verdict not in ("valid", "error") and (run.workload, run.seed) not in TRUE]
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
