"""How long `krash check` takes with histories of other tools, from the shell's prompt to the last line.

Goals: 1,000 small histories in one command in 20 s on two cores, the start of Spark included; a large one is read and
judged at 25,000 ops a second of one core.
`python -m pytest tests/benchmarks/benchmark_check.py -m benchmark -s`
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from harness.checker.foreign import Request, judge_path
from tests.harness.checker.models.written import as_edn, entries
from tests.harness.krash import krash
from tests.strategies import random_history

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]
HISTORIES = 1_000


def test_a_thousand_small_histories(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.edn" for number in range(HISTORIES)]
    for number, path in enumerate(paths):
        rng = random.Random(number)
        path.write_text(as_edn(entries(random_history(rng, "cas-register", most=85), rng)))
    krash("check", paths[0], "--model", "cas-register")  # compiles what was not compiled at set-up
    began = time.monotonic()
    ran = krash("check", *paths, "--model", "cas-register", "--json")
    seconds = time.monotonic() - began
    judging = sum(answer["seconds"] for answer in ran.answers)
    print(f"\n{HISTORIES} histories: {seconds:.1f} s, of which workers spent {judging:.1f} s on reading and judging")
    assert len(ran.answers) == HISTORIES
    assert seconds <= 20


@pytest.mark.parametrize("keys", [1, 3_000])
def test_a_large_history(tmp_path: Path, keys: int) -> None:
    count = 200_000
    path = tmp_path / "history.jsonl"
    with path.open("w") as file:
        for number in range(count):
            about = {"process": number % 20, "f": "write", "value": number, "key": number % keys}
            file.writelines(json.dumps({**about, "type": kind}) + "\n" for kind in ("invoke", "ok"))
    began = time.process_time()
    answer = judge_path(path, Request())
    seconds = time.process_time() - began
    print(f"\n{count} ops of {keys} keys: {seconds:.1f} s of one core, {count / seconds:,.0f} ops a second")
    assert answer["verdict"] == "valid"
    assert count / seconds > 25_000
