"""Entries of the catch table about consumer groups and transactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.simulated.chaos import Mix
from harness.simulated.cluster import Shape, Topic
from harness.simulated.defect import ANYTHING, KILLS, Defect
from harness.simulated.member import MemberSettings
from harness.simulated.member_faults import MemberMix
from harness.simulated.producer import ProducerSettings
from harness.simulated.run import Plan
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.protections import Protection

NOTHING: Final = Mix(weights={})
LONG_PAUSES: Final = MemberMix(weights={"pause": 1}, every=SECOND, shortest=3 * SECOND, longest=6 * SECOND)
RESTARTS: Final = MemberMix(weights={"pause": 2, "kill": 1})
DYNAMIC: Final = MemberSettings()
STATIC: Final = MemberSettings(twins=2)
TRANSACTIONAL: Final = MemberSettings(transactional=True)
SHARED: Final = Topic(partitions=4, config={"min.insync.replicas": "2"})


def groups(mix: Mix, members: MemberSettings = DYNAMIC, member_mix: MemberMix = RESTARTS) -> Plan:
    return Plan(
        mix=mix,
        workload="groups",
        shape=Shape(topics=(SHARED,), min_insync_replicas=2),
        duration=25 * SECOND,
        producer=ProducerSettings(pause=250 * MILLISECOND),
        members=members,
        member_mix=member_mix,
    )


HEALTHY_GROUPS: Final = (
    replace(groups(ANYTHING), name="healthy-groups"),
    replace(groups(ANYTHING, STATIC), name="healthy-static-groups"),
    replace(groups(ANYTHING, TRANSACTIONAL), name="healthy-transactional-groups"),
)

GROUP_DEFECTS: Final[tuple[Defect, ...]] = (
    Defect(protection=Protection.OFFSET_COMMIT_WRITTEN, anomaly="committed-offset-backwards", plan=groups(KILLS)),
    Defect(
        protection=Protection.GENERATION_FENCED,
        anomaly="two-owners",
        plan=groups(NOTHING, member_mix=LONG_PAUSES),
    ),
    Defect(protection=Protection.SYNC_WAITS_FOR_ASSIGNMENT, anomaly="two-owners", plan=groups(NOTHING)),
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
)
