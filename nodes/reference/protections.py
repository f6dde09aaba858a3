"""Every protection of the reference cluster that can be switched off, by name: what a KIP adds, and what comes of leaving it out.

krash exists to notice when one of these is missing, so each can be: the code asks at exactly one place, `protections.on(...)`, and all are
on unless a test or a spec switches them off.

    protections = Protections(off=[Protection.VOTE_PERSISTED])
    protections.on(Protection.VOTE_PERSISTED)        # False
    Protection("vote-persisted").without             # "a voter that restarts votes again in an epoch in which it has voted: ..."
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Protection(enum.Enum):
    """Name in specs, where it comes from, what goes wrong without it."""

    VOTE_PERSISTED = (
        "vote-persisted",
        "KIP-595, Vote Request Handling",
        "a voter that restarts votes again in an epoch in which it has voted: two leaders in one epoch",
    )
    ONE_VOTE_IN_AN_EPOCH = (
        "one-vote-in-an-epoch",
        "KIP-595, Vote Request Handling",
        "a voter grants every candidate its vote: two leaders in one epoch",
    )
    COMMIT_IN_OWN_EPOCH = (
        "commit-in-own-epoch",
        "KIP-595, Fetch Request Handling; Raft, 5.4.2",
        "an entry of an older epoch counts as committed once a majority has it, and a later leader that never had it overwrites it",
    )
    CHECK_QUORUM = (
        "check-quorum",
        "KIP-595 as of KAFKA-15489; KIP-642, Zombie Leader",
        "a leader that no majority fetches from goes on as leader and answers from old metadata",
    )
    FSYNC_ON_VOTE = (
        "fsync-on-vote",
        "KIP-595, Quorum State",
        "a machine that loses power forgets its vote: two leaders in one epoch",
    )
    FSYNC_ON_APPEND = (
        "fsync-on-append",
        "KIP-595, Log Compaction and Flush; KIP-631, Persistence and Visibility",
        "machines that lose power forget committed entries",
    )
    SNAPSHOT_HAS_ALL_COMMITTED = (
        "snapshot-has-all-committed",
        "KIP-630, Snapshot Format; KIP-631, Snapshot Implementation",
        "a snapshot is named by an offset that its content has not reached: who loads it lacks the newest committed record",
    )
    PRODUCER_EPOCH_FENCED = (
        "producer-epoch-fenced",
        "KIP-98, Fencing",
        "a transactional producer that was replaced goes on writing",
    )
    CHECKSUM_AFTER_TORN_WRITE = (
        "checksum-after-torn-write",
        "KIP-98, Message Format",
        "the half of a batch that reached the disk is served as if it were whole",
    )
    FSYNC_ON_PRODUCE = (
        "fsync-on-produce",
        "KIP-98 keeps Kafka's log.flush.interval.messages",
        "records that the flush policy promises are lost when machines lose power",
    )
    APPEND_BEFORE_ACKNOWLEDGE = (
        "append-before-acknowledge",
        "Kafka's acks (KIP-1 settles what they promise)",
        "a record is acknowledged that no log has yet: a kill -9 loses it",
    )
    REPLICATE_BEFORE_ACKNOWLEDGE = (
        "replicate-before-acknowledge",
        "KIP-1; acks=all",
        "acks=all answers when the leader alone has the record: a failover loses it",
    )
    TRUNCATE_BY_EPOCH = (
        "truncate-by-epoch",
        "KIP-101, Proposed Changes; KIP-279",
        "a follower cuts its log to its own high watermark, which lags: a committed record is lost when it leads next",
    )
    END_OFFSET_AFTER_EPOCH_START = (
        "end-offset-after-epoch-start",
        "KIP-207",
        "a new leader tells a high watermark that lags behind its predecessor's: the end of the log goes backwards",
    )
    MAXIMAL_ISR = (
        "maximal-isr",
        "KIP-497, Proposed Changes",
        "the high watermark passes a replica that the controller is just adding to the ISR; as leader it lacks acknowledged records",
    )
    ISR_COMMITTED_FIRST = (
        "isr-committed-first",
        "KIP-497, Proposed Changes",
        "the leader counts with an ISR that the controller has not committed: a replica that lacks acknowledged records can be elected",
    )
    HIGH_WATERMARK_WITHIN_MIN_ISR = (
        "high-watermark-within-min-isr",
        "KAFKA-15583; KIP-966",
        "a record that too few replicas have is refused to its producer and yet read by consumers: it may vanish after it was read",
    )
    BROKER_EPOCH_AT_LEADER = (
        "broker-epoch-at-leader",
        "KIP-903, Leader",
        "a fetch of a broker's former life counts for the one that lost its disk",
    )
    ISR_ELIGIBILITY_AT_LEADER = (
        "isr-eligibility-at-leader",
        "KIP-841",
        "the leader proposes fenced and stopping brokers for the ISR",
    )
    BROKER_EPOCH_AT_CONTROLLER = (
        "broker-epoch-at-controller",
        "KIP-903, Controller",
        "a proposal about a broker's former life adds the one that lost its disk to the ISR (KAFKA-14139)",
    )
    ISR_ELIGIBILITY_AT_CONTROLLER = (
        "isr-eligibility-at-controller",
        "KIP-841",
        "the controller adds fenced and stopping brokers to an ISR (KAFKA-13916)",
    )
    COMMITTED_BEFORE_ANSWERED = (
        "committed-before-answered",
        "KIP-631, Persistence and Visibility",
        "the controller answers before its change is committed: a failover takes back what brokers and clients were told",
    )
    CONTROLLER_SIDE_FENCING = (
        "controller-side-fencing",
        "KIP-631, Fencing; KIP-343, Controller-Side Heartbeat Timeout",
        "a broker that is gone goes on leading, and stays in the ISR",
    )
    STALE_EPOCH_IN_HEARTBEAT = (
        "stale-epoch-in-heartbeat",
        "KIP-631, Broker ID Conflicts",
        "a process that has lost its id has its lease renewed, and makes its successor active",
    )
    ID_CONFLICT_RESOLVED = (
        "id-conflict-resolved",
        "KIP-631, Broker ID Conflicts",
        "two processes hold one broker id and one epoch",
    )
    UNCLEAN_ELECTION_DISABLED = (
        "unclean-election-disabled",
        "Kafka's unclean.leader.election.enable (KIP-106 makes false its default)",
        "a replica that was not in sync is elected: acknowledged records are lost",
    )
    SEQUENCES_AFTER_FAILOVER = (
        "sequences-after-failover",
        "KIP-98, Idempotent Producer Guarantees",
        "a new leader does not know what producers wrote: a retry is appended twice",
    )
    STABLE_OFFSET = (
        "stable-offset",
        "KIP-98, Last Stable Offset",
        "read_committed reads records of transactions that are open and may be aborted",
    )
    BROKER_SELF_FENCING = (
        "broker-self-fencing",
        "KIP-631, Fencing; KIP-343, Broker-Side Heartbeat Timeout",
        "a broker that the controller cannot reach goes on serving clients: they read what another leader has superseded",
    )

    GENERATION_FENCED = (
        "generation-fenced",
        "KIP-62; KIP-447, Fencing zombies",
        "a member that missed a rebalance is not told and goes on reading and committing: two members own one partition, offsets go back",
    )
    SYNC_WAITS_FOR_ASSIGNMENT = (
        "sync-waits-for-assignment",
        "Kafka Client-side Assignment Proposal, SyncGroup",
        "a member is given its assignment of the generation before: two members own one partition",
    )
    STATIC_MEMBER_FENCED = (
        "static-member-fenced",
        "KIP-345, Fencing of static members",
        "two processes with one group.instance.id both go on: two members own one partition",
    )
    OFFSET_COMMIT_WRITTEN = (
        "offset-commit-written",
        "Kafka's offsets.commit.required.acks",
        "an offset commit is acknowledged that no log has: a failover of the coordinator loses it",
    )
    TRANSACTIONAL_OFFSETS_WAIT = (
        "transactional-offsets-wait",
        "KIP-98, TxnOffsetCommitRequest",
        "offsets count before their transaction commits: when it aborts, nobody processes those records",
    )
    UNSTABLE_OFFSETS_REFUSED = (
        "unstable-offsets-refused",
        "KIP-447, UNSTABLE_OFFSET_COMMIT",
        "a new owner begins before the offset that an open transaction is about to commit: records are processed twice",
    )

    PRODUCER_EPOCH_AT_COORDINATOR = (
        "producer-epoch-at-coordinator",
        "KIP-98, Fencing; KIP-588",
        "a transactional producer that was replaced ends the transaction of its successor",
    )
    DECISION_BEFORE_MARKERS = (
        "decision-before-markers",
        "KIP-98, EndTxnRequest",
        "partitions hear of an outcome that no log has: after a failover of the coordinator others hear the opposite, a torn transaction",
    )
    MARKERS_TO_ALL_PARTITIONS = (
        "markers-to-all-partitions",
        "KIP-98, WriteTxnMarkerRequest",
        "the marker to one partition is lost: its part of the transaction shares the fate of the next one, or hides all that follows",
    )
    TRANSACTION_VERIFIED = (
        "transaction-verified",
        "KIP-890, part 1",
        "a late record of a transaction that has ended opens one that nobody ends: it hides what follows, or the next one decides on it",
    )
    COORDINATOR_EPOCH_FENCED = (
        "coordinator-epoch-fenced",
        "KIP-98, WriteTxnMarkerRequest",
        "a coordinator that was replaced ends the transactions that its successor has begun",
    )

    def __new__(cls, name: str, source: str, without: str) -> Protection:
        member = object.__new__(cls)
        member._value_ = name
        return member

    def __init__(self, name: str, source: str, without: str) -> None:
        self.source = source
        self.without = without


class Protections:
    """Which are on: all but those named."""

    __slots__ = ("off",)

    def __init__(self, off: Iterable[Protection] = ()) -> None:
        self.off = frozenset(off)

    def on(self, protection: Protection) -> bool:
        return protection not in self.off


ALL_ON = Protections()
