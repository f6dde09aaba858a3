"""Run every check once over all runs together, conclude per run, and write down what was concluded.

Judging never changes a history; `write` puts verdict.json and anomalies/ into the run directory when everything is
known, so that a judgement that fails leaves what was there before.
"""

from __future__ import annotations

import io
import json
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from harness.checker import (
    availability,
    controllers,
    coverage,
    cycles,
    groups,
    identity,
    leaders,
    linearizable,
    loss,
    polls,
    precommitted,
    producers,
    replicas,
    transactions,
    unseen,
    vanished,
)
from harness.checker.availability import Successes
from harness.checker.check import Check, Search
from harness.checker.conclude import Evidence, Found, Judged, Row, conclude
from harness.checker.facts import LogKey, Tally
from harness.checker.glance.plain import Plain
from harness.checker.history import History, offsets, opened, values
from harness.checker.spark_place import SparkPlace
from harness.history.reading import History as Stored
from harness.history.rundir import VERDICT_JSON, write_whole

ANOMALY_DIR = "anomalies"
PASSES_AT_ONCE = 2
ROWS_KEPT = 100_000  # findings per run, type and severity that are written out; the count is always exact

CHECKS: tuple[Check, ...] = (
    loss.CHECK,
    *identity.CHECKS,
    vanished.CHECK,
    unseen.CHECK,
    *transactions.CHECKS,
    precommitted.CHECK,
    *polls.CHECKS,
    *producers.CHECKS,
    *linearizable.CHECKS,
    *cycles.CHECKS,
    groups.BACKWARDS,
    *coverage.CHECKS,
    groups.OWNERS,
    leaders.CHECK,
    *controllers.CHECKS,
    *replicas.CHECKS,
    availability.CHECK,
)


Table = Callable[[History], DataFrame | None]

LOOKED_AT: Mapping[Table, Plain] = {
    offsets: Plain.OFFSETS,
    values: Plain.VALUES,
    polls.steps: Plain.STEPS,
    polls.skips: Plain.SKIPS,
    producers.overtaken: Plain.OVERTAKEN,
    linearizable.inversions: Plain.INVERSIONS,
    linearizable.early_ends: Plain.EARLY_ENDS,
    leaders.overlaps: Plain.OVERLAPS,
}


class Screened(NamedTuple):
    suspects: int
    seconds: float  # its share of the pass over its table


def judge(
    spark: SparkSession, stored: Sequence[Stored], say: Callable[[str], None] = lambda text: None
) -> list[Judged]:
    """One verdict per run, in the order given. `stored`: runs whose files were checked by `open_run`; `say` is told what
    is being done, for whoever waits.
    """
    if not stored:
        return []
    if len({run.info.run for run in stored}) != len(stored):
        raise ValueError("two of the given directories hold the same run")
    with opened(spark, stored) as history:
        return judge_history(history, say)


def judge_history(history: History, say: Callable[[str], None] = lambda text: None) -> list[Judged]:
    """The same for a history that is open already."""
    enabled = {name for run in history.runs.values() for name in run.settings.wanted}
    wanted = [
        check for check in CHECKS if check.name in enabled and (not check.optional or history.rows_of(check.needs))
    ]
    others = {check.needs: history.rows_of(check.needs) for check in wanted if check.optional}
    screened, read = _screen(wanted, history, say)
    found = []
    for check in wanted:
        if suspects := sum(screened[search].suspects for search in check.searches):
            say(f"{check.name}: looking into {suspects:,} suspects")
        found.append(_search(check, history, screened))
    say("availability, and the verdict")
    logs: dict[str, list[tuple[Row, Tally]]] = defaultdict(list)
    for row in history.log_table.to_pylist():
        logs[row["run"]].append((row, history.settled[LogKey(row["run"], row["topic"], row["partition"])]))
    began = time.perf_counter()
    successes = availability.successes(history)
    seconds = time.perf_counter() - began
    outcomes = _outcomes(history)
    bounds = Counter(row["run"] for row in history.bounds.select(["run", "log_end"]).drop_null().to_pylist())
    return [
        _conclude(
            Evidence(
                facts=facts,
                logs=logs[run],
                faults=history.faults_by_run.get(run, []),
                outcomes=outcomes[run],
                read=read[run],
                bounds=bounds[run],
                others={need: rows.get(run, 0) for need, rows in others.items()},
            ),
            found,
            successes,
            seconds,
        )
        for run, facts in history.runs.items()
    ]


def write(run_dir: Path, judged: Judged) -> None:
    """Replace anomalies/ and verdict.json of a run directory; verdict.json last, whole or not at all."""
    fresh = run_dir / f".{ANOMALY_DIR}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    pq.write_table(judged.anomalies, fresh / "anomalies.parquet", compression="zstd")
    shutil.rmtree(run_dir / ANOMALY_DIR, ignore_errors=True)
    fresh.rename(run_dir / ANOMALY_DIR)
    write_whole(run_dir / VERDICT_JSON, json.dumps(judged.verdict.as_json(), indent=2).encode() + b"\n")


def write_at(place: SparkPlace, judged: Judged) -> None:
    """The same where there is no moving of whole directories: an old verdict goes first, the new one comes last."""
    (place / VERDICT_JSON).unlink()
    content = io.BytesIO()
    pq.write_table(judged.anomalies, content, compression="zstd")
    (place / ANOMALY_DIR / "anomalies.parquet").write_bytes(content.getvalue())
    (place / VERDICT_JSON).write_bytes(json.dumps(judged.verdict.as_json(), indent=2).encode() + b"\n")


