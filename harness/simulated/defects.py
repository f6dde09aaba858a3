"""Every protection of the reference cluster with the simulated run that shows what it is for, and the anomaly that has to come of it.

Stated before anything is run: with the protection off the checker finds `anomaly`, with it on nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from harness.simulated.chaos import Mix
from harness.simulated.cluster import Shape, Topic
from harness.simulated.run import Plan
from harness.simulated.scripts import Script, stale_alter_partition
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
TWO_KILLS: Final = replace(KILLS, weights={"kill": 1}, together=2, every=800 * MILLISECOND)
CUTS: Final = Mix(weights={"isolate": 2, "cut-from-controllers": 2}, shortest=2 * SECOND, longest=6 * SECOND)
POWER: Final = Mix(weights={"power-loss": 2, "all-power-loss": 2}, every=2 * SECOND)
CONTROLLERS: Final = Mix(
    weights={
        "kill-controller": 2,
        "isolate-controller": 3,
        "pause-controller": 2,
        "power-loss-controller": 2,
        "kill": 2,
    },
    every=700 * MILLISECOND,
    longest=2 * SECOND,
)
SAFE_TOPIC: Final = Topic(config={"min.insync.replicas": "2"})


@dataclass(frozen=True, kw_only=True)
class Defect:
    protection: Protection
    anomaly: str  # type, as in docs/anomalies.md
    plan: Plan

    @property
    def faults(self) -> str:
        """What the plan breaks, in words."""
        script = self.plan.script
        return ", ".join(self.plan.mix.weights) if script is None else (script.__doc__ or "").splitlines()[0]

    def planned(self, *, off: bool) -> Plan:
        protections = Protections(off=[self.protection] if off else [])
        return replace(self.plan, name=self.protection.value, shape=replace(self.plan.shape, protections=protections))


def log(mix: Mix, topic: Topic = SAFE_TOPIC, *, checks: Mapping[str, object] | None = None, **shape: object) -> Plan:
    return Plan(mix=mix, shape=Shape(topics=(topic,), **shape), checks=dict(checks or {}))  # type: ignore[arg-type]


def scripted(script: Script) -> Plan:
    """Two replicas and one partition; a request may wait long for its answer."""
    shape = Shape(
        brokers=2, topics=(Topic(partitions=1, replication=2),), request_timeout_ms=10_000, replica_lag_ms=10_000
    )
    return Plan(script=script, shape=shape, duration=25 * SECOND)


HEALTHY: Final = (Plan(name="healthy-log", mix=ANYTHING, shape=Shape(topics=(SAFE_TOPIC,))),)

DEFECTS: Final = (
    Defect(protection=Protection.REPLICATE_BEFORE_ACKNOWLEDGE, anomaly="lost-write", plan=log(KILLS)),
    Defect(protection=Protection.APPEND_BEFORE_ACKNOWLEDGE, anomaly="lost-write", plan=log(KILLS)),
    Defect(protection=Protection.TRUNCATE_BY_EPOCH, anomaly="lost-write", plan=log(KILLS)),
    Defect(protection=Protection.SEQUENCES_AFTER_FAILOVER, anomaly="duplicate", plan=log(KILLS)),
    Defect(protection=Protection.UNCLEAN_ELECTION_DISABLED, anomaly="lost-write", plan=log(TWO_KILLS, Topic())),
    Defect(protection=Protection.FSYNC_ON_PRODUCE, anomaly="lost-write", plan=log(POWER, SAFE_TOPIC, flush_messages=1)),
    Defect(
        protection=Protection.CONTROLLER_SIDE_FENCING,
        anomaly="unavailable",
        plan=log(replace(KILLS, shortest=8 * SECOND, longest=10 * SECOND), checks={"unavailable_bound": 6.0}),
    ),
    Defect(protection=Protection.BROKER_SELF_FENCING, anomaly="nonlinearizable-log", plan=log(CUTS)),
    Defect(
        protection=Protection.BROKER_EPOCH_AT_CONTROLLER,
        anomaly="lost-write",
        plan=scripted(stale_alter_partition),
    ),
    Defect(protection=Protection.COMMIT_IN_OWN_EPOCH, anomaly="lost-write", plan=log(CONTROLLERS)),
)
ELSEWHERE: Final[Mapping[Protection, str]] = {}
