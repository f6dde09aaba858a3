"""Who leads a partition, and how its ISR shrinks when a broker goes (KIP-631; KIP-841; KIP-966 calls the last member's rule into question).

An election is always clean if it can be: the present leader if it may go on, else the first replica in the order of the assignment that is
in the ISR and active. Only if there is none, and the topic allows it, one from outside of the ISR: then records may be lost.
The last member of an ISR stays in it whatever happens to it (KIP-903 names this exception): nobody else has all the records.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from nodes.reference.controller.draft import Draft
from nodes.reference.metadata import features
from nodes.reference.metadata.entities import RECOVERING, Partition, PartitionId
from nodes.reference.metadata.schema import NO_LEADER_CHANGE, PartitionChangeRecord
from nodes.reference.partition.view import NO_LEADER
from nodes.reference.protections import Protection

MayLead = Callable[[int], bool]


class Mode(enum.Enum):
    CLEAN = "clean"
    PREFERRED = "preferred"  # the first of the assignment, if it is in the ISR
    UNCLEAN = "unclean"  # clean if possible


def unclean_allowed(draft: Draft, topic: str) -> bool:
    """`unclean.leader.election.enable` of a topic."""
    if not draft.moment.protections.on(Protection.UNCLEAN_ELECTION_DISABLED):
        return True
    setting = draft.image.topic_config(topic, "unclean.leader.election.enable")
    return draft.moment.settings.unclean_leader_election_enable if setting is None else setting == "true"


def elected(partition: Partition, isr: tuple[int, ...], may_lead: MayLead, mode: Mode) -> int:
    """Who leads with this ISR; NO_LEADER if nobody can. Outside of the ISR: an unclean leader."""
    preferred = partition.replicas[:1] if mode is Mode.PREFERRED else ()
    for replica in (*preferred, partition.leader, *partition.replicas):
        if replica in isr and may_lead(replica):
            return replica
    if mode is Mode.UNCLEAN:
        return next((replica for replica in partition.replicas if may_lead(replica)), NO_LEADER)
    return NO_LEADER


def change(
    draft: Draft,
    id: PartitionId,
    *,
    isr: tuple[int, ...] | None = None,
    recovery: int | None = None,
    mode: Mode = Mode.CLEAN,
    may_lead: MayLead | None = None,
) -> None:
    """Writes down a new ISR, leader or recovery state, if anything is new. The leader epoch grows only when the leader changes
    (KAFKA-15021); the partition epoch with every change (KIP-497).
    """
    partition = draft.image.partition(id)
    assert partition is not None
    isr = partition.isr if isr is None else isr
    recovery = partition.recovery if recovery is None else recovery
    leader = elected(partition, isr, may_lead or draft.image.active, mode)
    if leader != NO_LEADER and leader not in isr:
        isr = (leader,)
        if features.leader_recovery_state(draft.image.metadata_version):
            recovery = RECOVERING
    if (isr, leader, recovery) != (partition.isr, partition.leader, partition.recovery):
        draft.write(
            PartitionChangeRecord(
                partition_id=id.number,
                topic_id=id.topic_id,
                isr=None if isr == partition.isr else isr,
                leader=NO_LEADER_CHANGE if leader == partition.leader else leader,
                leader_recovery_state=-1 if recovery == partition.recovery else recovery,
            )
        )


def leave(draft: Draft, broker: int) -> None:
    """A broker leads nothing any more, and leaves every ISR of which it is not the last member: fenced, stopping, or new (KAFKA-18106)."""

    def may_lead(replica: int) -> bool:
        return replica != broker and draft.image.active(replica)

    for id, partition in list(draft.image.partitions_of(broker)):
        if broker in partition.isr or partition.leader == broker:
            left = tuple(member for member in partition.isr if member != broker)
            change(draft, id, isr=left or partition.isr, mode=_mode(draft, id), may_lead=may_lead)


def come_back(draft: Draft, broker: int) -> None:
    """A broker is active: what has no leader may get one."""
    for id, partition in list(draft.image.partitions_of(broker)):
        if partition.leader == NO_LEADER:
            change(draft, id, mode=_mode(draft, id))


def elect_leaderless(draft: Draft, topic: str) -> None:
    """The topic has just begun to allow unclean elections."""
    known = draft.image.topic(topic)
    for number, partition in list(known.partitions.items()) if known else ():
        if partition.leader == NO_LEADER:
            id = PartitionId(known.id, number)  # type: ignore[union-attr]
            change(draft, id, mode=_mode(draft, id))


def _mode(draft: Draft, id: PartitionId) -> Mode:
    return Mode.UNCLEAN if unclean_allowed(draft, draft.image.topics[id.topic_id].name) else Mode.CLEAN
