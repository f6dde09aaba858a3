"""Counterparts about consumer groups and transactions."""

from __future__ import annotations

from typing import Any, Final

from harness.real.counterpart import Counterpart, Played, Run
from nodes.reference.protections import Protection

COORDINATED: Final = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "group.initial.rebalance.delay.ms": 500,
    "group.min.session.timeout.ms": 1000,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 300,
}
TOPIC: Final = {"name": "log", "partitions": 6, "replication": 3, "config": {"min.insync.replicas": 2}}
PAUSES: Final = [{"at": f"{second}s", "fault": "pause", "target": "random client", "for": "6s"} for second in (4, 14)]
KILLED_COORDINATORS: Final = [
    {"at": f"{second}s", "fault": "kill", "target": "leader of __consumer_offsets-0", "for": "2s"}
    for second in (5, 12, 19)
]
KILLED_CLIENTS: Final = [
    {"at": f"{second}s", "fault": "kill", "target": "random client", "for": "1s"} for second in (5, 11, 17)
]
LATE_SYNCS: Final = {  # in another order than they were sent: the leader's, which brings the assignment, behind others'
    "at": "4s",
    "fault": "delay-rpc",
    "target": "all clients",
    "apis": ["SyncGroup"],
    "delay": "500ms",
    "jitter": "400ms",
    "for": "20s",
}
FIRST_MEMBERS_KILLED: Final = [  # their ids sort first: all others are assigned something else then
    {"at": f"{second}s", "fault": "kill", "target": "w1", "for": "5s"} for second in (7, 17)
]


def groups(*steps: dict[str, Any], **workload: object) -> dict[str, Any]:
    """Settings of a spec: one group over six partitions."""
    members = {"clients": 3, "members": 2, "process_ms": 20, "session_timeout_ms": 3000, **workload}
    return _spec({"name": "groups", **members}, steps, rate=600)


def transactions(*steps: dict[str, Any], **workload: object) -> dict[str, Any]:
    """Settings of a spec: four transactional producers, of which some are in a group."""
    return _spec({"name": "transactions", "clients": 2, "producers": 2, "records": 20, **workload}, steps, rate=600)


def _spec(workload: dict[str, Any], steps: tuple[dict[str, Any], ...], *, rate: float) -> dict[str, Any]:
    return {
        "brokers": 3,
        "topics": [TOPIC],
        "workload": workload,
        "config": {"all": COORDINATED},
        "nemesis": {"script": list(steps)} if steps else {},
        "rate": rate,
        "time_limit": "25s",
    }


GROUP_COUNTERPARTS: Final[tuple[Counterpart, ...]] = (
    Counterpart(
        protection=Protection.STABLE_OFFSET,
        anomaly="aborted-read",
        shown=Run(words="spec: transactions, a third of which are aborted", settings=transactions(aborts=0.33)),
    ),
    Counterpart(
        protection=Protection.MARKERS_TO_ALL_PARTITIONS,
        anomaly="aborted-read",
        shown=Run(words="spec: transactions, a third of which are aborted", settings=transactions(aborts=0.33)),
    ),
    Counterpart(
        protection=Protection.PRODUCER_EPOCH_AT_COORDINATOR,
        anomaly="torn-transaction",
        shown=Run(
            words="spec: transactions, in a third of which another producer takes the id over",
            settings=transactions(zombies=0.33),
        ),
    ),
    Counterpart(
        protection=Protection.DECISION_BEFORE_MARKERS,
        anomaly="torn-transaction",
        shown=Played(race="decision_before_markers.py"),
    ),
    Counterpart(
        protection=Protection.OFFSET_COMMIT_WRITTEN,
        anomaly="committed-offset-backwards",
        shown=Run(
            words="spec: a group whose coordinator is killed again and again", settings=groups(*KILLED_COORDINATORS)
        ),
    ),
    Counterpart(
        protection=Protection.GENERATION_FENCED,
        anomaly="two-owners",
        shown=Run(
            words="spec: a group of members that stay, and are paused for longer than their session",
            settings=groups(*PAUSES, stay_ms=None),
        ),
    ),
    Counterpart(
        protection=Protection.SYNC_WAITS_FOR_ASSIGNMENT,
        anomaly="two-owners",
        shown=Run(
            words="spec: a group of which a third is killed now and then, and whose SyncGroup requests come late and in any order",
            settings={**groups(LATE_SYNCS, *FIRST_MEMBERS_KILLED, members=3, stay_ms=None), "wire_clients": True},
        ),
    ),
    Counterpart(
        protection=Protection.STATIC_MEMBER_FENCED,
        anomaly="two-owners",
        shown=Run(
            words="spec: two processes have one group.instance.id",
            settings=groups(clients=2, members=1, stay_ms=[4000, 8000], consumer_config={"group.instance.id": "twin"}),
        ),
    ),
    Counterpart(
        protection=Protection.TRANSACTIONAL_OFFSETS_WAIT,
        anomaly="committed-past-processed",
        shown=Run(
            words="spec: transactions that commit a group's offsets, a third of which are aborted; clients are killed",
            settings=transactions(*KILLED_CLIENTS, aborts=0.33, mixed=1.0),
        ),
    ),
    Counterpart(
        protection=Protection.UNSTABLE_OFFSETS_REFUSED,
        anomaly="committed-offset-backwards",
        shown=Run(
            words="spec: transactions that commit a group's offsets, whose markers come 3 s late; clients are killed",
            settings=transactions(
                {
                    "at": "2s",
                    "fault": "delay-rpc",
                    "target": "all brokers",
                    "apis": ["WriteTxnMarkers"],
                    "delay": "3s",
                    "for": "20s",
                },
                *KILLED_CLIENTS,
                mixed=1.0,
            ),
        ),
    ),
    Counterpart(
        protection=Protection.TRANSACTION_VERIFIED,
        anomaly="aborted-read",
        shown=Played(race="hanging-transaction", parameters={"variant": "aborted-read"}),
    ),
    Counterpart(
        protection=Protection.PRODUCER_EPOCH_FENCED,
        anomaly="aborted-read",
        shown=Played(race="late_message.py", parameters={"variant": "produce"}),
    ),
    Counterpart(
        protection=Protection.COORDINATOR_EPOCH_FENCED,
        anomaly="aborted-read",
        shown=Played(race="late_message.py", parameters={"variant": "marker"}),
    ),
)
