"""Raw requests about single partitions: elections, offsets, producers, replicas. Versions that 3.2 to 4.4 speak.

    await partitions.elect(connection, "t", 0, preferred=True, timeout=10)            # "NONE", "PREFERRED_LEADER_NOT_AVAILABLE", ...
    await partitions.offset(connection, "t", 0, At.LATEST, timeout=5)                 # Offset(error="NONE", offset=200, leader_epoch=3)

Errors are results, by Kafka's names: a race asks because it wants to know what the server says. Unreachable and Unsupported are raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kio.schema.alter_partition_reassignments.v0 import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kio.schema.alter_partition_reassignments.v0.request import ReassignablePartition, ReassignableTopic
from kio.schema.describe_producers.v0 import DescribeProducersRequest, DescribeProducersResponse
from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse
from kio.schema.elect_leaders.v2.request import TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7 import ListOffsetsRequest, ListOffsetsResponse
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from nodes.protocol.connection import Connection
from nodes.protocol.requests import error_name, milliseconds

CONSUMER: Final = -1
ANY_REPLICA: Final = -2  # "debugging": a follower answers too, and tells its log's end instead of its high watermark
_TOLD_NOTHING: Final = "UNKNOWN_TOPIC_OR_PARTITION"


class At(Enum):
    """Which offset is asked for: (timestamp, isolation level, replica id) of ListOffsets."""

    START = (-2, 0, CONSUMER)  # log start offset, of the leader
    LATEST = (-1, 0, CONSUMER)  # high watermark, of the leader
    STABLE = (-1, 1, CONSUMER)  # last stable offset: what read_committed may see, of the leader
    END = (-1, 0, ANY_REPLICA)  # end of this broker's own log, leader or follower
    OWN_START = (-2, 0, ANY_REPLICA)  # start of this broker's own log


@dataclass(frozen=True, kw_only=True)
class Offset:
    error: str  # NONE, NOT_LEADER_OR_FOLLOWER, ...
    offset: int  # -1 with an error
    leader_epoch: int


@dataclass(frozen=True, kw_only=True)
class Producer:
    """A producer that a partition's leader knows (DescribeProducers, KIP-664)."""

    producer_id: int
    epoch: int
    last_sequence: int
    open_since: int  # offset at which its open transaction began, -1: none is open


async def elect(connection: Connection, topic: str, partition: int, *, preferred: bool, timeout: float) -> str:
    """ElectLeaders, preferred or unclean (KIP-460): NONE, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ..."""
    wanted = TopicPartitions(topic=TopicName(topic), partitions=(i32(partition),))
    request = ElectLeadersRequest(
        election_type=i8(0 if preferred else 1), topic_partitions=(wanted,), timeout=milliseconds(timeout)
    )
    answer = await connection.ask(request, ElectLeadersResponse, timeout=timeout)
    if answer.error_code is not ErrorCode.none:
        return error_name(answer.error_code)
    for result in answer.replica_election_results:
        for one in result.partition_result:
            return error_name(one.error_code)
    return error_name(ErrorCode.election_not_needed)  # what needs nothing is left out of the answer


async def offset(
    connection: Connection, topic: str, partition: int, at: At = At.LATEST, *, leader_epoch: int = -1, timeout: float
) -> Offset:
    """ListOffsets. leader_epoch: what the asker believes, so that a server that knows better refuses; -1: nothing."""
    timestamp, isolation, replica = at.value
    wanted = ListOffsetsPartition(
        partition_index=i32(partition), current_leader_epoch=i32(leader_epoch), timestamp=i64(timestamp)
    )
    request = ListOffsetsRequest(
        replica_id=BrokerId(replica),
        isolation_level=i8(isolation),
        topics=(ListOffsetsTopic(name=TopicName(topic), partitions=(wanted,)),),
    )
    for told in (await connection.ask(request, ListOffsetsResponse, timeout=timeout)).topics:
        for one in told.partitions:
            return Offset(error=error_name(one.error_code), offset=int(one.offset), leader_epoch=int(one.leader_epoch))
    return Offset(error=_TOLD_NOTHING, offset=-1, leader_epoch=-1)


async def producers(
    connection: Connection, topic: str, partition: int, *, timeout: float
) -> tuple[str, list[Producer]]:
    """DescribeProducers, of any replica: error name, and who wrote here lately."""
    wanted = TopicRequest(name=TopicName(topic), partition_indexes=(i32(partition),))
    answer = await connection.ask(
        DescribeProducersRequest(topics=(wanted,)), DescribeProducersResponse, timeout=timeout
    )
    for told in answer.topics:
        for one in told.partitions:
            found = [
                Producer(
                    producer_id=int(state.producer_id),
                    epoch=int(state.producer_epoch),
                    last_sequence=int(state.last_sequence),
                    open_since=int(state.current_txn_start_offset),
                )
                for state in one.active_producers
            ]
            return error_name(one.error_code), found
    return _TOLD_NOTHING, []


async def reassign(
    connection: Connection, topic: str, partition: int, replicas: Sequence[int] | None, *, timeout: float
) -> str:
    """AlterPartitionReassignments (KIP-455); None as replicas cancels the one that is under way."""
    ids = None if replicas is None else tuple(BrokerId(id) for id in replicas)
    wanted = ReassignableTopic(
        name=TopicName(topic), partitions=(ReassignablePartition(partition_index=i32(partition), replicas=ids),)
    )
    request = AlterPartitionReassignmentsRequest(timeout=milliseconds(timeout), topics=(wanted,))
    answer = await connection.ask(request, AlterPartitionReassignmentsResponse, timeout=timeout)
    for told in answer.responses:
        for one in told.partitions:
            return error_name(one.error_code)
    return error_name(answer.error_code)
