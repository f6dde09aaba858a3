"""Which anomalies contradict which consistency model, as published with elle-cli's test data."""

from __future__ import annotations

import pytest

from harness.checker.models.model import Question
from harness.checker.models.transactions import LIST_APPEND
from harness.checker.serializability.consistency import ALIASES, MODELS, UnknownConsistency, forbidden
from reports.verdict import Validity
from tests.harness.checker.serializability.shorthand import in_turn, together

STRONG = {"strong-snapshot-isolation", "strong-serializable"}
SESSION = {"strong-session-snapshot-isolation", "strong-session-serializable"} | STRONG
SNAPSHOT = {"snapshot-isolation", "serializable"} | SESSION
ATOMIC = {"read-atomic", "causal-cerone", "prefix", "parallel-snapshot-isolation", "update-atomic"} | SNAPSHOT
VIEWS = {"consistent-view", "forward-consistent-view", "update-serializable", "repeatable-read"}
COMMITTED = ATOMIC | VIEWS
COMMITTED |= {"read-committed", "strong-read-committed", "strong-session-read-committed", "cursor-stability"}
COMMITTED |= {"monotonic-view", "monotonic-atomic-view", "monotonic-snapshot-read"}
EVERY = COMMITTED | {"read-uncommitted", "strong-read-uncommitted", "strong-session-read-uncommitted"}


@pytest.mark.parametrize(
    ("anomaly", "models"),
    [
        ("G0", EVERY),
        ("duplicate-elements", EVERY),
        ("G1a", COMMITTED),
        ("G1b", COMMITTED),
        ("dirty-update", COMMITTED),
        ("future-read", COMMITTED),
        ("incompatible-order", COMMITTED),
        ("internal", ATOMIC),
        ("lost-update", SNAPSHOT | VIEWS | {"cursor-stability", "update-atomic", "parallel-snapshot-isolation"}),
        ("G-single-item", SNAPSHOT | VIEWS | {"parallel-snapshot-isolation"}),
        ("G-nonadjacent-item", SNAPSHOT | {"repeatable-read"}),
        ("G2-item", {"repeatable-read", "serializable", "strong-session-serializable", "strong-serializable"}),
        ("G1c-process", {"strong-session-read-committed", "strong-read-committed"} | SESSION),
        ("G1c-realtime", {"strong-read-committed"} | STRONG),
        ("G-single-item-realtime", STRONG),
    ],
)
def test_models_that_forbid_an_anomaly(anomaly: str, models: set[str]) -> None:
    assert {name for name, anomalies in MODELS.items() if anomaly in anomalies} == models


def test_names_and_other_names() -> None:
    assert forbidden(()) == forbidden(("strict-serializable",)) == MODELS["strong-serializable"]
    assert forbidden(("pl-2",)) == forbidden(("Read-Committed",))
    assert set(ALIASES.values()) <= set(MODELS)
    with pytest.raises(UnknownConsistency, match=r"'serialisable'.*repeatable-read.*strict-serializable"):
        forbidden(("serializable", "serialisable"))


@pytest.mark.parametrize(
    ("consistency", "verdict"),
    [
        ((), Validity.INVALID),
        (("snapshot-isolation",), Validity.VALID),
        (("read-committed", "snapshot-isolation"), Validity.VALID),
        (("repeatable-read",), Validity.INVALID),
        (("read-committed", "serializable"), Validity.INVALID),
    ],
)
def test_the_models_asked_for_decide(consistency: tuple[str, ...], verdict: Validity) -> None:
    judgement = LIST_APPEND.judge(together("ax1 ry", "ay1 rx"), Question(consistency=consistency))
    assert judgement.verdict == verdict
    assert [(one.type, one.violation) for one in judgement.found] == [("G2-item", verdict == Validity.INVALID)]


def test_real_time_counts_only_for_strong_models() -> None:
    stale = in_turn("ax1", "rx")
    for name in MODELS:
        wanted = Validity.INVALID if name in STRONG else Validity.VALID
        assert LIST_APPEND.judge(stale, Question(consistency=(name,))).verdict == wanted, name
