"""Every type of anomaly: its name, what it means, and what the settings have to do with it.

One page without Spark, so that a spec can be validated (`tolerate`, `checks`) and documents generated without starting
anything. The definition is the contract; the file of the family named in `family` implements it. A log is one
topic-partition of one run.

Three kinds of definitions: identity (unique values, one value per offset), order (offsets against what processes and
clients did, and against real time) and loss. `follows_loss` marks the types that a log shows as a matter of course once
it has lost acknowledged records: where the settings make loss possible (acks=1, unclean leader election) such an
anomaly is *expected*: marked, and invalid all the same unless tolerated.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports.verdict import Severity


@dataclass(frozen=True, kw_only=True)
class AnomalyType:
    name: str
    family: str  # the module of harness.checker that finds it
    meaning: str  # the definition, in a sentence
    severity: Severity = Severity.VIOLATION
    follows_loss: bool = False
    by_default: bool = True  # looked for unless a spec says otherwise; others have to be named in `checks.enabled`


LOST_WRITE = AnomalyType(
    name="lost-write",
    family="loss",
    meaning="A record was acknowledged at an offset, and after all faults had healed it was not in the log: something else "
    "or nothing stands at its offset, or the log ends before it, or starts after it although nothing allows records "
    "to expire, or its partition is gone.",
    follows_loss=True,
)
DUPLICATE = AnomalyType(
    name="duplicate",
    family="identity",
    meaning="One record was read at two offsets. Without idempotence and with retries that is what clients ask for: "
    "information then.",
    follows_loss=True,
)
INCONSISTENT_OFFSET = AnomalyType(
    name="inconsistent-offset",
    family="identity",
    meaning="One offset had two values, by two reads or by a read and an acknowledgement; or a record is read at another "
    "offset than acknowledged.",
    follows_loss=True,
)
PHANTOM_VALUE = AnomalyType(
    name="phantom-value", family="identity", meaning="A value was read that nobody sent to that log."
)
ABORTED_READ = AnomalyType(
    name="aborted-read",
    family="identity",
    meaning="A value was read whose send had surely failed, or, with read_committed, whose transaction was aborted or "
    "never committed.",
)
READ_THEN_VANISHED = AnomalyType(
    name="read-then-vanished",
    family="vanished",
    meaning="A consumer read a record that was never acknowledged, and after all faults had healed it was not in the log "
    "at its offset. (What was acknowledged and vanished is a lost-write.)",
    follows_loss=True,
)
TORN_TRANSACTION = AnomalyType(
    name="torn-transaction",
    family="transactions",
    meaning="Of the records that a transaction wrote, consumers with read_committed can read some and cannot read others, "
    "after all faults had healed and whatever its client was told.",
    follows_loss=True,
)
HANGING_TRANSACTION = AnomalyType(
    name="hanging-transaction",
    family="transactions",
    meaning="At the final read the last stable offset was below the high watermark, although every transaction of the run "
    "had ended or timed out long before: consumers with read_committed are stuck there.",
)
COMMITTED_BACKWARDS = AnomalyType(
    name="committed-offset-backwards",
    family="groups",
    meaning="A consumer group was said to have committed less than it had committed before that was asked for, or a commit below "
    "an earlier one was accepted.",
    follows_loss=True,
)
COMMITTED_PAST = AnomalyType(
    name="committed-past-processed",
    family="coverage",
    meaning="A consumer group had committed an offset beyond what any of its members had been handed, or beyond what anybody "
    "had asked it to commit.",
    follows_loss=True,
)
GROUP_SKIP = AnomalyType(
    name="group-skip",
    family="coverage",
    meaning="A record below a committed offset had not been handed to any member of the group, although later ones had; or a "
    "member took a partition up beyond what the group had committed.",
    follows_loss=True,
)
TWO_OWNERS = AnomalyType(
    name="two-owners",
    family="groups",
    meaning="Two members of a consumer group were given, or committed with success, one partition in one generation; or a "
    "member committed it with success after another had been given it.",
)
UNFENCED_LEADER = AnomalyType(
    name="unfenced-leader",
    family="leaders",
    meaning="A record of an older leader epoch stands above one of a later epoch: its leader had been deposed, and went on "
    "writing.",
    follows_loss=True,
)
TWO_ACTIVE_CONTROLLERS = AnomalyType(
    name="two-active-controllers",
    family="controllers",
    meaning="A controller went on claiming to be the active one after another had claimed a higher epoch, for longer than "
    "two_controllers_bound; or two claimed one epoch.",
)
EPOCH_INFLATION = AnomalyType(
    name="epoch-inflation",
    family="controllers",
    meaning="An active controller was deposed although it was up, and no fault cut it off from most controllers. Before "
    "pre-vote (KIP-996) Kafka does not promise otherwise, and nothing is lost by it: information.",
    severity=Severity.INFORMATION,
)
UNDER_REPLICATED = AnomalyType(
    name="under-replicated",
    family="replicas",
    meaning="At the end of the run a replica was not in the ISR, although every broker had been up, unfenced and left alone "
    "for longer than rejoin_bound.",
)
FENCED_REPLICA = AnomalyType(
    name="fenced-replica",
    family="replicas",
    meaning="The controllers put a broker into an ISR while, by their own log, it was fenced.",
)
UNSEEN = AnomalyType(
    name="unseen",
    family="unseen",
    meaning="A record was acknowledged, and no successful poll of the whole history returned it, although nothing above it "
    "was read either. Only in histories of other tools, which do not say where a log ended: it may be lost, or its "
    "readers were slow.",
    by_default=False,
)
PRECOMMITTED_READ = AnomalyType(
    name="precommitted-read",
    family="precommitted",
    meaning="With read_committed, a record was read by the very transaction that wrote it, or by anybody before that "
    "transaction had been asked to commit.",
)
NONMONOTONIC_POLL = AnomalyType(
    name="nonmonotonic-poll",
    family="polls",
    meaning="A process read an offset at or below the last one that an earlier successful poll of it had returned, without "
    "seeking.",
    follows_loss=True,
)
INT_NONMONOTONIC_POLL = AnomalyType(
    name="int-nonmonotonic-poll",
    family="polls",
    meaning="Within one poll or one transaction, an offset was read at or below the one read just before.",
    follows_loss=True,
)
POLL_SKIP = AnomalyType(
    name="poll-skip",
    family="polls",
    meaning="A process went on past records that are in the log, from one successful poll to the next.",
    follows_loss=True,
)
INT_POLL_SKIP = AnomalyType(
    name="int-poll-skip",
    family="polls",
    meaning="Within one poll or one transaction, records that are in the log were passed over.",
    follows_loss=True,
)
PRODUCER_REORDER = AnomalyType(
    name="producer-reorder",
    family="producers",
    meaning="Two acknowledged records of one client stand in another order than sent. Without idempotence and with several "
    "requests in flight only records whose sends did not overlap count; overlapping ones are information.",
    follows_loss=True,
)
NONMONOTONIC_SEND = AnomalyType(
    name="nonmonotonic-send",
    family="producers",
    meaning="A process sent a record after another, in a later op, and it stands before it. In histories of other tools; of "
    "our own clients, which may have many sends on their way, producer-reorder says the same.",
    follows_loss=True,
    by_default=False,
)
INT_NONMONOTONIC_SEND = AnomalyType(
    name="int-nonmonotonic-send",
    family="producers",
    meaning="Of two records that one transaction sent to a log, the later stands before the earlier.",
    follows_loss=True,
)
INT_SEND_SKIP = AnomalyType(
    name="int-send-skip",
    family="producers",
    meaning="Between two records that one transaction sent to a log one after the other stand records of others. Kafka does "
    "not promise otherwise: information, and only on request.",
    severity=Severity.INFORMATION,
    by_default=False,
)
NONLINEARIZABLE_LOG = AnomalyType(
    name="nonlinearizable-log",
    family="linearizable",
    meaning="A record was sent after a record at a higher offset had been acknowledged, or after an offset at or above its "
    "own had been read: real time and offsets contradict each other, so no order of appends explains both.",
    follows_loss=True,
)
STALE_END = AnomalyType(
    name="stale-end-offset",
    family="linearizable",
    meaning="A reported end offset lies below a record that had been acknowledged or read before it was asked for. Kafka "
    "does not promise this freshness (a new leader's high watermark may lag), so it is looked at only on request.",
    follows_loss=True,
    by_default=False,
)
_CYCLES = {
    "G0": "A cycle of transactions, each of which wrote just before the next one in some log.",
    "G1c": "A cycle of transactions, each of which read what the one before wrote, with read_committed: none of them can have "
    "been the first. With the order of records in logs in the cycle as well it is information: Kafka does not keep "
    "transactions from writing between each other's records.",
    "G-single-item": "A cycle of transactions by what they read, and by the order of records in logs, in which one did not "
    "read what the next one wrote.",
    "G-nonadjacent-item": "The same with several that did not read what the next one wrote, never two in a row.",
    "G2-item": "The same, with two in a row.",
}
_NOT_PROMISED = " Kafka does not promise otherwise: information, and only on request."
_ORDERS = {
    "": "",
    "-process": " The order of ops of a process is part of the cycle.",
    "-realtime": " Real time is part of the cycle.",
}
CYCLES = tuple(
    AnomalyType(
        name=name + suffix,
        family="cycles",
        meaning=meaning + order + ("" if name == "G1c" else _NOT_PROMISED),
        severity=Severity.VIOLATION if name == "G1c" else Severity.INFORMATION,
        by_default=name == "G1c",
    )
    for name, meaning in _CYCLES.items()
    for suffix, order in _ORDERS.items()
)
UNAVAILABLE = AnomalyType(
    name="unavailable",
    family="availability",
    meaning="After a fault took effect, some partition took longer to accept a write than the spec allows.",
)

TYPES: tuple[AnomalyType, ...] = (
    LOST_WRITE,
    DUPLICATE,
    INCONSISTENT_OFFSET,
    PHANTOM_VALUE,
    ABORTED_READ,
    READ_THEN_VANISHED,
    TORN_TRANSACTION,
    HANGING_TRANSACTION,
    UNSEEN,
    PRECOMMITTED_READ,
    NONMONOTONIC_POLL,
    INT_NONMONOTONIC_POLL,
    POLL_SKIP,
    INT_POLL_SKIP,
    PRODUCER_REORDER,
    NONMONOTONIC_SEND,
    INT_NONMONOTONIC_SEND,
    INT_SEND_SKIP,
    NONLINEARIZABLE_LOG,
    STALE_END,
    *CYCLES,
    COMMITTED_BACKWARDS,
    COMMITTED_PAST,
    GROUP_SKIP,
    TWO_OWNERS,
    UNFENCED_LEADER,
    TWO_ACTIVE_CONTROLLERS,
    EPOCH_INFLATION,
    UNDER_REPLICATED,
    FENCED_REPLICA,
    UNAVAILABLE,
)
BY_NAME = {kind.name: kind for kind in TYPES}
