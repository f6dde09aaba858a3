"""Fields of frames of real releases, one shape for all versions."""

from __future__ import annotations

import datetime
import uuid

import pytest
from kio.schema.alter_partition.v3 import request as v3
from kio.schema.alter_partition.v3 import response as answered
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from nemesis.wire import apis
from nemesis.wire.frame import request_head
from nemesis.wire.message import Direction
from nemesis.wire.rule import Match, Rule, Watch
from nemesis.wire.rulebook import Names, in_force
from nodes.protocol.framing import encode_request
from nodes.reference.controller import old_alter_partition
from nodes.reference.controller import schema as proposed
from tests.nemesis.wire.rig import RECORDED, recorded

ALTER_PARTITION = 56


def decoded(frame: bytes, api: int, version: int, direction: Direction = Direction.REQUEST) -> apis.Decoded:
    found = apis.decode(api, version, direction, frame[4:])
    assert found is not None
    return found


def test_every_recorded_frame_is_decoded() -> None:
    for one in RECORDED:
        decoded(bytes.fromhex(one["request"]), one["api"], one["version"])
        decoded(bytes.fromhex(one["response"]), one["api"], one["version"], Direction.RESPONSE)


def test_tagged_fields_of_newer_software_are_skipped() -> None:
    """KIP-482: one in the header of a response, right after its length and correlation id."""
    frame = recorded(ALTER_PARTITION, "4.3.1")[1]
    newer = frame[:8] + b"\x01\x63\x02ab" + frame[9:]
    assert decoded(newer, ALTER_PARTITION, 3, Direction.RESPONSE) == decoded(
        frame, ALTER_PARTITION, 3, Direction.RESPONSE
    )
    refused = apis.with_error(ALTER_PARTITION, 3, newer[4:], "NOT_CONTROLLER")
    assert refused == apis.with_error(ALTER_PARTITION, 3, frame[4:], "NOT_CONTROLLER") is not None


@pytest.mark.parametrize(("release", "version"), [("3.4.1", 2), ("4.3.1", 3)])
def test_an_isr_is_a_list_of_brokers_in_every_version(release: str, version: int) -> None:
    fields = decoded(recorded(ALTER_PARTITION, release)[0], ALTER_PARTITION, version).fields
    assert fields["newIsr"] == [1, 2]
    assert (fields["brokerId"], fields["partition"], len(fields["topicId"])) == (1, 0, 22)
    assert {"leaderEpoch", "partitionEpoch", "brokerEpoch"} <= fields.keys()
    assert fields.get("brokerEpochs", [12, 39]) == [12, 39]


def test_alter_partition_1_names_its_topic() -> None:
    part = old_alter_partition.RequestedPartition(
        partition_index=i32(3),
        leader_epoch=i32(1),
        new_isr=(BrokerId(1), BrokerId(2)),
        leader_recovery_state=i8(0),
        partition_epoch=i32(4),
    )
    topic = old_alter_partition.RequestedTopic(name=TopicName("log"), partitions=(part,))
    request = old_alter_partition.AlterPartitionRequest(broker_id=BrokerId(1), broker_epoch=i64(5), topics=(topic,))
    fields = decoded(encode_request(request, correlation_id=1, client_id="1"), ALTER_PARTITION, 1).fields
    assert (fields["topic"], fields["partition"], fields["newIsr"]) == ("log", 3, [1, 2])


def several(count: int) -> bytes:
    parts = tuple(
        v3.PartitionData(
            partition_index=i32(number),
            leader_epoch=i32(number),
            new_isr_with_epochs=(v3.BrokerState(broker_id=BrokerId(number), broker_epoch=i64(-1)),),
            partition_epoch=i32(1),
        )
        for number in range(count)
    )
    topic = v3.TopicData(topic_id=uuid.UUID(int=1), partitions=parts)
    request = v3.AlterPartitionRequest(broker_id=BrokerId(1), broker_epoch=i64(5), topics=(topic,))
    return encode_request(request, correlation_id=1, client_id="1")


def test_several_partitions_are_rows_that_a_question_is_tried_on() -> None:
    found = decoded(several(3), ALTER_PARTITION, 3)
    assert [row["newIsr"] for row in found.rows()] == [[0], [1], [2]]
    assert all(row["brokerId"] == 1 for row in found.rows())


