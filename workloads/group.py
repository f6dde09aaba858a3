"""What consumer groups did: which member owned which partition, from where, and how far the group said it had come.

A group promises four things that a history can be asked about, and each is about positions in partitions: that a committed
offset does not go backwards, that it is not ahead of what was processed, that nothing between two committed offsets is left
out, and that no two members own a partition in one generation. So the ops that take and give partitions, and those that
write and read committed offsets, have one row here for each partition they name, beside their row in `ops`:

    kind (OpKind)    the op is                                                   `offset` of its rows
    assign           one partition (an op each) that a member has after the      where this member reads on
                     rebalance callback that gives it some
    revoke           the callback that takes them back; before it, what was      next offset that it would have read
                     processed has been committed
    lost             the callback that says that they are gone already: the      the same
                     member was thrown out (it was silent for too long)
    commit-offsets   OffsetCommit; with `transaction`: TxnOffsetCommit, which    the next offset to process
                     takes effect when, and only if, the transaction commits
    fetch-offsets    OffsetFetch: what the group has committed, as a broker      what is committed; None: nothing is
                     says it

Example: member "w1.m0-3b0c" was given log-2 in generation 5 and goes on at offset 117: `GroupPosition(op=81, client="w1.m0",
kind="assign", group="g0", member="w1.m0-3b0c", generation=5, topic="log", partition=2, offset=117, ...)`.

What is recorded when: rows of a commit are in the kernel's hands before the request is sent, and so are the reads of every poll
whose records it covers; so the kill of a client never makes a committed offset appear that nobody committed, or one past
what anybody had read. Rows of the other kinds are written when the op completes.

What can be known of ownership, and what cannot:

* `generation` and `member` come from the client (librdkafka's ConsumerGroupMetadata), read inside the callback for assign,
  revoke and lost, and right before a commit is sent. A client that knows none says so, and they are None here: of somebody who
  was thrown out or is leaving, and of fetches by a client that is in no group. With the protocol of KIP-848 (`protocol`)
  `generation` is the member's epoch, which differs between members of one assignment.
* An assignment is complete: after each callback there is an assign op for every partition that the member now has, kept ones
  of the cooperative protocol included, all with the same process and generation. A callback that leaves it none leaves no op.
* A member surely believes that it owns a partition from the completion of its assign until the invocation of the revoke
  or lost that names it, or until its client's last op if it was killed. That two members believe so at one time is no
  violation by itself: one that was paused or cut off for longer than its session timeout goes on believing until it hears
  otherwise. It is one in one generation, or when both commit in it with success.
* A poll hands records out. A member of the `groups` workload has processed them when it next commits, or has a partition
  revoked; one that is killed, or loses its partitions, may have been handed records that it never processed.

Sources: KIP-98, KIP-345, KIP-429 (cooperative), KIP-447 (TxnOffsetCommit with generation), KIP-848.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class GroupProtocol(StrEnum):
    EAGER = "eager"  # range, roundrobin: a rebalance takes everything away first
    COOPERATIVE = "cooperative"  # cooperative-sticky (KIP-429): only what moves is taken away
    CONSUMER = "consumer"  # KIP-848: `generation` is the member's epoch


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupPosition:
    run: str
    op: int  # the op in `ops` that it belongs to
    client: str  # the Kafka client instance: one consumer, or a transactional producer that commits for one
    process: int
    kind: str  # OpKind: assign, revoke, lost, commit-offsets, fetch-offsets
    phase: str
    group: str  # group.id
    protocol: str | None  # GroupProtocol; None: of a client that is in no group
    member: str | None  # member id, as the coordinator gave it; None: not known, or no member
    generation: int | None  # None: not known, or no member
    topic: str
    partition: int
    offset: int | None  # see the table above; None: nothing is committed (fetch-offsets), or not known (the others)
    invoked_ns: int
    completed_ns: int | None  # None: the op never completed
    outcome: str  # of the op. A commit that partly failed is "info": nobody says here which part
    transaction: int | None = None  # of a commit inside one: op id of its begin


POSITIONS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("op", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("phase", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("protocol", pa.string()),
        pa.field("member", pa.string()),
        pa.field("generation", pa.int32()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("invoked_ns", pa.int64(), nullable=False),
        pa.field("completed_ns", pa.int64()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("transaction", pa.int64()),
    ]
)
