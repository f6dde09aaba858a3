"""Every protection of the reference cluster that can be switched off, by name: what a KIP adds, and what comes of leaving it out.

krash exists to notice when one of these is missing, so each can be: the code asks at exactly one place, `protections.on(...)`, and all are on
unless a test or a spec switches them off.

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
