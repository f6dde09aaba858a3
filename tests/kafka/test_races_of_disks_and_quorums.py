"""Races about lost disks and controllers on real Kafka: where the bug is, it shows; where it is fixed, it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.krash import krash

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

RACES = Path(__file__).parents[2] / "nemesis" / "races"


@pytest.mark.parametrize(
    ("race", "variant", "system", "anomalies", "lost"),
    [
        ("last_replica_standing", "peers-partitioned", "kafka:3.4.1", ["lost-write"], 200),
        ("last_replica_standing", "peers-partitioned", "kafka:4.3.1", [], 0),
        ("two_controllers", "partial-cut", "kafka:3.4.1", ["two-active-controllers"], 0),
        ("two_controllers", "partial-cut", "kafka:4.3.1", [], 0),
        ("controller_disk", "static", "kafka:4.3.1", ["lost-write"], 200),
        ("controller_disk", "dynamic-new-id", "kafka:4.3.1", [], 0),
        ("epoch_inflation", "isolated", "kafka:3.9.2", ["epoch-inflation"], 0),
        ("epoch_inflation", "isolated", "kafka:4.3.1", [], 0),
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
