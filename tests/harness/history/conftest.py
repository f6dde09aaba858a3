"""A fresh run directory, and what tests do with it again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.history.recorder import JournalRecorder
from harness.history.rundir import JOURNAL, RunInfo, create_run
from workloads.op import Outcome, Phase

RUN = "2026-11-21T10-14-03-chaos-1f3a"


class Run:
    """A run directory under construction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / JOURNAL
        create_run(path, RunInfo(run=RUN, clock="host", seed=7, system="kafka:4.3.1"))

    def recorder(self, writer: int = 1) -> JournalRecorder:
        return JournalRecorder(self.journal, run=RUN, clock="host", writer=writer, client=f"w{writer}")

    def contents(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.path)): p.read_bytes() for p in sorted(self.path.rglob("*")) if p.is_file()}


def send(
    recorder: JournalRecorder,
    sequences: Sequence[int],
    partition: int = 0,
    phase: Phase = Phase.MAIN,
    transaction: int | None = None,
) -> range:
    n = len(sequences)
    return recorder.invoke_sends(
        client="w1.p0",
        phase=phase,
        topics=["log"] * n,
        partitions=[partition] * n,
        processes=[recorder.new_process() for _ in sequences],
        sequences=sequences,
        values=[f"log/{partition}/{s}" for s in sequences],
        transaction=transaction,
    )


def acknowledge(recorder: JournalRecorder, ops: Sequence[int], offsets: Sequence[int]) -> None:
    n = len(ops)
    recorder.complete_sends(
        ops=ops, outcomes=[Outcome.OK] * n, errors=[None] * n, offsets=offsets, timestamps_ms=[1700000000000] * n
    )


@pytest.fixture
def new_run(tmp_path: Path) -> Callable[[], Run]:
    made: list[Any] = []

    def make() -> Run:
        made.append(None)
        return Run(tmp_path / f"run-{len(made)}")

    return make


@pytest.fixture
def run(new_run: Callable[[], Run]) -> Run:
    return new_run()
