"""Entries of the catch table about consumer groups and transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.simulated.chaos import Mix
from harness.simulated.cluster import Shape, Topic
from harness.simulated.defect import ANYTHING, KILLS, SAFE_TOPIC, Defect
from harness.simulated.group_scripts import (
    late_marker,
    late_markers_of_offsets,
    late_produce,
    late_produce_of_a_zombie,
)
from harness.simulated.member import MemberSettings
from harness.simulated.member_faults import MemberMix
from harness.simulated.producer import ProducerSettings
from harness.simulated.run import Plan
from harness.simulated.stage import Script
from harness.simulated.transactor import TransactionSettings
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.protections import Protection

NOTHING: Final = Mix(weights={})
LONG_PAUSES: Final = MemberMix(weights={"pause": 1}, every=SECOND, shortest=3 * SECOND, longest=6 * SECOND)
UNTROUBLED: Final = MemberMix(weights={})
RESTARTS: Final = MemberMix(weights={"pause": 2, "kill": 1})
DYNAMIC: Final = MemberSettings()
STAYING: Final = MemberSettings(stay=(15 * SECOND, 25 * SECOND))
STATIC: Final = MemberSettings(twins=2)
MANY: Final = MemberSettings(members=3, stay=(2 * SECOND, 6 * SECOND))
RESTLESS_TRANSACTIONAL: Final = MemberSettings(members=3, stay=(SECOND, 3 * SECOND), transactional=True, aborts=0.0)
TRANSACTIONAL: Final = MemberSettings(transactional=True)
SHARED: Final = Topic(partitions=6, config={"min.insync.replicas": "2"})


def groups(mix: Mix, members: MemberSettings = DYNAMIC, member_mix: MemberMix = RESTARTS) -> Plan:
    return Plan(
        mix=mix,
        workload="groups",
        shape=Shape(topics=(SHARED,), min_insync_replicas=2),
        duration=25 * SECOND,
        producer=ProducerSettings(pause=500 * MILLISECOND),
        members=members,
        member_mix=member_mix,
    )


def told(script: Script) -> Plan:
    """Beside the workload of transactions, with a partition led by each broker."""
    topic = replace(SAFE_TOPIC, partitions=3)
    return Plan(
        workload="transactions",
        shape=Shape(topics=(topic,)),
        duration=25 * SECOND,
        transactions=TransactionSettings(pause=300 * MILLISECOND),
        script=script,
    )


HEALTHY_GROUPS: Final = (
    replace(groups(ANYTHING), name="healthy-groups"),
    replace(groups(ANYTHING, STATIC), name="healthy-static-groups"),
    replace(groups(ANYTHING, TRANSACTIONAL), name="healthy-transactional-groups"),
)

GROUP_DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(
        protection=Protection.OFFSET_COMMIT_WRITTEN,
        anomaly="committed-offset-backwards",
        plan=replace(groups(KILLS), duration=40 * SECOND),
    ),
    Defect(
        protection=Protection.GENERATION_FENCED,
        anomaly="two-owners",
        plan=groups(NOTHING, STAYING, LONG_PAUSES),
    ),
    Defect(
        protection=Protection.SYNC_WAITS_FOR_ASSIGNMENT, anomaly="two-owners", plan=groups(NOTHING, MANY, UNTROUBLED)
    ),
    Defect(
        protection=Protection.STATIC_MEMBER_FENCED,
        anomaly="two-owners",
        plan=groups(NOTHING, STATIC),
    ),
    Defect(
        protection=Protection.TRANSACTIONAL_OFFSETS_WAIT,
        anomaly="committed-past-processed",
        plan=groups(NOTHING, TRANSACTIONAL),
    ),
    Defect(
        protection=Protection.UNSTABLE_OFFSETS_REFUSED,
        anomaly="committed-offset-backwards",
        plan=replace(groups(NOTHING, RESTLESS_TRANSACTIONAL), script=late_markers_of_offsets),
    ),
    Defect(  # of the transaction that was aborted, the late record is committed by the next one
        protection=Protection.TRANSACTION_VERIFIED, anomaly="aborted-read", plan=told(late_produce)
    ),
    Defect(  # the zombie's record shares the fate of its successor's transaction
        protection=Protection.PRODUCER_EPOCH_FENCED, anomaly="aborted-read", plan=told(late_produce_of_a_zombie)
    ),
    Defect(  # what the next transaction has written by then is committed before it is aborted
        protection=Protection.COORDINATOR_EPOCH_FENCED, anomaly="aborted-read", plan=told(late_marker)
    ),
)
