"""What settings promise and how far a final read got: plain functions over plain rows."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from harness.checker.facts import Ending, LogKey, RunFacts, Tally, log_rows, run_facts
from harness.checker.settings import Settings
from harness.history.rundir import RunInfo
from tests.harness.checker.stories import SAFE, clean

KEY = LogKey("r", "log", 0)


def row(facts: RunFacts, *bounds: dict[str, Any], faults: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    found = log_rows({"r": facts}, {KEY: Tally(sends=1, started_ns=5)}, bounds, faults).to_pylist()
    assert len(found) == 1
    return dict(found[0])


def bound(
    op: int, start: int | None = 0, end: int | None = 10, read_to: int | None = 10, error: str | None = None
) -> dict[str, Any]:
    return {
        "run": "r",
        "topic": "log",
        "partition": 0,
        "op": op,
        "invoked_ns": op,
        "log_start": start,
        "log_end": end,
        "read_to": read_to,
        "error": error,
    }


def facts(**info: Any) -> RunFacts:
    return run_facts(RunInfo(run="r", **info))


def topic(**config: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "log",
            "partitions": 1,
            "replication": 3,
            "config": {name.replace("_", "."): value for name, value in config.items()},
        }
    ]


def wiped(status: str = "healed") -> dict[str, Any]:
    return {"run": "r", "name": "wipe", "status": status, "injecting_ns": None if status == "planned" else 1}


@pytest.mark.parametrize(
    ("bounds", "ending", "complete_to"),
    [
        ([], Ending.UNREAD, None),
        ([bound(1)], Ending.READ, 10),
        ([bound(1, read_to=4)], Ending.READ, 4),
        ([bound(1, read_to=12)], Ending.READ, 10),
        ([bound(1, read_to=None)], Ending.UNREAD, None),
        ([bound(1, read_to=None), bound(2)], Ending.READ, 10),
        ([bound(1), bound(2, end=8, read_to=8)], Ending.READ, 8),
        ([bound(2, end=8, read_to=8), bound(1)], Ending.READ, 8),
        ([bound(1), bound(2, None, None, None, "_TIMED_OUT")], Ending.READ, 10),
        ([bound(1), bound(2, None, None, None, "UNKNOWN_TOPIC_OR_PARTITION")], Ending.GONE, None),
        ([bound(1, None, None, None, "UNKNOWN_TOPIC_OR_PARTITION"), bound(2)], Ending.READ, 10),
        ([bound(1, None, None, None, "_TIMED_OUT")], Ending.UNREAD, None),
    ],
)
def test_the_latest_reading_that_says_something_counts(
    bounds: list[dict[str, Any]], ending: str, complete_to: int | None
) -> None:
    found = row(facts(), *bounds)
    assert (found["ending"], found["complete_to"]) == (ending, complete_to)


@pytest.mark.parametrize(
    ("deleted", "ending"),
    [
        ({"topic": "log"}, Ending.DELETED),
        ({"topic": "log", "partition": 0}, Ending.DELETED),
        ({"topic": "log", "partition": 1}, Ending.GONE),
        ({"topic": "other"}, Ending.GONE),
        ({"topic": "log", "partition": 0, "before": 3}, Ending.GONE),
    ],
)
def test_what_the_run_deleted_is_not_gone(deleted: dict[str, Any], ending: str) -> None:
    found = row(facts(more={"deleted": [deleted]}), bound(1, None, None, None, "UNKNOWN_TOPIC_OR_PARTITION"))
    assert found["ending"] == ending


@pytest.mark.parametrize(
    ("topics", "brokers", "may_expire", "compacted"),
    [
        (topic(), {}, False, False),
        (topic(cleanup_policy="delete"), {}, False, False),
        (topic(retention_ms="1000"), {}, True, False),
        (topic(retention_ms="-1"), {}, False, False),
        (topic(retention_bytes="1"), {}, True, False),
        (topic(cleanup_policy="compact"), {}, False, True),
        (topic(cleanup_policy="compact", retention_ms="1000"), {}, False, True),
        (topic(cleanup_policy="compact,delete", retention_ms="1000"), {}, True, True),
        (topic(), {"log.retention.ms": 1000}, True, False),
        (topic(), {"log.retention.hours": 1}, True, False),
        (topic(), {"log.cleanup.policy": "compact"}, False, True),
        (topic(cleanup_policy="delete"), {"log.cleanup.policy": "compact"}, False, False),
    ],
)
def test_only_what_is_configured_may_disappear(
    topics: list[dict[str, Any]], brokers: dict[str, Any], may_expire: bool, compacted: bool
) -> None:
    found = row(facts(topics=topics, spec={"config": {"all": brokers}}))
    assert (found["may_expire"], found["compacted"]) == (may_expire, compacted)


@pytest.mark.parametrize(
    ("info", "faults", "reason"),
    [
        ({"spec": {"workload": SAFE}}, (), None),
        ({"spec": {"workload": {"acks": "1"}}}, (), "acks=1"),
        ({"spec": {"workload": {"acks": 1}}}, (), "acks=1"),
        ({"spec": {"workload": {"acks": -1}}}, (), None),
        ({"topics": topic(unclean_leader_election_enable="true")}, (), "unclean.leader.election.enable=true"),
        (
            {"spec": {"config": {"brokers": {"unclean.leader.election.enable": True}}}},
            (),
            "unclean.leader.election.enable=true",
        ),
        (
            {"spec": {"config": {"nodes": {"b1": {"unclean.leader.election.enable": True}}}}},
            (),
            "unclean.leader.election.enable=true",
        ),
        (
            {
                "topics": topic(unclean_leader_election_enable="false"),
                "spec": {"config": {"all": {"unclean.leader.election.enable": "true"}}},
            },
            (),
            None,
        ),
        ({"topics": topic()}, (wiped(),), None),
        ({"topics": [{"name": "log", "replication": 1}]}, (), None),
        (
            {"topics": [{"name": "log", "replication": 1}]},
            (wiped(),),
            "replication 1 and a fault that takes a disk's content",
        ),
        ({"topics": [{"name": "log", "replication": 1}]}, (wiped("planned"),), None),
    ],
)
def test_loss_is_expected_where_the_settings_allow_it(
    info: dict[str, Any], faults: tuple[dict[str, Any], ...], reason: str | None
) -> None:
    assert row(facts(**info), faults=faults)["loss_reason"] == reason


def test_time_starts_with_the_first_phase_or_the_first_op() -> None:
    assert row(facts())["origin_ns"] == 5
    assert row(facts(phases=[{"name": "deploy", "start_ns": 3, "end_ns": 4}]))["origin_ns"] == 3


def test_a_run_without_settings_is_promised_everything() -> None:
    found = row(facts())
    assert (found["keeps_order"], found["may_duplicate"], found["loss_reason"]) == (False, False, None)
    assert row(run_facts(clean("r").info()))["keeps_order"] is True


def test_settings_name_what_they_do_not_know() -> None:
    with pytest.raises(ValidationError, match=r"'lost-wrote' is no anomaly type; there are lost-write, duplicate"):
        Settings(tolerate=["lost-wrote"])
    assert "stale-end-offset" not in Settings().wanted


def test_a_run_does_not_say_which_checks_there_were_when_it_was_recorded() -> None:
    assert Settings().model_dump(mode="json")["enabled"] is None
    assert Settings(enabled=["lost-write"]).wanted == ["lost-write"]
    assert Settings(enabled=[]).wanted == []
