"""Entries of the catch table that scripts show: the ISR, broker ids and the metadata quorum."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from harness.simulated.chaos import Mix
from harness.simulated.cluster import Topic
from harness.simulated.coordinator_scripts import dies_over_a_commit
from harness.simulated.defect import FRESH, PAIR, QUICK, SAFE_TOPIC, Defect, log, scripted, transactions
from harness.simulated.isr_scripts import (
    added_unheard,
    answered_and_forgotten,
    dropped_unheard,
    fenced_follower_fetches,
    fenced_meanwhile,
    late_fetch,
    read_and_refused,
    stale_alter_partition,
)
from harness.simulated.producer import ProducerSettings
from harness.simulated.quorum_scripts import (
    active_controller_is_cut_off,
    dropped_and_forgotten,
    overwritten_later,
    snapshot_of_too_much,
    two_candidates,
    two_candidates_and_a_kill,
    two_candidates_and_a_power_loss,
)
from harness.simulated.registration_scripts import the_other_one_dies, two_with_one_id
from harness.simulated.run import Plan
from harness.simulated.scripts import (
    dies_before_it_answers,
    half_a_batch,
    leader_is_cut_from_controllers,
    leads_with_an_old_high_watermark,
    truncated_and_elected,
)
from harness.simulated.stage import Script
from harness.simulated.transactor import TransactionSettings
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.protections import Protection, Protections

ONE: Final = replace(SAFE_TOPIC, partitions=1)
THREE: Final = replace(SAFE_TOPIC, partitions=3)  # so that every broker leads one
UNCLEAN: Final = replace(PAIR, config={"min.insync.replicas": "2", "unclean.leader.election.enable": "true"})
IMPATIENT: Final = ProducerSettings(delivery_timeout=3 * SECOND)
SHORT: Final = TransactionSettings(timeout=5 * SECOND)
# A client waits 4 s for its answer and then asks around for the new leader, 2 s for each broker that does not answer: with fencing, after a
# session of 1.5 s, a partition takes writes again within 4 + 2 + 2 s. Without, it does when the broker is back, after 12 s at the earliest.
AVAILABLE: Final = {"unavailable_bound": 9.0}
LONG_KILLS: Final = Mix(weights={"kill": 3, "pause": 1}, every=SECOND, shortest=12 * SECOND, longest=16 * SECOND)


def three(script: Script, topic: Topic = ONE, *, session: int = 1500 * MILLISECOND) -> Plan:
    """Three replicas, and busy producers."""
    return replace(log(Mix(weights={}), topic, session=session), script=script, producer=QUICK, duration=25 * SECOND)


CLUSTER_DEFECTS: Final = (
    Defect(
        protection=Protection.SEQUENCES_AFTER_FAILOVER,
        anomaly="duplicate",
        plan=three(dies_before_it_answers),
    ),
    Defect(
        protection=Protection.TRUNCATE_BY_EPOCH,
        anomaly="lost-write",
        plan=three(truncated_and_elected, Topic(partitions=1)),
    ),
    Defect(
        protection=Protection.END_OFFSET_AFTER_EPOCH_START,
        anomaly="stale-end-offset",
        plan=replace(three(leads_with_an_old_high_watermark, session=900 * MILLISECOND), checks=FRESH),
    ),
    Defect(
        protection=Protection.BROKER_SELF_FENCING,
        anomaly="stale-end-offset",
        plan=replace(three(leader_is_cut_from_controllers), checks=FRESH, producer=ProducerSettings()),
    ),
    Defect(
        protection=Protection.CONTROLLER_SIDE_FENCING,
        anomaly="unavailable",
        plan=log(LONG_KILLS, THREE, checks=AVAILABLE),
    ),
    Defect(
        protection=Protection.BROKER_EPOCH_AT_CONTROLLER, anomaly="lost-write", plan=scripted(stale_alter_partition)
    ),
    Defect(
        protection=Protection.BROKER_EPOCH_AT_LEADER,
        anomaly="lost-write",
        plan=scripted(late_fetch, Topic(partitions=1), brokers=3, replica_fetch_max_bytes=1),
    ),
    Defect(protection=Protection.MAXIMAL_ISR, anomaly="lost-write", plan=scripted(added_unheard)),
    Defect(
        protection=Protection.ISR_COMMITTED_FIRST,
        anomaly="lost-write",
        plan=scripted(dropped_unheard, replica_lag_ms=1500),
    ),
    Defect(
        protection=Protection.COMMITTED_BEFORE_ANSWERED,
        anomaly="lost-write",
        plan=scripted(answered_and_forgotten, replica_lag_ms=1500),
    ),
    Defect(  # nothing acknowledged is at risk: an election is unclean, but both replicas have whatever was acknowledged
        protection=Protection.HIGH_WATERMARK_WITHIN_MIN_ISR,
        anomaly="read-then-vanished",
        plan=replace(scripted(read_and_refused, UNCLEAN, replica_lag_ms=1500), producer=IMPATIENT),
    ),
    Defect(
        protection=Protection.ISR_ELIGIBILITY_AT_CONTROLLER, anomaly="fenced-replica", plan=scripted(fenced_meanwhile)
    ),
    Defect(  # the leader's look at its metadata is the first line of two: without the controller's, it is the only one
        protection=Protection.ISR_ELIGIBILITY_AT_LEADER,
        anomaly="fenced-replica",
        plan=scripted(fenced_follower_fetches, protections=Protections(off=[Protection.ISR_ELIGIBILITY_AT_CONTROLLER])),
    ),
    Defect(
        protection=Protection.ID_CONFLICT_RESOLVED,
        anomaly="unavailable",
        plan=replace(three(two_with_one_id), checks=AVAILABLE, producer=ProducerSettings()),
    ),
    Defect(
        protection=Protection.STALE_EPOCH_IN_HEARTBEAT,
        anomaly="unavailable",
        plan=replace(three(the_other_one_dies), checks=AVAILABLE, producer=ProducerSettings()),
    ),
    Defect(
        protection=Protection.CHECK_QUORUM,
        anomaly="two-active-controllers",
        plan=scripted(active_controller_is_cut_off),
    ),
    Defect(
        protection=Protection.ONE_VOTE_IN_AN_EPOCH,
        anomaly="two-active-controllers",
        plan=scripted(two_candidates, off_when_ready=True),
    ),
    Defect(
        protection=Protection.VOTE_PERSISTED,
        anomaly="two-active-controllers",
        plan=scripted(two_candidates_and_a_kill, off_when_ready=True),
    ),
    Defect(
        protection=Protection.FSYNC_ON_VOTE,
        anomaly="two-active-controllers",
        plan=replace(scripted(two_candidates_and_a_power_loss, off_when_ready=True), duration=40 * SECOND),
    ),
    Defect(
        protection=Protection.SNAPSHOT_HAS_ALL_COMMITTED,
        anomaly="lost-write",
        plan=replace(scripted(snapshot_of_too_much, replica_lag_ms=1500, snapshot_every=5), duration=20 * SECOND),
    ),
    Defect(
        protection=Protection.COMMIT_IN_OWN_EPOCH,
        anomaly="lost-write",
        plan=replace(
            scripted(
                overwritten_later,
                replica_lag_ms=1500,
                session=10 * SECOND,
                request_timeout_ms=1_000,
                raft_fetch_max_bytes=1,
            ),
            duration=40 * SECOND,
        ),
    ),
    Defect(
        protection=Protection.FSYNC_ON_APPEND,
        anomaly="lost-write",
        plan=replace(scripted(dropped_and_forgotten, replica_lag_ms=1500), duration=25 * SECOND),
    ),
    Defect(
        protection=Protection.CHECKSUM_AFTER_TORN_WRITE,
        anomaly="lost-write",
        plan=replace(scripted(half_a_batch, replica_lag_ms=800), duration=25 * SECOND),
    ),
    Defect(
        protection=Protection.DECISION_BEFORE_MARKERS,
        anomaly="torn-transaction",
        plan=replace(
            transactions(Mix(weights={}), replica_lag_ms=10_000),
            script=dies_over_a_commit,
            transactions=SHORT,
            duration=20 * SECOND,
        ),
    ),
)
