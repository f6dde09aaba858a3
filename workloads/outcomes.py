"""What an error says about the record that was sent: one table, and the few lines that read it.

The three outcomes decide verdicts, so a wrong `fail` is worse than a hundred needless `info`: a record that "surely did
not happen" and is then read makes a run invalid. Each row therefore says only what the error proves about the attempt
that got it:

* `REFUSED`: this attempt left nothing behind. The broker looked at the batch and turned it down before appending it.
* `APPENDED_OR_NOT`: it may be in the log now, or come into it later.

A refusal of the last attempt is not yet a `fail`: an earlier attempt may have been appended and its answer lost.
librdkafka does not tell how many attempts were made, and the settings do not say so either: even with `retries: 0` it
sends a batch again, uncounted, after errors that it believes harmless (NOT_LEADER_OR_FOLLOWER is one of them, and may
have been appended: KAFKA-13574), and idempotence does not help, because brokers check for min.insync.replicas, sizes
and permissions before they look whether they have seen the batch. But every second attempt waits for `retry.backoff.ms`
less 20 % jitter first (librdkafka, `rd_kafka_retry_msgq`). So a refusal that came sooner after the send than that was
the answer to the only attempt, and that is a `fail`; any later one is `info`:

    outcome_of_send("NOT_ENOUGH_REPLICAS", latency_s=0.004, retry_backoff_s=0.1)  ->  fail
    outcome_of_send("NOT_ENOUGH_REPLICAS", latency_s=0.4, retry_backoff_s=0.1)    ->  info
    outcome_of_send("REQUEST_TIMED_OUT", latency_s=0.004, retry_backoff_s=0.1)    ->  info

What is not in the table is `info`. Two outcomes need no table: a send that `produce()` itself turned down was never
handed to the client's queue and is a `fail` whatever the error; and with acks=0 nobody said that anything happened, so
a "success" is `info`.

Commits of offsets and of transactions have rows of their own (`COMMITS`), for they are asked of a coordinator, whose refusals say
other things than a leader's. The rule is the same: `outcome_of_commit` says `fail` only for a refusal that was the answer to
the only attempt, or when every attempt has to be refused, because the client had been fenced before it asked.

    outcome_of_commit("ILLEGAL_GENERATION", latency_s=0.004, retry_backoff_s=0.1)            ->  fail
    outcome_of_commit("NOT_COORDINATOR", latency_s=0.004, retry_backoff_s=0.1)               ->  info
    outcome_of_commit("_FENCED", latency_s=9.0, retry_backoff_s=0.1, fenced_before=True)     ->  fail

A poll changes nothing in the log: one that brought records is `ok`, one that brought only an error is a `fail`, since
it read nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka import KafkaError

from workloads.op import Outcome


class Proof(StrEnum):
    REFUSED = "refused"
    APPENDED_OR_NOT = "appended or not"


@dataclass(frozen=True)
class Row:
    error: str  # Kafka's name, or librdkafka's with its underscore for what the client found out by itself
    proof: Proof
    reason: str


def _refused(error: str, reason: str) -> Row:
    return Row(error, Proof.REFUSED, reason)


def _unknown(error: str, reason: str) -> Row:
    return Row(error, Proof.APPENDED_OR_NOT, reason)


TABLE: tuple[Row, ...] = (
    # The broker's answers: refusals before anything is appended.
    _refused("NOT_ENOUGH_REPLICAS", "the leader counts its ISR before it appends (Partition.appendRecordsToLeader)"),
    _refused(
        "CORRUPT_MESSAGE", "the batch's CRC is checked before it is appended (UnifiedLog.analyzeAndValidateRecords)"
    ),
    _refused("MESSAGE_TOO_LARGE", "max.message.bytes is checked before the append"),
    _refused("RECORD_LIST_TOO_LARGE", "a batch larger than a segment is turned down before the append"),
    _refused(
        "INVALID_TOPIC_EXCEPTION", "writing to an internal topic, or an illegal name, is turned down before the append"
    ),
    _refused("INVALID_REQUIRED_ACKS", "the request is turned down as a whole (ReplicaManager.appendRecords)"),
    _refused("INVALID_TIMESTAMP", "records are validated before any is appended (LogValidator)"),
    _refused("INVALID_RECORD", "records are validated before any is appended (LogValidator, KIP-467)"),
    _refused(
        "_INVALID_DIFFERENT_RECORD",
        "another record of the batch was invalid, and a batch is appended whole or not at all (KIP-467)",
    ),
    _refused("UNSUPPORTED_FOR_MESSAGE_FORMAT", "found while validating, before the append"),
    _refused("UNSUPPORTED_COMPRESSION_TYPE", "found while validating, before the append"),
    _refused("TOPIC_AUTHORIZATION_FAILED", "permissions are checked first of all (KafkaApis.handleProduceRequest)"),
    _refused("CLUSTER_AUTHORIZATION_FAILED", "permissions are checked first of all (KafkaApis.handleProduceRequest)"),
    _refused("INVALID_PRODUCER_EPOCH", "the producer's state is checked before the append (ProducerAppendInfo)"),
    _refused("UNKNOWN_PRODUCER_ID", "the producer's state is checked before the append (ProducerAppendInfo)"),
    # The broker's answers: it may have happened.
    _unknown(
        "NOT_LEADER_OR_FOLLOWER",
        "also the answer when the leader appended and was deposed while it waited for followers (KAFKA-13574)",
    ),
    _unknown(
        "FENCED_LEADER_EPOCH", "like NOT_LEADER_OR_FOLLOWER: the wait for followers ended with a change of leader"
    ),
    _unknown(
        "UNKNOWN_TOPIC_OR_PARTITION",
        "also the answer when the partition went away while the append waited for followers (DelayedProduce)",
    ),
    _unknown("UNKNOWN_TOPIC_ID", "like UNKNOWN_TOPIC_OR_PARTITION (Produce v13, KIP-516)"),
    _unknown("LEADER_NOT_AVAILABLE", "says nothing about an append that was under way"),
    _unknown(
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "appended, and the ISR shrank before enough followers had it: later reads may see it",
    ),
    _unknown("REQUEST_TIMED_OUT", "appended, and followers were too slow: they may still fetch it"),
    _unknown("KAFKA_STORAGE_ERROR", "the disk failed before, during or after the write"),
    _unknown("UNKNOWN_SERVER_ERROR", "an exception anywhere in the broker"),
    _unknown("NETWORK_EXCEPTION", "the connection ended before the answer"),
    _unknown(
        "OUT_OF_ORDER_SEQUENCE_NUMBER", "log and producer disagree about what was appended, so neither can be believed"
    ),
    _unknown("DUPLICATE_SEQUENCE_NUMBER", "the broker believes that it has the batch already, but does not say where"),
    # What librdkafka finds out by itself.
    _unknown(
        "_MSG_TIMED_OUT",
        "the delivery timeout passed; the batch may be on its way (librdkafka uses one code for queue and wire)",
    ),
    _unknown("_TIMED_OUT", "no answer in time"),
    _unknown("_TIMED_OUT_QUEUE", "timed out while waiting to be sent again, perhaps"),
    _unknown("_TRANSPORT", "the connection broke with the request on it"),
    _unknown("_BAD_MSG", "the answer could not be parsed"),
    _unknown("_PURGE_INFLIGHT", "purged by us while a request was on the wire"),
    _refused("_PURGE_QUEUE", "purged by us before it was put into a request"),
    _refused("_UNKNOWN_TOPIC", "still waiting for the topic's first metadata, never put into a request"),
    _refused("_UNKNOWN_PARTITION", "still waiting for the topic's metadata, which has no such partition"),
    _unknown("_FATAL", "the producer broke while the record was its own"),
    _unknown("_DESTROY", "the producer was closed while the record was its own"),
)

COMMITS: tuple[Row, ...] = (
    # Of offsets: GroupMetadataManager and its heir GroupCoordinatorService look at the member before they write.
    _refused("ILLEGAL_GENERATION", "the member's generation is checked before the offsets are written"),
    _refused("UNKNOWN_MEMBER_ID", "the group knows no such member, which is checked before the offsets are written"),
    _refused("REBALANCE_IN_PROGRESS", "while a group waits for its assignment no offsets are written"),
    _refused("FENCED_INSTANCE_ID", "another member has the instance id, which is checked before the write (KIP-345)"),
    _refused("FENCED_MEMBER_EPOCH", "the member was fenced, which is checked before the write (KIP-848)"),
    _refused("STALE_MEMBER_EPOCH", "the member's epoch is checked before the write (KIP-848)"),
    _refused(
        "COORDINATOR_LOAD_IN_PROGRESS", "a coordinator that is still reading what it is to coordinate writes nothing"
    ),
    _refused("GROUP_ID_NOT_FOUND", "there is no such group, which is checked before the write"),
    _refused("INVALID_GROUP_ID", "the request is turned down as a whole"),
    _refused("GROUP_AUTHORIZATION_FAILED", "permissions are checked first of all"),
    _refused("TOPIC_AUTHORIZATION_FAILED", "permissions are checked first of all"),
    _refused("OFFSET_METADATA_TOO_LARGE", "the metadata's size is checked before the write"),
    # Of offsets in a transaction, and of transactions: the coordinator looks at producer id and epoch first.
    _refused(
        "PRODUCER_FENCED", "a newer producer has the transactional id, which is checked before anything is written"
    ),
    _refused("INVALID_PRODUCER_EPOCH", "like PRODUCER_FENCED, as brokers before KIP-588 say it"),
    _refused("INVALID_PRODUCER_ID_MAPPING", "the transactional id belongs to another producer id, or to none"),
    _refused(
        "INVALID_TXN_STATE", "the coordinator has no such transaction open: there is nothing that it would commit"
    ),
    _refused("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "permissions are checked first of all"),
    _refused("_FENCED", "librdkafka's name for PRODUCER_FENCED and INVALID_PRODUCER_EPOCH"),
    # What librdkafka finds out by itself, before it asks anybody.
    _refused("_NO_OFFSET", "there was nothing to commit"),
    _refused("_STATE", "the client is in no state to commit, and asked nobody"),
    # It may have happened.
    _unknown(
        "NOT_COORDINATOR", "also the answer when the coordinator wrote and was deposed while it waited for followers"
    ),
    _unknown("COORDINATOR_NOT_AVAILABLE", "also the answer when the write waited for followers in vain"),
    _unknown("CONCURRENT_TRANSACTIONS", "the transaction is being ended: what was asked may be what is being done"),
    _unknown("REQUEST_TIMED_OUT", "written, and followers were too slow"),
    _unknown("_TIMED_OUT", "no answer in time"),
    _unknown("_TRANSPORT", "the connection broke with the request on it"),
    _unknown("_WAIT_COORD", "no coordinator was known at the end; one may have been asked before"),
    _unknown("_DESTROY", "the client was closed while the request was its own"),
)

_COMMIT_PROOFS = {row.error: row.proof for row in COMMITS}
_PROOFS = {row.error: row.proof for row in TABLE}

_RENAMED = {  # librdkafka keeps names that Kafka has changed
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
    "INVALID_MSG": "CORRUPT_MESSAGE",
    "UNKNOWN_TOPIC_OR_PART": "UNKNOWN_TOPIC_OR_PARTITION",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION",
    "INVALID_MSG_SIZE": "INVALID_FETCH_SIZE",
    "STALE_CTRL_EPOCH": "STALE_CONTROLLER_EPOCH",
    "NOT_COORDINATOR_FOR_GROUP": "NOT_COORDINATOR",
    "GROUP_COORDINATOR_NOT_AVAILABLE": "COORDINATOR_NOT_AVAILABLE",
    "GROUP_LOAD_IN_PROGRESS": "COORDINATOR_LOAD_IN_PROGRESS",
}


def error_name(error: KafkaError) -> str:
    """The error as Kafka's protocol spells it ("NOT_LEADER_OR_FOLLOWER"); librdkafka's own errors keep their
    underscore."""
    name: str = error.name()
    return _RENAMED.get(name, name)


def outcome_of_send(error: str | None, *, latency_s: float, retry_backoff_s: float, acks: str = "all") -> Outcome:
    """What a delivery report says. `latency_s`: from produce() to the report; `retry_backoff_s`: the client's
    `retry.backoff.ms`.

    Half of the backoff is the limit, where 80 % would do: clocks are read twice.
    """
    if error is None:
        return Outcome.INFO if acks == "0" else Outcome.OK
    only_attempt = 0 <= latency_s < retry_backoff_s / 2
    return Outcome.FAIL if _PROOFS.get(error) is Proof.REFUSED and only_attempt else Outcome.INFO


def outcome_of_commit(
    error: str | None, *, latency_s: float, retry_backoff_s: float, fenced_before: bool = False
) -> Outcome:
    """What the answer to a commit says, of offsets or of a transaction. `latency_s`: from the call to its return;
    `fenced_before`: a newer producer had the transactional id before this one asked, so that no attempt can succeed."""
    if error is None:
        return Outcome.OK
    only_attempt = 0 <= latency_s < retry_backoff_s / 2
    refused = _COMMIT_PROOFS.get(error) is Proof.REFUSED
    return Outcome.FAIL if refused and (only_attempt or fenced_before) else Outcome.INFO
