"""Records on the wire: KIP-631's framing, Kafka's layouts, nothing that is not understood is taken."""

from __future__ import annotations

from uuid import UUID

import pytest

from nodes.kafka.metadata_log import rows
from nodes.reference.metadata.records import UnknownRecord, decode, encode
from nodes.reference.metadata.schema import (
    TYPES,
    BrokerRegistrationChangeRecord,
    Endpoint,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RegisterBrokerRecord,
    SupportedFeature,
    TopicRecord,
    UnregisterBrokerRecord,
)
from nodes.reference.raft.log import Batch
from nodes.reference.raft.records import encode as encode_batch

TOPIC = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
RECORDS: tuple[Record, ...] = (
    RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=UUID(int=5),
        broker_epoch=17,
        end_points=(Endpoint(name="PLAINTEXT", host="10.0.0.1", port=60_000),),
        features=(SupportedFeature(name="metadata.version", min_supported_version=1, max_supported_version=11),),
        rack=None,
    ),
    TopicRecord(name="t", topic_id=TOPIC),
    PartitionRecord(
        partition_id=0, topic_id=TOPIC, replicas=(1, 2), isr=(1,), leader=1, leader_epoch=3, partition_epoch=9
    ),
    PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(2,), leader=2, leader_recovery_state=1),
    PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=()),
    BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=17, fenced=-1, in_controlled_shutdown=1),
    FeatureLevelRecord(name="metadata.version", feature_level=10),
    UnregisterBrokerRecord(broker_id=1, broker_epoch=17),
)


def test_a_topic_is_framed_as_kip_631_says() -> None:
    assert encode(RECORDS[1]) == b"\x01\x02\x00" + b"\x02t" + TOPIC.bytes + b"\x00"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_what_is_encoded_comes_back(record: Record) -> None:
    assert decode(encode(record)) == record


def test_what_reads_kafkas_metadata_log_reads_this_one() -> None:
    log = encode_batch(Batch(100, 4, 0, tuple(encode(record) for record in RECORDS)), "cluster")
    told = {row.kind: row.fields for row in rows(log)}
    assert [row.offset for row in rows(log)] == list(range(100, 108))
    assert told["register-broker"]["broker_epoch"] == 17
    assert told["partition"]["replicas"] == (1, 2)
    assert [row.fields.get("isr") for row in rows(log) if row.kind == "partition-change"] == [(2,), ()]
    assert told["broker-registration-change"]["fenced"] == -1


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        b"\x02" + encode(NoOpRecord())[1:],
        b"\x01\x63\x00\x00",
        b"\x01\x02\x07" + encode(RECORDS[1])[3:],
        encode(RECORDS[1])[:-2],
        encode(RECORDS[1]) + b"\x00",
        b"\x01\x02\x00\xff\xff\xff\xff\x07",
    ],
)
def test_what_is_not_understood_is_refused(value: bytes) -> None:
    with pytest.raises(UnknownRecord):
        decode(value)


def test_every_type_has_a_number_of_its_own() -> None:
    assert len(set(TYPES.values())) == len(TYPES) == 16
