"""What an entry of the catch table is, and how the runs of entries are planned.

Defect(protection=Protection.STABLE_OFFSET, anomaly="aborted-read", plan=transactions(KILLS))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from harness.simulated.chaos import Mix
from harness.simulated.cluster import Shape, Topic
from harness.simulated.producer import ProducerSettings
from harness.simulated.run import Plan
from harness.simulated.stage import Script
from harness.simulated.transactor import TransactionSettings
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.protections import Protection, Protections

# What a healthy cluster has to survive: one broker at a time, and one controller.
ANYTHING: Final = Mix(
    weights={
        "kill": 3,
        "power-loss": 1,
        "pause": 1,
        "wipe": 1,
        "isolate": 2,
        "cut-from-controllers": 1,
        "cut-from-brokers": 1,
        "kill-controller": 1,
        "power-loss-controller": 1,
        "pause-controller": 1,
        "isolate-controller": 1,
        "slow": 1,
        "loss": 1,
    }
)
KILLS: Final = Mix(weights={"kill": 3, "pause": 1}, every=1200 * MILLISECOND, longest=2500 * MILLISECOND)
LAG_AND_KILLS: Final = Mix(weights={"slow": 3, "kill": 4}, every=600 * MILLISECOND, longest=2 * SECOND)
TWO_KILLS: Final = Mix(
    weights={"kill": 1}, together=3, every=600 * MILLISECOND, shortest=1500 * MILLISECOND, longest=4 * SECOND
)
CUTS: Final = Mix(weights={"cut-from-controllers": 1}, every=SECOND, shortest=3 * SECOND, longest=6 * SECOND)
POWER: Final = Mix(weights={"power-loss": 2, "all-power-loss": 2}, every=2 * SECOND)
COORDINATORS: Final = Mix(weights={"kill": 3, "pause": 1, "isolate": 1}, every=SECOND, longest=3 * SECOND)
SAFE_TOPIC: Final = Topic(config={"min.insync.replicas": "2"})
PAIR: Final = Topic(partitions=1, replication=2)
FRESH: Final = {
    "enabled": ["lost-write", "duplicate", "inconsistent-offset", "nonlinearizable-log", "stale-end-offset"]
}
QUICK: Final = ProducerSettings(pause=15 * MILLISECOND)
BUSY: Final = TransactionSettings(pause=10 * MILLISECOND, records=1)


@dataclass(frozen=True, kw_only=True)
class Defect:
    protection: Protection
    anomaly: str  # type, as in docs/anomalies.md
    plan: Plan

    @property
    def faults(self) -> str:
        """What the plan breaks, in words."""
        plan = self.plan
        if plan.script is not None:
            return (plan.script.__doc__ or "").splitlines()[0]
        members = [f"{kind} of members" for kind in plan.member_mix.weights] if plan.workload == "groups" else []
        return ", ".join([*plan.mix.weights, *members]) or "none: members come and go"

    def planned(self, *, off: bool) -> Plan:
        """What the plan switches off itself is off in both: a second line of defence is shown without the first."""
        always = self.plan.shape.protections.off
        protections = Protections(off={*always, self.protection} if off else always)
        return replace(self.plan, name=self.protection.value, shape=replace(self.plan.shape, protections=protections))


def log(mix: Mix, topic: Topic = SAFE_TOPIC, *, checks: Mapping[str, object] | None = None, **shape: object) -> Plan:
    return Plan(mix=mix, shape=Shape(topics=(topic,), **shape), checks=dict(checks or {}))  # type: ignore[arg-type]


def scripted(
    script: Script, topic: Topic = PAIR, *, checks: Mapping[str, object] | None = None, **shape: object
) -> Plan:
    """By default two replicas and one partition; a request may wait long for its answer."""
    told: dict[str, object] = {"brokers": 2, "request_timeout_ms": 10_000, "replica_lag_ms": 10_000, **shape}
    made = Shape(topics=(topic,), **told)  # type: ignore[arg-type]
    return Plan(script=script, shape=made, duration=15 * SECOND, checks=dict(checks or {}))


def transactions(mix: Mix, **shape: object) -> Plan:
    return Plan(mix=mix, workload="transactions", shape=Shape(topics=(SAFE_TOPIC,), **shape))  # type: ignore[arg-type]