def _screen(
    checks: Sequence[Check], history: History, say: Callable[[str], None]
) -> tuple[dict[Search, Screened], Counter[str]]:
    """Count the suspects of all searches, one pass per table in which one look did not see that there are none (glance); and
    run -> offsets that anybody read, from that look or from the pass over the ledger.

    Most tables are made of the ledger, so that is first. The others go two at a time: while Spark plans one, which is one
    thread's work, the other keeps the processors busy.
    """
    tables: dict[Table, list[Search]] = {offsets: []}
    for check in checks:
        for search in check.searches:
            tables.setdefault(search.table, []).append(search)
    say("one look at all records")
    began = time.perf_counter()
    plain = {table for table in tables if LOOKED_AT.get(table) in history.plain}
    share = (time.perf_counter() - began) / max(sum(len(tables[table]) for table in plain), 1)
    screened = {search: Screened(0, share) for table in plain for search in tables.pop(table)}
    read = Counter[str]()
    for row in history.looked or ():
        read[row["run"]] += row["offsets_read"]
    passes = len(tables)
    if offsets in tables:
        say(f"looking for suspects, pass 1 of {passes}")
        counted, found = _counted(history, offsets, tables.pop(offsets))
        screened |= counted
        read = read if history.looked is not None else found
    with ThreadPoolExecutor(PASSES_AT_ONCE) as pool:
        counting = [pool.submit(_counted, history, table, searches) for table, searches in tables.items()]
        try:
            for place, one in enumerate(as_completed(counting), 1 + passes - len(tables)):
                say(f"looking for suspects, pass {place} of {passes}")
                screened |= one.result()[0]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return screened, read


def _counted(history: History, table: Table, searches: Sequence[Search]) -> tuple[dict[Search, Screened], Counter[str]]:
    began = time.perf_counter()
    frame = table(history)
    if frame is None:
        return dict.fromkeys(searches, Screened(0, 0.0)), Counter()
    counts = [F.expr(f"count_if({search.suspect})").alias(str(column)) for column, search in enumerate(searches)]
    read: Counter[str] = Counter()
    if table is offsets:
        rows = frame.groupBy("run").agg(F.expr("count_if(read_min is not null)").alias("read"), *counts).collect()
        read.update({row["run"]: row["read"] for row in rows})
    else:
        rows = frame.agg(*counts).collect()
    seconds = (time.perf_counter() - began) / max(len(searches), 1)
    found = {search: Screened(sum(row[str(column)] for row in rows), seconds) for column, search in enumerate(searches)}
    return found, read


def _search(check: Check, history: History, screened: Mapping[Search, Screened]) -> Found:
    """Explain the suspects of a check; without any, nothing is asked of Spark."""
    began = time.perf_counter()
    rows: dict[str, list[Row]] = defaultdict(list)
    findings = [
        search.explain(history, history.few(frame.where(search.suspect), screened[search].suspects))
        for search in check.searches
        if screened[search].suspects and (frame := search.table(history)) is not None
    ]
    if findings:
        for row in _first_of_each(reduce(DataFrame.unionByName, findings)).toArrow().to_pylist():
            rows[row["run"]].append(row)
    for row in _with_totals(list(check.tell(history)) if check.tell is not None else []):
        rows[row["run"]].append(row)
    screening = sum(screened[search].seconds for search in check.searches)
    return Found(check=check, seconds=screening + time.perf_counter() - began, rows=rows)


def _with_totals(told: Sequence[Row]) -> list[Row]:
    totals = Counter((row["run"], row["severity"]) for row in told)
    return [row | {"total": totals[row["run"], row["severity"]]} for row in told]


def _first_of_each(findings: DataFrame) -> DataFrame:
    """The first rows of each run and severity, in an order that does not depend on how rows were stored; with `total`."""
    group = Window.partitionBy("run", "severity")
    ranked = group.orderBy("topic", "partition", "offset", "value", "ops", "from_ns", "sentence")
    return (
        findings.withColumn("total", F.count(F.lit(1)).over(group))
        .withColumn("place", F.row_number().over(ranked))
        .where(F.col("place") <= ROWS_KEPT)
        .orderBy("run", "severity", "place")
        .drop("place")
    )


def _conclude(
    evidence: Evidence, found: Sequence[Found], successes: Mapping[int, Sequence[Successes]], seconds: float
) -> Judged:
    """Availability needs no search: its findings are made here, from this run's faults."""
    logs = {row["log"]: row for row, _ in evidence.logs}
    waits = list(availability.waits(evidence.faults, {log: successes[log] for log in logs if log in successes}))
    run = evidence.facts.run
    broken = availability.beyond(evidence.facts.settings.unavailable_bound, waits, logs)
    late = Found(check=availability.CHECK, seconds=seconds, rows={run: broken})
    return conclude(
        replace(evidence, waits=availability.longest(waits)),
        [one if one.check is not availability.CHECK else late for one in found],
    )


def _outcomes(history: History) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in history.ops.groupBy("run", "outcome").count().collect():
        found[row["run"]][row["outcome"]] = row["count"]
    return found
