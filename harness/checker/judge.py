"""Run every check once over all runs together, conclude per run, and write down what was concluded.

Judging never changes a history; `write` puts verdict.json and anomalies/ into the run directory when everything is known, so that a judgement that
fails leaves what was there before.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from harness.checker import availability, identity, linearizable, loss, polls, producers
from harness.checker.check import Check
from harness.checker.conclude import Evidence, Found, Judged, Row, conclude
from harness.checker.facts import LogKey, Tally
from harness.checker.history import History, opened
from harness.history.reading import History as Stored
from harness.history.rundir import VERDICT_JSON, write_whole

ANOMALY_DIR = "anomalies"
ROWS_KEPT = 100_000  # findings per run, type and severity that are written out; the count is always exact

CHECKS: tuple[Check, ...] = (
    loss.CHECK,
    *identity.CHECKS,
    *polls.CHECKS,
    producers.CHECK,
    *linearizable.CHECKS,
    availability.CHECK,
)


def judge(spark: SparkSession, stored: Sequence[Stored]) -> list[Judged]:
    """One verdict per run, in the order given. `stored`: runs whose files were checked by `open_run`."""
    if not stored:
        return []
    if len({run.info.run for run in stored}) != len(stored):
        raise ValueError("two of the given directories hold the same run")
    with opened(spark, stored) as history:
        return judge_history(history)


def judge_history(history: History) -> list[Judged]:
    enabled = {name for run in history.runs.values() for name in run.settings.enabled}
    found = [_search(check, history) for check in CHECKS if check.name in enabled]
    logs: dict[str, list[tuple[Row, Tally]]] = defaultdict(list)
    for row in history.log_table.to_pylist():
        logs[row["run"]].append((row, history.tallies[LogKey(row["run"], row["topic"], row["partition"])]))
    faults: dict[str, list[Row]] = defaultdict(list)
    for row in history.fault_rows:
        faults[row["run"]].append(row)
    waits: dict[str, dict[int, tuple[float | None, float | None]]] = defaultdict(dict)
    for (run, fault), wait in availability.waits(history).items():
        waits[run][fault] = wait
    outcomes, read, bounds = _outcomes(history), _offsets_read(history), _bounds_asked(history)
    return [
        conclude(
            Evidence(
                facts=facts,
                logs=logs[run],
                faults=faults[run],
                waits=waits[run],
                outcomes=outcomes[run],
                read=read.get(run, 0),
                bounds=bounds.get(run, 0),
            ),
            found,
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


def _search(check: Check, history: History) -> Found:
    began = time.perf_counter()
    findings = check.find(history)
    rows: dict[str, list[Row]] = defaultdict(list)
    if findings is not None:
        for row in _first_of_each(findings).toArrow().to_pylist():
            rows[row["run"]].append(row)
    return Found(check=check, seconds=time.perf_counter() - began, rows=rows)


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


def _outcomes(history: History) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for row in history.ops.groupBy("run", "outcome").count().collect():
        found[row["run"]][row["outcome"]] = row["count"]
    return found


def _offsets_read(history: History) -> dict[str, int]:
    """Run -> offsets that anybody read."""
    per_log = history.ledger.where("read_min is not null").groupBy("log").count()
    rows = per_log.join(F.broadcast(history.logs), "log").groupBy("run").agg(F.sum("count").alias("read")).collect()
    return {row["run"]: row["read"] for row in rows}


def _bounds_asked(history: History) -> dict[str, int]:
    rows = history.bounds.where("log_end is not null").groupBy("run").count().collect()
    return {row["run"]: row["count"] for row in rows}
