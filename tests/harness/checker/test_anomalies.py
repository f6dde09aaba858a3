"""Every type of anomaly is found by some check, explained in the report, and told in docs/anomalies.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checker.anomalies import BY_NAME, TYPES, AnomalyType
from harness.checker.settings import DEFAULT
from reports import explain
from reports.verdict import Severity


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(TYPES)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_a_type_is_told_everywhere(kind: AnomalyType) -> None:
    assert f"| `{kind.name}` | {kind.meaning} |" in Path("docs/anomalies.md").read_text(encoding="utf-8")
    assert kind.name in explain.ANOMALIES


def test_every_type_has_its_check() -> None:
    from harness.checker.judge import CHECKS

    assert sorted(check.name for check in CHECKS) == sorted(BY_NAME)


def test_what_kafka_does_not_promise_is_asked_for_only_by_name() -> None:
    asked = {kind.name for kind in TYPES if kind.severity is Severity.INFORMATION and kind.name in DEFAULT}
    assert asked == {"epoch-inflation"}
