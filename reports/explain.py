"""What the words of a report mean, for a reader who sees them for the first time: one plain paragraph each, and what
to do next.

Types that are not in these tables (a plug-in's own checks and faults) still get a card; it only says less.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports.verdict import Status, Validity
from reports.wording import one_line, plural


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """`asks`: what the check wants to know. `one`, `many`: how a count of anomalies reads, after the number. `meaning`:
    what such an anomaly is. `next`: what to do.
    """

    asks: str
    one: str
    many: str
    meaning: str
    next: str


_LAWFUL = "Nothing is wrong with Kafka; see whether your application relies on it."
_CYCLES = {  # what is asked, what such a cycle means, what to do
    "G0": (
        "their records stand",
        "Transactions wrote between each other's records, so that no order of them explains the order of the logs. Kafka does "
        "not promise otherwise.",
        _LAWFUL,
    ),
    "G1c": (
        "each comes after what it read",
        "Each of these transactions read what another of them wrote, so each would have to come before the others.",
        "Look at isolation.level of the consumers, and at the last stable offsets in their fetch responses.",
    ),
    **dict.fromkeys(
        ("G-single-item", "G-nonadjacent-item", "G2-item"),
        (
            "each read all that was there",
            "By what these transactions read, and what they did not read yet, no order explains them. A poll does not "
            "promise to return all there is.",
            _LAWFUL,
        ),
    ),
}

ANOMALIES = {
    "lost-write": Explanation(
        asks="Is every acknowledged record still there after the faults?",
        one="acknowledged record was lost",
        many="acknowledged records were lost",
        meaning="The cluster told the client that the record was stored, and after every fault had been healed a "
        "complete read of the partition did not contain it. This is data loss.",
        next="Look in the timeline for the election just before: who became leader, and was that broker in the ISR "
        "and in possession of the record? Then compare min.insync.replicas, acks and unclean.leader.election.enable "
        "with what you meant to run.",
    ),
    "duplicate": Explanation(
        asks="Is every value stored only once?",
        one="record is stored twice",
        many="records are stored twice",
        meaning="One value, sent once by the client, is in the log at two offsets. Without idempotence a retried "
        "request can do this; with enable.idempotence=true it must not happen.",
        next="See whether the producer was idempotent and whether a leader changed between the two offsets.",
    ),
    "inconsistent-offset": Explanation(
        asks="Does every offset hold one value for everybody?",
        one="offset holds two different values",
        many="offsets hold two different values",
        meaning="Two readers, or a reader and an acknowledgement, saw different values at the same offset of the same "
        "partition. The replicas' logs diverged, and part of the log was rewritten after it had been seen.",
        next="Find the leader epoch of each value: the log was cut and written again between them.",
    ),
    "phantom-value": Explanation(
        asks="Was every value that was read also sent?",
        one="value was read that nobody sent",
        many="values were read that nobody sent",
        meaning="A reader got a value that no client of this run ever sent: corruption, or a topic that something "
        "else writes to.",
        next="Look at the raw value and at the partition's log segments in the node's directory.",
    ),
    "aborted-read": Explanation(
        asks="Do records that were refused stay out of the log?",
        one="record that was refused was read",
        many="records that were refused were read",
        meaning="The send failed for sure, as the broker told the client, or its transaction was aborted, and yet a "
        "consumer got the value.",
        next="Check the error that the client got, and whether that error really promises that nothing was stored; of a "
        "transaction, find which EndTxn or marker came late.",
    ),
    "read-then-vanished": Explanation(
        asks="Is everything that a consumer read still there?",
        one="record was read and then vanished",
        many="records were read and then vanished",
        meaning="A consumer got the record, so it was below the high watermark and counted as committed; after every "
        "fault had been healed it was gone. Nobody had been told that it was stored, so it is not a lost write, but "
        "whoever acted on the read acted on something that no longer exists.",
        next="Look at the ISR when the record was read: was it smaller than min.insync.replicas, and which disk went later?",
    ),
    "torn-transaction": Explanation(
        asks="Is every transaction there as a whole, or not at all?",
        one="transaction was torn apart",
        many="transactions were torn apart",
        meaning="Some records of one transaction can be read by consumers with read_committed and others cannot. A "
        "transaction promises all or nothing, whatever its producer was told.",
        next="Look for a commit or abort of an earlier transaction of the same producer that arrived late, and compare "
        "its producer epoch with the later one's.",
    ),
    "hanging-transaction": Explanation(
        asks="Can consumers with read_committed read to the end?",
        one="partition is blocked by a transaction that never ends",
        many="partitions are blocked by transactions that never end",
        meaning="The last stable offset stands still although no transaction is open any more, so consumers with "
        "read_committed never see anything behind it, and compaction stops there too.",
        next="`kafka-transactions.sh find-hanging` names the producer; `abort` with its offset frees the partition.",
    ),
    **{
        name + order: Explanation(
            asks=f"Do transactions have an order in which {what}{and_}?",
            one=f"cycle of transactions ({name}{order})",
            many=f"cycles of transactions ({name}{order})",
            meaning=meaning,
            next=following,
        )
        for name, (what, meaning, following) in _CYCLES.items()
        for order, and_ in (
            ("", ""),
            ("-process", ", and that agrees with each process"),
            ("-realtime", ", and that agrees with real time"),
        )
    },
    "committed-offset-backwards": Explanation(
        asks="Do the committed offsets of groups only grow?",
        one="committed offset went backwards",
        many="committed offsets went backwards",
        meaning="A group was said to have come less far than it had committed before. Its members process records again that "
        "they were done with, or for ever.",
        next="Look for a change of the leader of __consumer_offsets at that time, and whether its disk was lost.",
    ),
    "committed-past-processed": Explanation(
        asks="Do groups commit only what was processed?",
        one="commit was ahead of the members",
        many="commits were ahead of the members",
        meaning="The group had committed offsets beyond the records that its members had been handed. Whoever takes the "
        "partition over leaves them out.",
        next="See whether the consumer commits by itself (enable.auto.commit), and what was revoked at that time.",
    ),
    "group-skip": Explanation(
        asks="Does a group process every record?",
        one="record was left out by a group",
        many="records were left out by groups",
        meaning="The group has committed an offset above the record, and no member had ever been handed it.",
        next="Look at the rebalances around that time: where did the next owner begin to read?",
    ),
    "two-owners": Explanation(
        asks="Does a partition have one owner at a time?",
        one="partition had two owners",
        many="partitions had two owners",
        meaning="Two members of one group owned a partition in one generation, or one that had lost it could still commit. Both "
        "process its records, and overwrite each other's offsets.",
        next="Look in the log of the group's coordinator for the two generations.",
    ),
    "unfenced-leader": Explanation(
        asks="Does a leader that was deposed stop writing?",
        one="log has records of a deposed leader above those of its successor",
        many="logs have records of deposed leaders above those of their successors",
        meaning="Leader epochs only grow along a log. Here an older one stands above a later one: two leaders wrote at once.",
        next="Dump the log segment around that offset on every replica, and compare with the elections.",
    ),
    "two-active-controllers": Explanation(
        asks="Is there only one active controller at a time?",
        one="controller went on after another had been elected",
        many="controllers went on after others had been elected",
        meaning="Two controllers claimed to be the active one for longer than an election explains, or in one epoch. Brokers on "
        "the stale one's side get no news: new leaders, new topics and fencing do not reach them.",
        next="Compare the cut in the table of faults with who could reach whom, and see whether check-quorum "
        "(Kafka 3.7 and later) is there.",
    ),
    "epoch-inflation": Explanation(
        asks="Does a healthy controller stay?",
        one="healthy controller was deposed",
        many="healthy controllers were deposed",
        meaning="The active controller lost its place although it was up and could reach most others: a voter that had "
        "been cut off came back with a higher epoch. Nothing is lost, but nothing is decided either until the next one "
        "leads. Without pre-vote (before Kafka 4.0) this is how it works.",
        next="Look at the gap between the two controllers in the timeline: so long no leader could be elected.",
    ),
    "under-replicated": Explanation(
        asks="Is every replica back in sync at the end?",
        one="partition never got all of its replicas back",
        many="partitions never got all of their replicas back",
        meaning="Every broker was up and left alone for long, and yet a replica did not return to the ISR. The next "
        "fault meets one copy less than was configured.",
        next="Look in the log of the broker that is missing for what it says about this partition, and whether a restart "
        "brings it back.",
    ),
    "fenced-replica": Explanation(
        asks="Are only live brokers let into an ISR?",
        one="fenced broker was let into an ISR",
        many="fenced brokers were let into ISRs",
        meaning="The controller had fenced the broker, so it counted as dead, and then took it into an ISR: it may be "
        "elected, with whatever its disk holds now.",
        next="Find the AlterPartition that asked for it, and which incarnation of the broker it meant.",
    ),
    "unseen": Explanation(
        asks="Was every acknowledged record read by somebody?",
        one="acknowledged record was never read",
        many="acknowledged records were never read",
        meaning="The record was acknowledged, and no successful poll of the history returned it. It may be lost, or the "
        "history ended before its readers came so far.",
        next="See how far the final polls of its partition went, and read the partition again if it is still there.",
    ),
    "precommitted-read": Explanation(
        asks="Do consumers with read_committed wait for the commit?",
        one="record was read before its transaction was committed",
        many="records were read before their transactions were committed",
        meaning="With read_committed, a consumer got a record of a transaction that nobody had asked to commit yet, or that "
        "was its own. If the transaction is aborted, the consumer has acted on something that never was.",
        next="Look at isolation.level of the consumer, and at the last stable offset in the fetch response.",
    ),
    "nonmonotonic-poll": Explanation(
        asks="Do consumers only ever move forward?",
        one="poll went backwards",
        many="polls went backwards",
        meaning="A consumer that was not moved by anybody got an offset at or below one that it had read before.",
        next="Look for a truncation or a reset of the consumer's position at that time.",
    ),
    "int-nonmonotonic-poll": Explanation(
        asks="Does one poll, or one transaction, read only forward?",
        one="poll or transaction went backwards within itself",
        many="polls or transactions went backwards within themselves",
        meaning="Of the records that one poll returned, or the polls of one transaction, a later one has an offset at or below "
        "the one before.",
        next="Look at the fetch responses of that time: a broker or the client mixed up two of them.",
    ),
    "int-poll-skip": Explanation(
        asks="Does one poll, or one transaction, read every record on its way?",
        one="poll or transaction skipped records within itself",
        many="polls or transactions skipped records within themselves",
        meaning="Between two records that one poll or one transaction returned, the log has others that it did not return.",
        next="Look for aborted transactions around these offsets, and at the fetch responses of that time.",
    ),
    "poll-skip": Explanation(
        asks="Do consumers see every record on their way?",
        one="poll skipped records",
        many="polls skipped records",
        meaning="A consumer went from one offset to a later one and never saw records in between that do exist.",
        next="Look for a change of leader at that time, and at the fetch responses' log start and high watermark.",
    ),
    "producer-reorder": Explanation(
        asks="Does the log keep each producer's order?",
        one="pair of records is in the wrong order",
        many="pairs of records are in the wrong order",
        meaning="One producer sent A before B to one partition, and B is stored before A. Without idempotence and "
        "with several requests in flight a retry can do this.",
        next="See enable.idempotence and max.in.flight.requests.per.connection in the configuration below.",
    ),
    "nonmonotonic-send": Explanation(
        asks="Does the log keep the order in which each process sent?",
        one="pair of records of one process is in the wrong order",
        many="pairs of records of one process are in the wrong order",
        meaning="One process sent A, and in a later op B, to one partition, and B is stored before A.",
        next="See whether the producer was idempotent, and whether it was replaced between the two.",
    ),
    "int-nonmonotonic-send": Explanation(
        asks="Does the log keep the order in which each transaction sent?",
        one="pair of records of one transaction is in the wrong order",
        many="pairs of records of one transaction are in the wrong order",
        meaning="One transaction sent A before B to one partition, and B is stored before A. Transactional producers are "
        "idempotent: this may not happen.",
        next="Look at the sequence numbers of the two batches on the disk of the leader.",
    ),
    "int-send-skip": Explanation(
        asks="Do the records of one transaction stand together?",
        one="pair of records of one transaction has others between",
        many="pairs of records of one transaction have others between",
        meaning="Records of other producers stand between two records of one transaction. Kafka does not promise otherwise.",
        next="Nothing is wrong.",
    ),
    "nonlinearizable-log": Explanation(
        asks="Does the order of the log agree with real time?",
        one="pair of operations contradicts real time",
        many="pairs of operations contradict real time",
        meaning="A record acknowledged before another was even sent has the higher offset, or a read saw less than "
        "what was complete before it began: no order of the log agrees with the clock.",
        next="The witness operations are the smallest contradiction: compare their times with the elections.",
    ),
    "stale-end-offset": Explanation(
        asks="Does the reported end of a log include what was acknowledged before?",
        one="reported end offset was too low",
        many="reported end offsets were too low",
        meaning="The broker said that the log ends below a record that had been acknowledged, or read, before it was "
        "asked. Kafka does not promise this: a new leader's high watermark may lag behind.",
        next="See whether the leader had just changed. It matters to you only if your code trusts end offsets.",
    ),
    "unavailable": Explanation(
        asks="How long did nothing succeed after each fault?",
        one="unavailable window",
        many="unavailable windows",
        meaning="For this long after a fault took effect no operation succeeded. It breaks no promise unless the spec "
        "sets a bound.",
        next="Compare the window with the session and request timeouts, and with the time to elect a leader.",
    ),
}
_OTHER_ANOMALY = Explanation(
    asks="",
    one="anomaly of type",
    many="anomalies of type",
    meaning="A check that this report has no description of found this; its sentence and witnesses say what it saw.",
    next="Start from the witness operations, and see the documentation of the check.",
)


def anomaly(kind: str) -> Explanation:
    return ANOMALIES.get(kind, _OTHER_ANOMALY)


FAULTS = {
    "partition": "Packets between nodes are stopped; both sides keep running.",
    "kill": "The process is killed with SIGKILL (kill -9), then started again. Its disk is kept.",
    "restart": "The process is stopped properly, then started again.",
    "pause": "The process is frozen (SIGSTOP), as in a long garbage collection, then goes on.",
    "wipe": "The node loses its disk and comes back empty, as after a replaced drive.",
    "roll-back": "The node's disk goes back to an earlier copy, as after a restored snapshot.",
    "power-loss": "The process is killed and everything it had not yet synced to disk is gone.",
    "take-id": "A second process is set up with the id of another node, on an empty disk, as by a mistake in its configuration.",
    "upgrade": "The node is restarted on another version.",
}


def counted(kind: str, count: int) -> str:
    """ "200 acknowledged records were lost", or "3 anomalies of type own-check"."""
    explanation = anomaly(kind)
    said = plural(count, explanation.one, explanation.many)
    return f"{said} {one_line(kind, 80)}" if explanation is _OTHER_ANOMALY else said


LOST = {
    "gone": "the partition was gone",
    "beyond": "the log ended before it",
    "expired": "the log started after it",
    "absent": "nothing was at its offset",
    "replaced": "something else was at its offset",
}  # how a lost write was lost, as the checker's details call it


def question(check: str) -> str | None:
    """What a check asks, where this table knows it."""
    explanation = anomaly(check)
    return None if explanation is _OTHER_ANOMALY else explanation.asks


def fault(name: str) -> str | None:
    """What a fault does, by the start of its name ("partition-isolate" is a partition)."""
    flat = name.replace("_", "-").replace("rollback", "roll-back")
    return next((meaning for start, meaning in FAULTS.items() if flat.startswith(start)), None)


STATUSES = {
    Status.JUDGED: "The run came to its end and its history was judged.",
    Status.NO_DATA: "There was nothing to judge: no history was recorded. That is never counted as valid.",
    Status.NOT_REACHED: "The situation that this run was to bring about did not come about, so it shows nothing.",
    Status.HANG: "The run did not come to an end by its deadline.",
    Status.HARNESS_ERROR: "krash itself, or the machine under it, failed: this alone says nothing about the system.",
    Status.INTERRUPTED: "The run was stopped before its end. What had been recorded until then was judged.",
}

VERDICTS = {
    Validity.VALID: "Nothing that was checked went wrong.",
    Validity.UNKNOWN: "No violation was found, but not everything could be judged.",
    Validity.INVALID: "The system broke a promise.",
}

GLOSSARY = {
    "acknowledged": "the cluster told the client that the record is stored",
    "broker": "a node that stores records and serves clients",
    "controller": "a node that decides who leads each partition",
    "election": "a partition gets another leader",
    "fault": "something krash broke on purpose; its proof is what was observed when it took effect",
    "ISR": "in-sync replicas: the copies of a partition that are up to date, from which a new leader is chosen",
    "leader": "the broker that takes the writes of a partition; the other replicas copy from it",
    "leader epoch": "a number that grows with each election of a partition",
    "lost": "acknowledged, and absent from a complete read after all faults had healed",
    "offset": "the place of a record in its partition, counted from 0",
    "op": "one request of one client: ok (it happened), failed (it surely did not) or unknown (it may have)",
    "p50, p95, p99": "the latency that 50, 95 or 99 of 100 requests did not exceed",
    "partition": "one log of a topic, written log-N here; also a fault that cuts the network between nodes",
    "process": "one sequence of requests, one at a time; after an unknown outcome a new process takes over",
    "witness": "one of the operations that prove an anomaly",
}
