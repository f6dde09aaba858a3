import pytest
from confluent_kafka import KafkaError

from workloads.op import Outcome
from workloads.outcomes import COMMITS, TABLE, error_name, outcome_of_commit, outcome_of_send

FAIL, INFO = Outcome.FAIL, Outcome.INFO

# What each error means when it is the answer to the only attempt. Written out once more on purpose.
EXPECTED = {
    "NOT_ENOUGH_REPLICAS": FAIL,
    "CORRUPT_MESSAGE": FAIL,
    "MESSAGE_TOO_LARGE": FAIL,
    "RECORD_LIST_TOO_LARGE": FAIL,
    "INVALID_TOPIC_EXCEPTION": FAIL,
    "INVALID_REQUIRED_ACKS": FAIL,
    "INVALID_TIMESTAMP": FAIL,
    "INVALID_RECORD": FAIL,
    "_INVALID_DIFFERENT_RECORD": FAIL,
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": FAIL,
    "UNSUPPORTED_COMPRESSION_TYPE": FAIL,
    "TOPIC_AUTHORIZATION_FAILED": FAIL,
    "CLUSTER_AUTHORIZATION_FAILED": FAIL,
    "INVALID_PRODUCER_EPOCH": FAIL,
    "UNKNOWN_PRODUCER_ID": FAIL,
    "_PURGE_QUEUE": FAIL,
    "_UNKNOWN_TOPIC": FAIL,
    "_UNKNOWN_PARTITION": FAIL,
    "NOT_LEADER_OR_FOLLOWER": INFO,
    "FENCED_LEADER_EPOCH": INFO,
    "UNKNOWN_TOPIC_OR_PARTITION": INFO,
    "UNKNOWN_TOPIC_ID": INFO,
    "LEADER_NOT_AVAILABLE": INFO,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": INFO,
    "REQUEST_TIMED_OUT": INFO,
    "KAFKA_STORAGE_ERROR": INFO,
    "UNKNOWN_SERVER_ERROR": INFO,
    "NETWORK_EXCEPTION": INFO,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": INFO,
    "DUPLICATE_SEQUENCE_NUMBER": INFO,
    "_MSG_TIMED_OUT": INFO,
    "_TIMED_OUT": INFO,
    "_TIMED_OUT_QUEUE": INFO,
    "_TRANSPORT": INFO,
    "_BAD_MSG": INFO,
    "_PURGE_INFLIGHT": INFO,
    "_FATAL": INFO,
    "_DESTROY": INFO,
}


@pytest.mark.parametrize(("error", "outcome"), EXPECTED.items(), ids=EXPECTED.keys())
def test_what_the_only_attempt_proves(error, outcome):
    assert outcome_of_send(error, latency_s=0.004, retry_backoff_s=0.1) == outcome


@pytest.mark.parametrize("error", EXPECTED)
def test_no_error_is_definite_once_there_was_time_for_a_second_attempt(error):
    assert outcome_of_send(error, latency_s=0.08, retry_backoff_s=0.1) == INFO


def test_the_table_and_its_tests_name_the_same_errors_once():
    assert sorted(row.error for row in TABLE) == sorted(EXPECTED)


def test_every_row_gives_its_reason():
    assert all(len(row.reason) > 10 for row in (*TABLE, *COMMITS))


def test_what_is_not_in_the_table_is_unknown():
    assert outcome_of_send("SOME_ERROR_OF_THE_FUTURE", latency_s=0.001, retry_backoff_s=0.1) == INFO


def test_an_unknown_latency_proves_nothing():
    assert outcome_of_send("NOT_ENOUGH_REPLICAS", latency_s=-1, retry_backoff_s=0.1) == INFO


@pytest.mark.parametrize(("acks", "outcome"), [("all", Outcome.OK), ("1", Outcome.OK), ("0", INFO)])
def test_success_happened_unless_nobody_was_asked_to_say_so(acks, outcome):
    assert outcome_of_send(None, latency_s=0.001, retry_backoff_s=0.1, acks=acks) == outcome


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (KafkaError.NOT_LEADER_FOR_PARTITION, "NOT_LEADER_OR_FOLLOWER"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "UNKNOWN_TOPIC_OR_PARTITION"),
        (KafkaError.MSG_SIZE_TOO_LARGE, "MESSAGE_TOO_LARGE"),
        (KafkaError.INVALID_MSG, "CORRUPT_MESSAGE"),
        (KafkaError.UNKNOWN, "UNKNOWN_SERVER_ERROR"),
        (KafkaError.REQUEST_TIMED_OUT, "REQUEST_TIMED_OUT"),
        (KafkaError._MSG_TIMED_OUT, "_MSG_TIMED_OUT"),
    ],
)
def test_errors_have_kafkas_names(code, name):
    assert error_name(KafkaError(code)) == name


def test_every_name_of_the_table_can_come_out_of_the_client():
    known = {error_name(KafkaError(code)) for code in range(-200, 130)}
    assert {row.error for row in (*TABLE, *COMMITS)} <= known | {"FENCED_LEADER_EPOCH"}


COMMITS_REFUSED = {
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "REBALANCE_IN_PROGRESS",
    "FENCED_INSTANCE_ID",
    "FENCED_MEMBER_EPOCH",
    "STALE_MEMBER_EPOCH",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "GROUP_ID_NOT_FOUND",
    "INVALID_GROUP_ID",
    "GROUP_AUTHORIZATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "OFFSET_METADATA_TOO_LARGE",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_PRODUCER_ID_MAPPING",
    "INVALID_TXN_STATE",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "_FENCED",
    "_NO_OFFSET",
    "_STATE",
}


@pytest.mark.parametrize("row", COMMITS, ids=lambda row: row.error)
def test_only_a_refusal_of_the_only_attempt_to_commit_is_a_failure(row):
    refused = row.error in COMMITS_REFUSED
    assert outcome_of_commit(row.error, latency_s=0.004, retry_backoff_s=0.1) == (Outcome.FAIL if refused else INFO)
    assert outcome_of_commit(row.error, latency_s=0.4, retry_backoff_s=0.1) == INFO


def test_who_was_fenced_before_it_asked_is_refused_however_long_that_took():
    assert outcome_of_commit("_FENCED", latency_s=9, retry_backoff_s=0.1, fenced_before=True) == Outcome.FAIL
    assert outcome_of_commit("_TIMED_OUT", latency_s=9, retry_backoff_s=0.1, fenced_before=True) == INFO
    assert outcome_of_commit("_FENCED", latency_s=9, retry_backoff_s=0.1) == INFO


def test_a_commit_of_no_known_error_happened_or_not():
    assert outcome_of_commit(None, latency_s=9, retry_backoff_s=0.1) == Outcome.OK
    assert outcome_of_commit("SOME_ERROR_OF_THE_FUTURE", latency_s=0.001, retry_backoff_s=0.1) == INFO
    assert len({row.error for row in COMMITS}) == len(COMMITS)
