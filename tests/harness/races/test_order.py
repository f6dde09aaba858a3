"""From a name (or a file), flags and settings to what a race's run is made of; and whether it came as expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.race_order import Order, as_expected, settle, spec_of
from harness.races import find_race
from nemesis.races.expectation import Expectation
from reports.verdict import AnomalySummary, Counts, Verdict

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "my_race.py")


def settled(system: str = "kafka:4.3.1", **settings: Any) -> Order:
    return settle(EXAMPLE, system=system, variant=None, settings=settings)[0]


def test_a_file_is_a_race_like_one_with_a_name() -> None:
    order = settled(records=7)
    assert (order.race.name, order.source, order.system, order.version) == ("acks-one", EXAMPLE, "kafka:4.3.1", "4.3.1")
    assert order.parameters.model_dump() == {"variant": "cut-off", "records": 7}
    assert not order.needs_gate
    kept = order.as_json()
    assert kept["expected"]["outcome"] == "lost-write"
    spec = spec_of(order, backend="local", seed=3, settings={})
    assert Order.of_run(spec, kept).as_json() == kept


def test_the_metadata_version_comes_with_the_system_or_as_a_setting() -> None:
    assert settled("kafka:4.3.1@3.4").metadata_version == "3.4"
    assert settled("kafka:4.3.1", metadata_version=3.4).metadata_version == "3.4"
    assert settled("kafka:4.3.1@3.9", metadata_version="3.5-IV0").metadata_version == "3.5-IV0"
    assert settled("kafka:4.3.1").metadata_version is None


def test_settings_that_are_not_the_races_go_to_the_spec_or_are_refused() -> None:
    order, rest = settle(
        EXAMPLE,
        system="kafka:3.4.1",
        variant="in-step",
        settings={"recovery_limit": "9s", "config.all.num.io.threads": 8, "checks.tolerate": ["lost-write"]},
    )
    assert order.config == {"num.io.threads": "8"}
    spec = spec_of(order, backend="local", seed=None, settings=rest)
    assert spec.recovery_limit == 9
    assert spec.config.all["num.io.threads"] == "8"
    assert list(spec.checks.tolerate) == ["lost-write"]
    with pytest.raises(UsageError, match="has no parameter 'speed'; it has: variant, records"):
        settled(speed=3)


def test_the_spec_of_a_race_says_what_its_clients_promise_and_how_it_is_read() -> None:
    spec = spec_of(settled(), backend="local", seed=None, settings={})
    assert (spec.name, spec.controllers, spec.brokers) == ("acks-one", 1, 2)
    assert spec.topics[0].assignment == {0: [1, 2]}
    assert spec.workload.settings["acks"] == "1"
    assert spec.workload.settings["idempotence"] is False
    assert spec.nemesis.mix is None
    assert spec.config.all["broker.session.timeout.ms"] == "2500"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "no such file"),
        ("x = 1\n", "expected one race in it, found 0"),
        ("import nothing_there\n", "cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_a_file_that_is_no_race_is_refused_with_its_name(tmp_path: Path, text: str | None, complaint: str) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=f"mine.py: {complaint}"):
        find_race(str(path))


def verdict(validity: str, *types: str, status: str = "judged", lost: int = 0, severity: str = "violation") -> Verdict:
    return Verdict(
        run="r",
        verdict=validity,
        status=status,
        reason=None,
        anomalies=[
            AnomalySummary(
                type=name,
                severity=severity,
                count=1,
                expected=False,
                tolerated=False,
                sentence="",
                witnesses=[],
            )
            for name in types
        ],
        counts=Counts(ops={}, attempted=1, acknowledged=1, read=1, lost=lost),
    )


@pytest.mark.parametrize(
    ("outcome", "found", "came"),
    [
        ("lost-write", verdict("invalid", "lost-write", lost=1), True),
        ("lost-write", verdict("invalid", "duplicate"), False),
        ("lost-write", verdict("valid"), False),
        ("valid", verdict("valid"), True),
        ("valid", verdict("unknown"), False),
        ("valid", verdict("unknown", status="not-reached"), None),
        ("lost-write", verdict("unknown", status="harness-error"), None),
        ("unavailable", verdict("unknown"), True),
        ("unavailable", verdict("invalid", "lost-write", lost=3), False),
        ("unavailable", verdict("valid"), False),
    ],
)
def test_what_came_is_compared_with_what_was_stated(outcome: str, found: Verdict, came: bool | None) -> None:
    assert as_expected(Expectation(outcome=outcome), found) is came


@pytest.mark.parametrize(
    ("outcome", "shows", "came"),
    [
        ("epoch-inflation", {"epoch-inflation"}, True),
        ("epoch-inflation", set(), False),
        ("valid", {"epoch-inflation"}, False),
        ("valid", set(), True),
        ("valid", {"lost-write"}, True),
    ],
)
def test_what_a_race_is_there_to_show_counts_although_it_is_information(
    outcome: str, shows: set[str], came: bool
) -> None:
    found = verdict("valid", "epoch-inflation", severity="information")
    assert as_expected(Expectation(outcome=outcome), found, shows) is came


def test_a_race_shows_what_its_table_names() -> None:
    assert settled().shows == {"lost-write"}


def test_where_nothing_was_stated_nothing_differs() -> None:
    assert as_expected(None, verdict("invalid", "lost-write")) is None
