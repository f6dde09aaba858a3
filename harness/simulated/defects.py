"""Every protection of the reference cluster with the simulated run that shows what it is for, and the anomaly that has to come of it.

Stated before anything is run: with the protection off the checker finds `anomaly`, with it on nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from harness.simulated.cluster import Topic
from harness.simulated.defect import (
    ANYTHING,
    BUSY,
    COORDINATORS,
    CUTS,
    FRESH,
    KILLS,
    LAG_AND_KILLS,
    LOST_ANSWERS,
    POWER,
    QUICK,
    SAFE_TOPIC,
    TWO_KILLS,
    Defect,
    log,
    scripted,
    transactions,
)
from harness.simulated.group_defects import GROUP_DEFECTS, HEALTHY_GROUPS
from harness.simulated.scripts import leaders_die_in_turn, stale_alter_partition
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.protections import Protection

HEALTHY: Final = (
    replace(log(ANYTHING), name="healthy-log"),
    replace(transactions(ANYTHING), name="healthy-transactions"),
    *HEALTHY_GROUPS,
)

DEFECTS: Final = (
    Defect(
        protection=Protection.REPLICATE_BEFORE_ACKNOWLEDGE,
        anomaly="lost-write",
        plan=replace(log(LAG_AND_KILLS, session=900 * MILLISECOND), producer=QUICK),
    ),
    Defect(protection=Protection.APPEND_BEFORE_ACKNOWLEDGE, anomaly="lost-write", plan=log(KILLS)),
    Defect(
        protection=Protection.TRUNCATE_BY_EPOCH,
        anomaly="lost-write",
        plan=replace(log(KILLS, Topic(partitions=1)), script=leaders_die_in_turn, producer=QUICK),
    ),
    Defect(
        protection=Protection.END_OFFSET_AFTER_EPOCH_START,
        anomaly="stale-end-offset",
        plan=replace(log(KILLS, checks=FRESH, session=900 * MILLISECOND), producer=QUICK),
    ),
    Defect(
        protection=Protection.SEQUENCES_AFTER_FAILOVER,
        anomaly="duplicate",
        plan=replace(log(LOST_ANSWERS), producer=QUICK),
    ),
    Defect(protection=Protection.UNCLEAN_ELECTION_DISABLED, anomaly="lost-write", plan=log(TWO_KILLS, Topic())),
    Defect(protection=Protection.FSYNC_ON_PRODUCE, anomaly="lost-write", plan=log(POWER, SAFE_TOPIC, flush_messages=1)),
    Defect(
        protection=Protection.CONTROLLER_SIDE_FENCING,
        anomaly="unavailable",
        plan=log(replace(KILLS, shortest=8 * SECOND, longest=10 * SECOND), checks={"unavailable_bound": 6.0}),
    ),
    Defect(protection=Protection.BROKER_SELF_FENCING, anomaly="stale-end-offset", plan=log(CUTS, checks=FRESH)),
    Defect(
        protection=Protection.BROKER_EPOCH_AT_CONTROLLER, anomaly="lost-write", plan=scripted(stale_alter_partition)
    ),
    Defect(protection=Protection.STABLE_OFFSET, anomaly="aborted-read", plan=transactions(KILLS)),
    Defect(  # what was aborted and never got its marker is committed by its producer's next transaction
        protection=Protection.MARKERS_TO_ALL_PARTITIONS, anomaly="aborted-read", plan=transactions(KILLS)
    ),
    Defect(  # a zombie's end counts for the transaction of whoever has the id now
        protection=Protection.PRODUCER_EPOCH_AT_COORDINATOR, anomaly="torn-transaction", plan=transactions(KILLS)
    ),
    Defect(
        protection=Protection.DECISION_BEFORE_MARKERS,
        anomaly="torn-transaction",
        plan=replace(transactions(COORDINATORS, session=900 * MILLISECOND), transactions=BUSY),
    ),
    *GROUP_DEFECTS,
)
_TESTS: Final = "tests/nodes/reference/"
_SHOWN_BY: Final[Mapping[str, tuple[Protection, ...]]] = {
    "raft/test_lockstep.py": (
        Protection.VOTE_PERSISTED,
        Protection.ONE_VOTE_IN_AN_EPOCH,
        Protection.COMMIT_IN_OWN_EPOCH,
        Protection.FSYNC_ON_VOTE,
        Protection.FSYNC_ON_APPEND,
    ),
    "simulation/test_quorum.py": (Protection.CHECK_QUORUM, Protection.SNAPSHOT_HAS_ALL_COMMITTED),
    "partition/test_leader.py": (
        Protection.MAXIMAL_ISR,
        Protection.ISR_COMMITTED_FIRST,
        Protection.HIGH_WATERMARK_WITHIN_MIN_ISR,
    ),
    "partition/test_membership.py": (Protection.BROKER_EPOCH_AT_LEADER, Protection.ISR_ELIGIBILITY_AT_LEADER),
    "controller/test_properties.py": (
        Protection.ISR_ELIGIBILITY_AT_CONTROLLER,
        Protection.COMMITTED_BEFORE_ANSWERED,
        Protection.STALE_EPOCH_IN_HEARTBEAT,
        Protection.ID_CONFLICT_RESOLVED,
    ),
    "log/test_log.py": (Protection.CHECKSUM_AFTER_TORN_WRITE,),
}
ELSEWHERE: Final[Mapping[Protection, str]] = {
    protection: _TESTS + file for file, protections in _SHOWN_BY.items() for protection in protections
}
