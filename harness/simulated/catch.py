"""`krash protections catch`: every protection off and on, ten seeds each, judged by the checker, and the table of what came.

    defects -> runs that are still missing, in processes of their own -> one Spark job for many -> tries.jsonl -> docs/protections.{md,json}

Tries are kept and count as long as no source that they depend on has changed, so that a command that was stopped goes on where it was.
Directories of runs are removed once they are judged, but for those that did not come as stated.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from rich.console import Console

from harness.exits import INTERRUPTED, VALID
from harness.fingerprint import hash_of, sources
from harness.kept import Kept
from harness.protection_table import FILE, chosen, first_witness, kept_table, stated, write_table
from harness.simulated.cluster import NotReady
from harness.simulated.defect import Defect
from harness.simulated.defects import DEFECTS, HEALTHY
from harness.simulated.run import Plan, simulate
from nodes.reference.environment import SECOND
from nodes.reference.protections import Protections
from reports.protections import HEALTHY as HEALTHY_NAME
from reports.protections import Row, Share, Table, Try
from reports.verdict import Severity

TOGETHER: Final = 60  # runs that are judged in one Spark job
_DEPENDS_ON: Final = ("nodes/reference", "harness/simulated", "harness/checker", "harness/history", "workloads")


@dataclass(frozen=True, kw_only=True)
class Flags:
    seeds: int = 10
    healthy: int = 50
    only: tuple[str, ...] = ()
    out: Path = Path("docs")
    runs: Path = Path("runs/protections")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One try that is to be made."""

    subject: str
    off: bool
    seed: int
    plan: Plan
    anomaly: str | None

    @property
    def name(self) -> str:
        return f"{self.subject}-{'off' if self.off else 'on'}-{self.seed}"

    @property
    def key(self) -> str:
        about = json.dumps([self.name, asdict(self.plan)], sort_keys=True, default=_plain)
        return hashlib.sha256(f"{_sources()}\0{about}".encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    """What JSON does not know of a plan: which protections are off, and which script is played."""
    if isinstance(value, Protections):
        return sorted(one.value for one in value.off)
    return getattr(value, "__qualname__", None) or repr(value)


@cache
def _sources() -> str:
    return hash_of(sources(_DEPENDS_ON))


def catch(flags: Flags) -> int:
    """Make what is missing, and write the table. 0, or 130 after Ctrl-C; UsageError for a name that there is not."""
    console = Console(highlight=False)
    defects = chosen(flags.only, DEFECTS)
    wanted = list(_wanted(defects, flags))
    interrupted = False
    with Kept(flags.runs / FILE, lambda found: Try(**found)) as tries:
        known = {one.key for one in tries.all}
        missing = [one for one in wanted if one.key not in known]
        console.print(f" plan      {len(wanted)} runs, {len(wanted) - len(missing)} kept, {len(missing)} to do")
        try:
            for begin in range(0, len(missing), TOGETHER):
                batch = missing[begin : begin + TOGETHER]
                for one in _judged(batch, flags.runs, console):
                    tries.add(one)
                console.print(f" runs      {begin + len(batch)} of {len(missing)} judged")
        except KeyboardInterrupt:
            interrupted = True
        _write(flags, defects, wanted, {one.key: one for one in tries.all}, console)
    return INTERRUPTED if interrupted else VALID


def _wanted(defects: Sequence[Defect], flags: Flags) -> Iterator[Wanted]:
    """The first seed of everything comes before the second of anything."""
    for seed in range(max(flags.seeds, flags.healthy)):
        if seed < flags.seeds:
            for defect in defects:
                for off in (True, False):
                    plan, subject = defect.planned(off=off), defect.protection.value
                    yield Wanted(subject=subject, off=off, seed=seed, plan=plan, anomaly=defect.anomaly)
        if seed < flags.healthy and not flags.only:
            plan = HEALTHY[seed % len(HEALTHY)]
            yield Wanted(subject=HEALTHY_NAME, off=False, seed=seed, plan=plan, anomaly=None)


def _judged(batch: Sequence[Wanted], runs: Path, console: Console) -> Iterator[Try]:
    from harness.checker.judge import judge
    from harness.checker.session import spark_session
    from harness.history.reading import open_run

    made = []
    with (
        console.status(f"{len(batch)} simulated runs") as status,
        ProcessPoolExecutor(mp_context=get_context("spawn")) as pool,
    ):
        for done in pool.map(_make, batch, [runs] * len(batch)):
            made.append(done)
            status.update(f"simulated runs: {len(made)} of {len(batch)}")
    told = [(one, run_dir, note) for one, (run_dir, note, _) in zip(batch, made, strict=True) if run_dir is not None]
    for one, (run_dir, note, simulated_s) in zip(batch, made, strict=True):
        if run_dir is None:
            yield _try(one, "unknown", {}, None, simulated_s, note)
    seconds = {one.key: simulated_s for one, (_, _, simulated_s) in zip(batch, made, strict=True)}
    with console.status(f"judging {len(told)} runs"), spark_session(rows=10_000) as spark:
        verdicts = judge(spark, [open_run(run_dir) for _, run_dir, _ in told])
    for (one, run_dir, note), judged in zip(told, verdicts, strict=True):
        counts = {found.type: found.count for found in judged.verdict.anomalies if found.severity == Severity.VIOLATION}
        first = first_witness(run_dir, judged.anomalies, one.anomaly) if one.anomaly in counts else None
        found = _try(one, judged.verdict.verdict, counts, first, seconds[one.key], note)
        if (one.anomaly in counts) if one.off else found.verdict == "valid":
            shutil.rmtree(run_dir)
        else:
            console.print(f" look at   {run_dir}: {found.verdict} {', '.join(counts)} {note or ''}", soft_wrap=True)
        yield found


def _try(
    one: Wanted, verdict: str, anomalies: dict[str, int], first: int | None, simulated_s: float, note: str | None
) -> Try:
    return Try(
        key=one.key,
        subject=one.subject,
        off=one.off,
        seed=one.seed,
        verdict=verdict,
        anomalies=anomalies,
        first_s=None if first is None else first / SECOND,
        simulated_s=simulated_s,
        note=note,
    )


def _make(one: Wanted, runs: Path) -> tuple[Path | None, str | None, float]:
    """In a process of its own: the run's directory, what has to be said of it, and how long it was."""
    out = runs / one.name
    shutil.rmtree(out, ignore_errors=True)
    logging.getLogger("krash.reference").setLevel(
        logging.CRITICAL
    )  # what nodes say of their troubles is not for this terminal
    try:
        done = simulate(one.plan, seed=one.seed, out=out)
    except NotReady as error:
        return None, str(error), 0.0
    return out, "; ".join(done.failures) or None, done.seconds


def _write(
    flags: Flags, defects: Sequence[Defect], wanted: Sequence[Wanted], found: dict[str, Try], console: Console
) -> None:
    mine = [found[one.key] for one in wanted if one.key in found]
    old, asked = kept_table(flags.out), {defect.protection.value for defect in defects}
    before = stated(old)
    made = [row.with_tries([one for one in mine if one.subject == row.protection]) for row in before]
    rows, healthy = made, Share.having([one for one in mine if one.subject == HEALTHY_NAME])
    if flags.only:
        for row in made:
            if row.protection in asked:
                _say_row(row, console)
        rows = [new if _replaces(new, known) else known for new, known in zip(made, before, strict=True)]
        healthy = old.healthy
        if not old.rows or rows == before:
            return
    write_table(flags.out, Table(date=datetime.now(UTC).date().isoformat(), rows=rows, healthy=healthy))
    met = sum(row.meets_bar for row in rows)
    console.print(f" caught    {met} of {len(rows)}; written {flags.out / 'protections.md'}", soft_wrap=True)


def _replaces(row: Row, known: Row) -> bool:
    """A quick look at a few seeds does not take the place of many."""
    return row.off.runs > 0 and min(row.off.runs, row.on.runs) >= known.off.runs


def _say_row(row: Row, console: Console) -> None:
    off, on, also = row.off, row.on, f"; also {', '.join(row.off.also)}" if row.off.also else ""
    console.print(
        f" {row.protection}: {row.anomaly} in {off.found} of {off.runs} without it, {on.found} of {on.runs} with it{also}",
        soft_wrap=True,
    )
