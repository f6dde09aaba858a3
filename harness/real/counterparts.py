"""Every protection of the reference cluster with what shows it on real processes, or the reason why nothing does.

Stated before anything is run: with the protection off the checker finds `anomaly`, with it on nothing at all. Where a simulated plan
(harness/simulated/defects.py) draws its faults from a mix, its counterpart is an ordinary spec; where it is a story, a race.
"""

from __future__ import annotations

from typing import Any, Final

from harness.real.counterpart import Counterpart, Played, Run
from harness.real.group_counterparts import GROUP_COUNTERPARTS
from nodes.reference.protections import Protection

SESSIONS: Final = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"}
LONG_SESSIONS: Final = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}
LOG: Final = {"name": "log", "partitions": 1, "assignment": {0: [1, 2, 3]}, "config": {"min.insync.replicas": 2}}


def log(
    *steps: dict[str, Any], topic: dict[str, Any] = LOG, sessions: dict[str, str] = SESSIONS, **more: object
) -> dict[str, Any]:
    """Settings of a spec: writes and reads of one partition with three replicas, while a script breaks things."""
    return {
        "brokers": 3,
        "topics": [topic],
        "workload": {"name": "log", "clients": 2, "consumers": 1},
        "config": {"all": sessions},
        "nemesis": {"safe": False, "script": list(steps)},
        "rate": 1000,
        "time_limit": "25s",
        **more,
    }


KILLED_AGAIN_AND_AGAIN: Final = [
    {"at": f"{second}s", "fault": "kill", "target": "leader of log-0", "for": "1s"} for second in (3, 8, 13, 18)
]

