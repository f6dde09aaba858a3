"""AlterPartition: the leader proposes an ISR, only the controller writes it (KIP-497; KIP-841, KIP-903).

What is looked at, in Kafka's order (ReplicationControlManager.alterPartition), first for the whole request, then for each partition:

    the broker's epoch                     STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED
    topic, partition                       UNKNOWN_TOPIC_ID (by name: UNKNOWN_TOPIC_OR_PARTITION), UNKNOWN_TOPIC_OR_PARTITION
    an epoch newer than ours               NOT_CONTROLLER: then we are the one that is behind (KAFKA-14154)
    an older leader epoch                  FENCED_LEADER_EPOCH
    not from the leader                    INVALID_REQUEST
    an older partition epoch               INVALID_UPDATE_VERSION
    not a set of replicas with the leader  INVALID_REQUEST
    impossible recovery state              INVALID_REQUEST
    somebody who may not be in an ISR      INELIGIBLE_REPLICA (before version 2: OPERATION_NOT_ATTEMPTED)
"""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.reference.controller import elections
from nodes.reference.controller.broker_messages import (
    OK,
    AlteredPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ProposedIsr,
)
from nodes.reference.controller.brokers import epoch_error
from nodes.reference.controller.draft import Draft
from nodes.reference.metadata.entities import RECOVERED, RECOVERING, Partition, PartitionId
from nodes.reference.partition.view import NO_BROKER_EPOCH
from nodes.reference.protections import Protection


def alter_partitions(draft: Draft, request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Each partition by itself; the answer has the state that is committed with it."""
    error = epoch_error(draft, request.broker_id, request.broker_epoch)
    if error is not OK:
        return AlterPartitionResponse(error=error)
    return AlterPartitionResponse(
        error=OK, partitions=tuple(_alter(draft, request, proposed) for proposed in request.partitions)
    )


def _alter(draft: Draft, request: AlterPartitionRequest, proposed: ProposedIsr) -> AlteredPartition:
    by_id = isinstance(proposed.topic, UUID)
    topic_id = proposed.topic if isinstance(proposed.topic, UUID) else draft.image.topic_ids.get(proposed.topic)
    if topic_id not in draft.image.topics:
        error = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
        return AlteredPartition(topic=proposed.topic, index=proposed.index, error=error)
    assert topic_id is not None
    id = PartitionId(topic_id, proposed.index)
    partition = draft.image.partition(id)
    missing = ErrorCode.unknown_topic_or_partition
    error = missing if partition is None else refusal(draft, partition, proposed, request.broker_id)
    if error is ErrorCode.ineligible_replica and request.version < 2:
        error = ErrorCode.operation_not_attempted
    if partition is None or error is not OK:
        return AlteredPartition(topic=proposed.topic, index=proposed.index, error=error)
    members = {member for member, _ in proposed.new_isr}
    isr = tuple(replica for replica in partition.replicas if replica in members)
    same = members == set(partition.isr)
    elections.change(draft, id, isr=partition.isr if same else isr, recovery=proposed.recovery)
    altered = draft.image.partition(id)
    assert altered is not None
    return AlteredPartition(
        topic=proposed.topic,
        index=proposed.index,
        error=OK,
        leader=altered.leader,
        leader_epoch=altered.leader_epoch,
        isr=altered.isr,
        partition_epoch=altered.partition_epoch,
        recovery=altered.recovery,
    )


def refusal(draft: Draft, partition: Partition, proposed: ProposedIsr, sender: int) -> ErrorCode:
    """What speaks against a proposal, in the order above; none if nothing does."""
    if proposed.leader_epoch > partition.leader_epoch or proposed.partition_epoch > partition.partition_epoch:
        return ErrorCode.not_controller
    if proposed.leader_epoch < partition.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if sender != partition.leader:
        return ErrorCode.invalid_request
    if proposed.partition_epoch < partition.partition_epoch:
        return ErrorCode.invalid_update_version
    members = [member for member, _ in proposed.new_isr]
    if len(set(members)) < len(members) or not {partition.leader} <= set(members) <= set(partition.replicas):
        return ErrorCode.invalid_request
    if proposed.recovery not in (RECOVERED, RECOVERING):
        return ErrorCode.invalid_request
    if proposed.recovery == RECOVERING and (len(members) > 1 or partition.recovery == RECOVERED):
        return ErrorCode.invalid_request
    if not all(eligible(draft, member, epoch) for member, epoch in proposed.new_isr):
        return ErrorCode.ineligible_replica
    return OK


def eligible(draft: Draft, broker_id: int, broker_epoch: int) -> bool:
    """May this life of a broker be in an ISR?"""
    broker = draft.image.brokers.get(broker_id)
    if broker is None:
        return False
    if draft.moment.protections.on(Protection.ISR_ELIGIBILITY_AT_CONTROLLER) and not broker.active:
        return False
    if not draft.moment.protections.on(Protection.BROKER_EPOCH_AT_CONTROLLER):
        return True
    return broker_epoch in (NO_BROKER_EPOCH, broker.epoch)
