"""What reading foreign histories costs: ops (entries) a second, and as a ratio to C's JSON reader on the same entries.

Prints its figures (pytest -s).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.history.formats.edn_values import Keyword
from harness.history.formats.kafka import kafka_tables
from harness.history.formats.of_run import edn_line, json_line
from harness.history.formats.pairing import pair
from harness.history.formats.reading import read_events

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]
ENTRIES = 100_000
WANTED_PER_S = 50_000
MOST_TIMES_JSON = 12  # reading EDN in Python against reading JSON in C


def entries(value: Callable[[int], Any], f: str) -> list[dict[str, Any]]:
    kinds = Keyword("invoke"), Keyword("ok")
    return [
        {"index": n, "time": 10**9 + n * 977, "process": n // 2 % 10, "type": kinds[n % 2], "f": Keyword(f), "value": value(n)}
        for n in range(ENTRIES)
    ]  # fmt: skip


def append(n: int) -> Any:
    return ((Keyword("append"), n % 7, n), (Keyword("r"), 6, (1, 2, n)))


def send_and_poll(n: int) -> Any:
    if not n % 2:
        return ((Keyword("send"), 7, n), (Keyword("poll"),))
    return ((Keyword("send"), 7, (n, n - 1)), (Keyword("poll"), {7: ((n - 3, n - 4), (n - 2, n - 3), (n - 1, n - 2))}))


def taken(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize(
    ("name", "f", "value"),
    [("register", "write", lambda n: n % 5), ("list-append", "txn", append), ("kafka", "txn", send_and_poll)],
)
def test_reading(tmp_path: Path, name: str, f: str, value: Callable[[int], Any]) -> None:
    edn, text = tmp_path / "history.edn", tmp_path / "history.jsonl"
    made = entries(value, f)
    edn.write_text("".join(edn_line(entry) + "\n" for entry in made))
    if name != "kafka":
        text.write_text("".join(json_line(entry) + "\n" for entry in made))
    read = taken(lambda: list(read_events(edn)))
    found = list(read_events(edn))
    paired = taken(lambda: pair(found))
    print(f"\n{name}: EDN {ENTRIES / read:,.0f} entries/s, paired {ENTRIES / paired:,.0f}/s", end="")
    if name == "kafka":
        operations = pair(found).operations
        rows = taken(lambda: kafka_tables(operations, run="r"))
        print(f", as rows {ENTRIES / rows:,.0f}/s ({2 * ENTRIES:,} records)")
        return
    in_c = taken(lambda: [json.loads(line) for line in text.read_text().splitlines()])
    as_json = taken(lambda: list(read_events(text)))
    print(f"; JSON {ENTRIES / as_json:,.0f} entries/s; EDN takes {read / in_c:.1f} times as long as json.loads")
    assert read / in_c < MOST_TIMES_JSON


@pytest.mark.parametrize("value", [lambda n: n % 5, append])
def test_the_stated_speed(tmp_path: Path, value: Callable[[int], Any]) -> None:
    path = tmp_path / "history.edn"
    path.write_text("".join(edn_line(entry) + "\n" for entry in entries(value, "txn")))
    assert ENTRIES / taken(lambda: list(read_events(path))) >= WANTED_PER_S