COUNTERPARTS: Final[tuple[Counterpart, ...]] = (
    Counterpart(
        protection=Protection.REPLICATE_BEFORE_ACKNOWLEDGE,
        anomaly="lost-write",
        shown=Run(
            words="spec: both followers are paused, and the leader is killed meanwhile",
            settings=log(
                {"at": "4s", "fault": "pause", "target": "followers of log-0", "as": "silence", "for": "3s"},
                {
                    "when": {"after": "silence", "elapsed": "500ms"},
                    "fault": "kill",
                    "target": "leader of log-0",
                    "for": "9s",
                },
                sessions=LONG_SESSIONS,
            ),
        ),
    ),
    Counterpart(
        protection=Protection.APPEND_BEFORE_ACKNOWLEDGE,
        anomaly="lost-write",
        shown=Run(words="spec: the leader is killed again and again", settings=log(*KILLED_AGAIN_AND_AGAIN)),
    ),
    Counterpart(
        protection=Protection.SEQUENCES_AFTER_FAILOVER,
        anomaly="duplicate",
        shown=Run(
            words="spec: one follower is paused, so that nothing is acknowledged, and the leader is killed",
            settings=log(
                {"at": "4s", "fault": "pause", "target": "b3", "as": "silence", "for": "3s"},
                {"when": {"after": "silence", "elapsed": "500ms"}, "fault": "kill", "target": "b1", "for": "9s"},
                sessions=LONG_SESSIONS,
            ),
        ),
    ),
    Counterpart(
        protection=Protection.UNCLEAN_ELECTION_DISABLED,
        anomaly="lost-write",
        shown=Run(
            words="spec: both followers are dead while 500 records are acknowledged; then they come back, and the leader is dead",
            settings=log(
                {
                    "at": "3s",
                    "fault": "kill",
                    "target": "followers of log-0",
                    "as": "followers",
                    "until": {"after": "last"},
                },
                {
                    "when": {"after": "followers", "isr_of": "log-0", "is": 1, "acknowledged": 500},
                    "fault": "kill",
                    "target": "leader of log-0",
                    "as": "last",
                    "for": "12s",
                },
                topic={**LOG, "config": {"min.insync.replicas": 1}},
                time_limit="30s",
            ),
        ),
    ),
    Counterpart(
        protection=Protection.FSYNC_ON_PRODUCE,
        anomaly="lost-write",
        shown=Run(
            words="spec: all brokers lose power, and have flushed every record before it was acknowledged",
            settings=log(
                {"at": "6s", "fault": "power-loss", "target": "all brokers", "for": "1s"},
                config={"all": SESSIONS, "brokers": {"log.flush.interval.messages": 1}},
            ),
        ),
    ),
    Counterpart(
        protection=Protection.TRUNCATE_BY_EPOCH, anomaly="lost-write", shown=Played(race="truncate_by_epoch.py")
    ),
    Counterpart(
        protection=Protection.END_OFFSET_AFTER_EPOCH_START,
        anomaly="stale-end-offset",
        shown=Played(
            race="end_offset_after_epoch_start.py",
            checks={"enabled": ["lost-write", "inconsistent-offset", "stale-end-offset"]},
        ),
    ),
    Counterpart(
        protection=Protection.BROKER_SELF_FENCING, anomaly="lost-write", shown=Played(race="broker_self_fencing.py")
    ),
    Counterpart(
        protection=Protection.CONTROLLER_SIDE_FENCING,
        anomaly="unavailable",
        shown=Run(
            words="spec: the leader is dead for 25 s, and partitions have to take writes within 15 s",
            settings=log(
                {"at": "3s", "fault": "kill", "target": "leader of log-0", "for": "25s"},
                checks={"unavailable_bound": 15.0},
                time_limit="32s",
            ),
        ),
    ),
    Counterpart(
        protection=Protection.BROKER_EPOCH_AT_CONTROLLER, anomaly="lost-write", shown=Played(race="kafka-14139")
    ),
    Counterpart(
        protection=Protection.BROKER_EPOCH_AT_LEADER,
        anomaly="lost-write",
        shown=Played(race="late_fetch.py"),
    ),
    Counterpart(protection=Protection.MAXIMAL_ISR, anomaly="lost-write", shown=Played(race="maximal_isr.py")),
    Counterpart(
        protection=Protection.ISR_COMMITTED_FIRST, anomaly="lost-write", shown=Played(race="isr_committed_first.py")
    ),
    Counterpart(
        protection=Protection.COMMITTED_BEFORE_ANSWERED,
        anomaly="lost-write",
        shown=Played(race="committed_before_answered.py"),
    ),
    Counterpart(
        protection=Protection.HIGH_WATERMARK_WITHIN_MIN_ISR,
        anomaly="read-then-vanished",
        shown=Played(race="read-then-vanished"),
    ),
    Counterpart(
        protection=Protection.ISR_ELIGIBILITY_AT_CONTROLLER,
        anomaly="fenced-replica",
        shown=Played(race="fenced-replica"),
    ),
    Counterpart(
        protection=Protection.ISR_ELIGIBILITY_AT_LEADER,
        anomaly="fenced-replica",
        shown=Played(race="isr_eligibility_at_leader.py"),
        always_off=(Protection.ISR_ELIGIBILITY_AT_CONTROLLER,),
    ),
    Counterpart(
        protection=Protection.ID_CONFLICT_RESOLVED,
        anomaly="unavailable",
        shown=Played(
            race="two_with_one_id.py", parameters={"variant": "first-dies"}, checks={"unavailable_bound": 10.0}
        ),
    ),
    Counterpart(
        protection=Protection.STALE_EPOCH_IN_HEARTBEAT,
        anomaly="unavailable",
        shown=Played(
            race="two_with_one_id.py", parameters={"variant": "second-dies"}, checks={"unavailable_bound": 10.0}
        ),
    ),
    Counterpart(
        protection=Protection.CHECK_QUORUM, anomaly="two-active-controllers", shown=Played(race="two-controllers")
    ),
    Counterpart(
        protection=Protection.ONE_VOTE_IN_AN_EPOCH,
        anomaly="two-active-controllers",
        shown=Played(race="two_votes.py", parameters={"variant": "goes-on"}),
    ),
    Counterpart(
        protection=Protection.VOTE_PERSISTED,
        anomaly="two-active-controllers",
        shown=Played(race="two_votes.py", parameters={"variant": "restarted"}),
    ),
    Counterpart(
        protection=Protection.FSYNC_ON_VOTE,
        anomaly="two-active-controllers",
        shown=Played(race="two_votes.py", parameters={"variant": "power-loss"}),
    ),
    Counterpart(
        protection=Protection.SNAPSHOT_HAS_ALL_COMMITTED,
        anomaly="lost-write",
        shown=Played(race="snapshot_of_too_much.py"),
    ),
    Counterpart(
        protection=Protection.COMMIT_IN_OWN_EPOCH,
        anomaly="lost-write",
        shown=Played(race="commit_in_own_epoch.py"),
    ),
    Counterpart(
        protection=Protection.FSYNC_ON_APPEND,
        anomaly="lost-write",
        shown=Played(race="fsync_on_append.py"),
    ),
    Counterpart(
        protection=Protection.CHECKSUM_AFTER_TORN_WRITE, anomaly="lost-write", shown=Played(race="torn_batch.py")
    ),
    *GROUP_COUNTERPARTS,
)
