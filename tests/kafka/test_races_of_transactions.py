"""Races about transactions, and about what consumers read too early, on real Kafka: where the bug is, and where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.krash import krash

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

RACES = Path(__file__).parents[2] / "nemesis" / "races"
TORN = ["lost-write", "torn-transaction"]


@pytest.mark.parametrize(
    ("race", "variant", "system", "anomalies", "lost"),
    [
        ("late_end_txn", "abort-then-commit", "kafka:4.3.1", TORN, 5),
        ("late_end_txn", "no-gate", "kafka:4.3.1", TORN, 5),
        ("late_end_txn", "bumped-epochs", "kafka:4.3.1", [], 0),
        ("read_then_vanished", "elected-by-hand", "kafka:3.6.2", ["read-then-vanished"], 0),
        ("read_then_vanished", "elected-by-hand", "kafka:3.9.2", [], 0),
        ("hanging_transaction", "hang", "kafka:3.4.1", ["hanging-transaction"], 0),
        ("hanging_transaction", "hang", "kafka:4.3.1", [], 0),
        ("hanging_transaction", "librdkafka", "kafka:3.4.1", ["aborted-read"], 0),
    ],
)
def test_a_race_shows_its_bug_where_it_is_and_nothing_where_it_is_fixed(
    race: str, variant: str, system: str, anomalies: list[str], lost: int, tmp_path: Path
) -> None:
    flags = ["--variant", variant, "--system", system, "--json", "--out", tmp_path]
    ran = krash("race", "run", RACES / f"{race}.py", *flags).answer
    assert ran["status"] == "judged", ran["reason"]
    assert (ran["anomalies"], ran["lost"]) == (anomalies, lost)
    assert ran["as_expected"] is True
