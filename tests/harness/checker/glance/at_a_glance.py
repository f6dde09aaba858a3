"""Stories as the job of looking sees them, without Spark: all of them in one batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from harness.checker import transactions
from harness.checker.facts import LogKey, Tally, log_rows, run_facts
from harness.checker.glance.logs import look
from harness.checker.glance.plain import Plain, plain
from tests.harness.checker.stories import Story
from workloads.op import BOUNDS, RECORDS

COUNTED = set(Tally.__annotations__) - {"log", "found_anyway"}

# What is found in a table: without a suspect in (one of) these, there can be no such finding.
TABLES: dict[str, set[Plain]] = {
    "lost-write": {Plain.OFFSETS},
    "read-then-vanished": {Plain.OFFSETS},
    "inconsistent-offset": {Plain.OFFSETS, Plain.VALUES},
    "duplicate": {Plain.VALUES},
    "phantom-value": {Plain.VALUES},
    "aborted-read": {Plain.VALUES},
    "nonmonotonic-poll": {Plain.STEPS},
    "int-nonmonotonic-poll": {Plain.STEPS},
    "poll-skip": {Plain.SKIPS},
    "int-poll-skip": {Plain.SKIPS},
    "producer-reorder": {Plain.OVERTAKEN},
    "nonlinearizable-log": {Plain.INVERSIONS},
    "stale-end-offset": {Plain.EARLY_ENDS},
    "unfenced-leader": {Plain.OVERLAPS},
}


def looked(stories: Sequence[Story]) -> dict[str, list[dict[str, Any]]]:
    """run -> its LOOKED rows; all stories are looked at together."""
    records = pa.Table.from_pylist([asdict(row) for story in stories for row in story.records], RECORDS)
    bounds = pa.Table.from_pylist([asdict(row) for story in stories for row in story.bounds], BOUNDS)
    found = defaultdict(list)
    for row in look(records, bounds, fates(stories), foreign=False).to_pylist():
        found[row["run"]].append(row)
    return dict(found)


def fates(stories: Sequence[Story]) -> pa.Table:
    """As history.py has them."""
    ops = [asdict(op) for story in stories for op in story.ops if op.kind in ("begin", "commit", "abort")]
    told = transactions.transactions(ops)
    facts = {story.run: run_facts(story.info()) for story in stories}
    sent = {
        (story.run, r.topic, r.partition, r.value): r.transaction
        for story in stories
        for r in story.records
        if r.kind == "send" and r.transaction is not None
    }
    read = {
        (story.run, sent[story.run, r.topic, r.partition, r.value])
        for story in stories
        for r in story.records
        if r.kind == "poll" and r.outcome == "ok" and (story.run, r.topic, r.partition, r.value) in sent
        if facts[story.run].read_committed
    }
    return transactions.fates(transactions.proven(told, read), facts)


def plain_tables(story: Story, rows: Sequence[dict[str, Any]]) -> frozenset[Plain]:
    facts = {story.run: run_facts(story.info())}
    tallies = {
        LogKey(row["run"], row["topic"], row["partition"]): Tally(**{name: row[name] for name in COUNTED})
        for row in rows
    }
    bounds = [asdict(row) for row in story.bounds if row.phase == "final"]
    logs = log_rows(facts, tallies, bounds, [asdict(row) for row in story.faults])
    return plain(rows, logs.to_pylist(), foreign=False)
