"""The judge as a process of its own: `python -m harness.checker.process`, JSON lines in and out, started while a workload still runs.

    out  {"warm": 6.2}                                  seconds until the session was up and had judged a history once
    in   {"judge": ["/runs/a", "/runs/b"]}              one Spark job over all of them
    out  {"run_dir": "/runs/a", "verdict": {...}}       one line per directory, in order; verdict.json is written
    out  {"run_dir": "/runs/b", "error": "..."}         it cannot be judged; nothing of it was changed, the others were judged

It starts at low priority, so that warming up does not take the machine from what is being tested, and warms up by judging a tiny history of its
own: Spark compiles the plans of the checks then, and not when a person waits. It ends at the end of its input, so it cannot outlive its parent.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from harness.checker import judge
from harness.checker.session import spark_session
from harness.checker.warm_up import tiny_run
from harness.history.errors import HistoryError
from harness.history.reading import History, open_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NICE = 10
Answer = dict[str, Any]


def judged(spark: SparkSession, directories: Sequence[Path]) -> list[Answer]:
    """An answer per directory, in order; verdict.json and anomalies/ of those that could be judged are written."""
    answers: dict[Path, Answer] = {}
    readable: list[tuple[Path, History]] = []
    seen: dict[str, Path] = {}
    for directory in directories:
        try:
            history = open_run(directory)
        except HistoryError as error:
            answers[directory] = {"run_dir": str(directory), "error": str(error)}
            continue
        other = seen.setdefault(history.info.run, directory)
        if other == directory:
            readable.append((directory, history))
        else:
            answers[directory] = {"run_dir": str(directory), "error": f"{directory} is the same run as {other}"}
    for (directory, _), found in zip(readable, judge.judge(spark, [h for _, h in readable]), strict=True):
        judge.write(directory, found)
        answers[directory] = {"run_dir": str(directory), "verdict": found.verdict.as_json()}
    return [answers[directory] for directory in directories]


def serve(spark: SparkSession, requests: Iterable[str], answers: IO[str]) -> None:
    """Answer requests until they end."""
    for line in requests:
        directories = [Path(directory) for directory in json.loads(line)["judge"]]
        for answer in judged(spark, directories):
            _say(answers, answer)


def _warm_up(spark: SparkSession) -> None:
    with tempfile.TemporaryDirectory(prefix="krash-warm-") as scratch:
        judge.judge(spark, [open_run(tiny_run(Path(scratch) / "run"))])


def _say(answers: IO[str], answer: Answer) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def main() -> int:
    os.nice(NICE)
    started = time.monotonic()
    with spark_session() as spark:
        if "--cold" not in sys.argv:
            _warm_up(spark)
        _say(sys.stdout, {"warm": round(time.monotonic() - started, 3)})
        serve(spark, sys.stdin, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
