"""Which replicas are in sync, and which change of the ISR the leader asks for (KIP-497, KIP-841, KIP-903).

One AlterPartition is in flight at a time. A follower joins when it has all that is committed and the start of the leader's epoch, is
neither fenced nor stopping, and is the incarnation that the metadata knows; it leaves when it has not caught up for
`replica.lag.time.max.ms`.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from nodes.reference.partition.effects import AlterPartition, AlterPartitionAnswer
from nodes.reference.partition.isr import Isr
from nodes.reference.partition.local import Local
from nodes.reference.partition.progress import Progress
from nodes.reference.partition.view import NO_BROKER_EPOCH, PartitionView
from nodes.reference.protections import Protection

_NOT_ELIGIBLE: Final = (ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted)
_WAIT_FOR_METADATA: Final = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.invalid_update_version,
    ErrorCode.invalid_request,
    ErrorCode.new_leader_elected,
)


class Membership:
    """Of one leader in its epoch."""

    def __init__(self, local: Local, view: PartitionView, now: int) -> None:
        self._local = local
        self.epoch_start = local.log.log_end_offset
        self.view = view
        self.isr = Isr(view.isr)
        self._ask_again = False
        self.followers: dict[int, Progress] = {}
        self._add_followers(now)

    @property
    def enough(self) -> int:
        """`min.insync.replicas`, but never more than there are replicas."""
        return min(self._local.settings.min_insync_replicas, len(self.view.replicas))

    @property
    def under_min_isr(self) -> bool:
        return len(self.isr.committed) < self.enough

    def view_changed(self, view: PartitionView, now: int) -> None:
        """The controller has committed a change in this epoch. What is in flight was this change, or will be refused for its epoch."""
        self.view = view
        self.isr = Isr(view.isr)
        self._ask_again = False
        self._add_followers(now)

    def behind_high_watermark(self, now: int) -> list[Progress]:
        """KIP-497: the followers that must have a record before it is committed: those of the maximal ISR.

        Beside them those that are caught up and could join, so that the high watermark does not run away from one that is about to
        (as Kafka does; for `replica.lag.time.max.ms` at most).
        """
        if not self._local.protections.on(Protection.MAXIMAL_ISR):
            return [progress for id, progress in self.followers.items() if id in self.isr.committed]
        maximal = self.isr.maximal
        return [
            progress
            for id, progress in self.followers.items()
            if id in maximal or (self._is_caught_up(progress, now) and self.eligible(id))
        ]

    def stale(self, replica: int, broker_epoch: int) -> bool:
        """KIP-903 (KAFKA-15221): a fetch that an earlier life of the broker sent, as far as the metadata here tells."""
        return self._incarnation(replica, broker_epoch) < 0

    def eligible(self, replica: int) -> bool:
        """May a replica be in the ISR? The leader's half of KIP-841 and of KIP-903; the controller checks both again."""
        broker_epoch = self.followers[replica].broker_epoch
        if broker_epoch is None or self._incarnation(replica, broker_epoch) != 0:
            return False
        if not self._local.protections.on(Protection.ISR_ELIGIBILITY_AT_LEADER):
            return True
        broker = self._local.brokers.get(replica)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def expand(self, replica: int) -> AlterPartition | None:
        """KIP-497: ask for a follower to join that has caught up, if nothing is in flight."""
        progress = self.followers[replica]
        if self.isr.proposal is not None or replica in self.isr.committed:
            return None
        in_sync = progress.log_end_offset >= max(self._local.log.high_watermark, self.epoch_start)
        return self._propose(self.isr.committed | {replica}) if in_sync and self.eligible(replica) else None

    def shrink(self, now: int) -> AlterPartition | None:
        """KIP-497: ask for followers to leave that lag, if nothing is in flight."""
        if self.isr.proposal is not None:
            return None
        lagging = {
            id
            for id, progress in self.followers.items()
            if id in self.isr.committed and not self._is_caught_up(progress, now)
        }
        return self._propose(self.isr.committed - lagging) if lagging else None

    def answered(self, answer: AlterPartitionAnswer) -> None:
        """What the controller said to what is in flight; anything else came too late.

        Refused as ineligible: back to what is committed (KIP-903). Refused because the controller knows more, or less: stay with
        the maximal ISR, the metadata log brings the truth. Any other error says nothing: ask the same again.
        """
        if answer.asked is not self.isr.proposal:
            return
        if answer.error in _NOT_ELIGIBLE:
            self.isr = self.isr.reverted()
        elif answer.error is ErrorCode.none:
            self._committed(answer)
        elif answer.error not in _WAIT_FOR_METADATA:
            self._ask_again = True

    def again(self) -> AlterPartition | None:
        """What is to be asked again because its answer said nothing."""
        asked, self._ask_again = self._ask_again, False
        return self.isr.proposal if asked else None

    def _committed(self, answer: AlterPartitionAnswer) -> None:
        if answer.leader_epoch != self.view.leader_epoch or answer.partition_epoch < self.view.partition_epoch:
            return
        self.isr = Isr(answer.isr)
        self.view = PartitionView(
            replicas=self.view.replicas,
            isr=answer.isr,
            leader=self.view.leader,
            leader_epoch=self.view.leader_epoch,
            partition_epoch=answer.partition_epoch,
        )

    def _propose(self, members: frozenset[int]) -> AlterPartition:
        proposal = AlterPartition(
            leader_epoch=self.view.leader_epoch,
            partition_epoch=self.view.partition_epoch,
            new_isr=tuple((id, self._broker_epoch(id)) for id in sorted(members)),
        )
        self.isr = self.isr.proposed(proposal, wait=self._local.protections.on(Protection.ISR_COMMITTED_FIRST))
        return proposal

    def _broker_epoch(self, replica: int) -> int:
        """KIP-903, Leader: as its newest fetch told; -1 for a member that has not fetched in this epoch."""
        if replica == self._local.broker:
            return self._local.broker_epoch
        progress = self.followers.get(replica)
        known = None if progress is None else progress.broker_epoch
        return NO_BROKER_EPOCH if known is None else known

    def _incarnation(self, replica: int, broker_epoch: int) -> int:
        """KIP-903, Leader: a fetch's broker epoch against the metadata's: below 0 an earlier life, above 0 one not yet known here."""
        if broker_epoch == NO_BROKER_EPOCH or not self._local.protections.on(Protection.BROKER_EPOCH_AT_LEADER):
            return 0
        broker = self._local.brokers.get(replica)
        return 1 if broker is None else broker_epoch - broker.epoch

    def _is_caught_up(self, progress: Progress, now: int) -> bool:
        return progress.is_caught_up(leader_end=self._local.log.log_end_offset, now=now, max_lag=self._local.max_lag)

    def _add_followers(self, now: int) -> None:
        """Members of the ISR have `replica.lag.time.max.ms` from now on to show themselves."""
        self.followers = {
            id: self.followers.get(id) or Progress(last_caught_up=now if id in self.view.isr else None)
            for id in self.view.replicas
            if id != self._local.broker
        }
