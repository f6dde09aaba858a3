"""The in-sync replicas as the leader sees them (KIP-497): what the controller has committed, and the one change that is in flight.

    Isr(committed={1}, proposal=AlterPartition(new_isr=((1, 120), (2, 131)), ...)).maximal      {1, 2}

While a change is in flight nobody knows whether it has been applied, so the leader assumes whatever keeps records safe: a record is
committed only when all have it that may be elected, the old members and the new ones; and only members that surely are in the ISR count
towards `min.insync.replicas`.
"""

from __future__ import annotations

from dataclasses import dataclass

from nodes.reference.partition.effects import AlterPartition


@dataclass(frozen=True, slots=True)
class Isr:
    """Replaced, never changed."""

    committed: frozenset[int]
    proposal: AlterPartition | None = None
    before: frozenset[int] | None = None  # of the proposal, where it was applied before it was committed

    @property
    def maximal(self) -> frozenset[int]:
        """KIP-497, Proposed Changes: "the leader always assumes the largest possible ISR (taking into account inflight requests)"."""
        return self.committed if self.proposal is None else self.committed | self.proposal.members

    def proposed(self, proposal: AlterPartition, *, wait: bool) -> Isr:
        """A change is sent. wait: it counts when the controller has committed it; else (a defect) at once."""
        if wait:
            return Isr(self.committed, proposal)
        return Isr(proposal.members, proposal, before=self.committed)

    def reverted(self) -> Isr:
        """KIP-903, Leader: "discard the proposed ISR change and revert to the old committed ISR"."""
        return Isr(self.committed if self.before is None else self.before)