def test_what_is_recorded_is_bounded() -> None:
    assert len(decoded(several(5000), ALTER_PARTITION, 3).as_text()) < 20_000


def test_an_error_of_a_part_is_the_responses_error_unless_it_has_one_of_its_own() -> None:
    def error(top: ErrorCode, part: ErrorCode) -> str | None:
        partition = answered.PartitionData(
            partition_index=i32(0),
            error_code=part,
            leader_id=BrokerId(1),
            leader_epoch=i32(1),
            partition_epoch=i32(1),
        )
        topic = answered.TopicData(topic_id=uuid.UUID(int=1), partitions=(partition,))
        whole = answered.AlterPartitionResponse(
            throttle_time=i32Timedelta.parse(datetime.timedelta(0)), error_code=top, topics=(topic,)
        )
        kind = answered.AlterPartitionResponse.__header_schema__
        header = apis._written(kind, kind(correlation_id=i32(1)))
        frame = header + apis._written(answered.AlterPartitionResponse, whole)
        found = apis.decode(ALTER_PARTITION, 3, Direction.RESPONSE, frame)
        assert found is not None
        rewritten = apis.with_error(ALTER_PARTITION, 3, frame, "FENCED_LEADER_EPOCH")
        assert rewritten is not None
        again = apis.decode(ALTER_PARTITION, 3, Direction.RESPONSE, rewritten)
        assert again is not None
        assert again.error == "FENCED_LEADER_EPOCH"
        return found.error

    assert error(ErrorCode.none, ErrorCode.none) == "NONE"
    assert error(ErrorCode.none, ErrorCode.ineligible_replica) == "INELIGIBLE_REPLICA"
    assert error(ErrorCode.not_controller, ErrorCode.ineligible_replica) == "NOT_CONTROLLER"


def test_unknown_apis_versions_and_bytes_are_not_decoded() -> None:
    there, _ = recorded(ALTER_PARTITION)
    assert apis.decode(ALTER_PARTITION, 99, Direction.REQUEST, there[4:]) is None
    assert apis.decode(999, 0, Direction.REQUEST, there[4:]) is None
    assert apis.decode(ALTER_PARTITION, 3, Direction.REQUEST, there[4:-1]) is None
    assert apis.decode(ALTER_PARTITION, 3, Direction.REQUEST, there[4:] + b"x") is None
    assert (apis.api_name(999), apis.api_name(56), apis.api_name(-1)) == ("api 999", "AlterPartition", "opaque")
    assert apis.with_error(ALTER_PARTITION, 99, b"", "NONE") is None


def test_the_proposals_heartbeat_is_a_heartbeat() -> None:
    """KIP-631's, which the reference cluster sends, has a key of its own."""
    request = proposed.BrokerHeartbeatRequest(
        target_state=1, broker_id=2, broker_epoch=7, lease_start_time_ms=10, cur_metadata_offset=5
    )
    frame = encode_request(request, correlation_id=1, client_id="2")
    assert request_head(frame, 0) == (len(frame) - 4, proposed.BROKER_HEARTBEAT, 0, 1, "2")
    assert apis.api_name(proposed.BROKER_HEARTBEAT) == "BrokerHeartbeat"
    fields = decoded(frame, proposed.BROKER_HEARTBEAT, 0).fields
    assert (fields["brokerId"], fields["brokerEpoch"], fields["curMetadataOffset"]) == (2, 7, 5)
    rule = in_force(
        Rule(id="r", match=Match(api="BrokerHeartbeat"), act=Watch()), Names(servers=frozenset({"b1", "c1"}))
    )
    concerned = [api for api in range(1100) if rule.concerns("b1", "c1", Direction.REQUEST, api)]
    assert concerned == [63, proposed.BROKER_HEARTBEAT]


def test_a_number_is_one_api() -> None:
    rule = in_force(Rule(id="r", match=Match(api=63), act=Watch()), Names(servers=frozenset({"b1", "c1"})))
    assert [api for api in range(1100) if rule.concerns("b1", "c1", Direction.REQUEST, api)] == [63]
