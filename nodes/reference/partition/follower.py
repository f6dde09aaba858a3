"""A replica that follows: fetches from where its log ends, cuts what diverges from the leader's log, and takes over its high watermark."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from nodes.reference.log.batch import BatchRefused
from nodes.reference.log.epochs import UNKNOWN_END, EpochEnd
from nodes.reference.partition.effects import (
    AskLeaderOffsets,
    Effect,
    FetchAnswer,
    FetchRefused,
    HighWatermarkMoved,
    LogGrew,
    LogTruncated,
)
from nodes.reference.partition.local import Local
from nodes.reference.partition.requests import FollowerFetch, ReplicaFetch
from nodes.reference.partition.view import NO_LEADER, PartitionView
from nodes.reference.protections import Protection


class Follower:
    """In one leader epoch."""

    def __init__(self, local: Local, view: PartitionView) -> None:
        self._local = local
        self._log = local.log
        self.view = view

    def begin(self) -> list[Effect]:
        """Become a follower. KIP-101: nothing is cut before the leader has said where the logs diverge."""
        if self._local.protections.on(Protection.TRUNCATE_BY_EPOCH):
            return []
        return self._truncate(self._log.high_watermark)

    def next_fetch(self) -> FollowerFetch | None:
        """What to ask the leader; None while there is none."""
        if self.view.leader == NO_LEADER:
            return None
        request = ReplicaFetch(
            replica=self._local.broker,
            replica_epoch=self._local.broker_epoch,
            leader_epoch=self.view.leader_epoch,
            offset=self._log.log_end_offset,
            last_fetched_epoch=self._log.latest_epoch,
            log_start_offset=self._log.log_start_offset,
        )
        return FollowerFetch(leader=self.view.leader, request=request)

    def fetched(self, request: ReplicaFetch, answer: FetchAnswer, now: int) -> list[Effect]:
        """The leader's answer. One to a question of another epoch or offset came too late and says nothing."""
        if (request.leader_epoch, request.offset) != (self.view.leader_epoch, self._log.log_end_offset):
            return []
        if answer.error is ErrorCode.offset_out_of_range:
            return [AskLeaderOffsets(self.view.leader, self.view.leader_epoch)]
        if answer.error is not ErrorCode.none:
            return []  # the metadata log, or the next try, will tell more
        if answer.diverging != UNKNOWN_END:
            return self._truncate(self._divergence(answer.diverging))
        effects: list[Effect] = []
        if answer.records:
            try:
                self._log.append_as_follower(answer.records, now=now)
            except BatchRefused as refused:
                return [FetchRefused(str(refused))]
            effects.append(LogGrew(self._log.log_end_offset))
        if self._log.advance_high_watermark(answer.high_watermark):
            effects.append(HighWatermarkMoved(self._log.high_watermark))
        self._log.advance_log_start_offset(answer.log_start_offset)
        return effects

    def leader_offsets(self, leader_epoch: int, earliest: int, latest: int) -> list[Effect]:
        """Where the leader's log begins and ends, after AskLeaderOffsets.

        A leader that ends before this log has been elected uncleanly, or epochs tell nothing: end where it ends. One that begins after
        it has deleted what is missing here: begin anew there.
        """
        if leader_epoch != self.view.leader_epoch:
            return []
        if latest < self._log.log_end_offset:
            return self._truncate(latest)
        if earliest <= self._log.log_end_offset:
            return []
        was, high_watermark = self._log.log_end_offset, self._log.high_watermark
        self._log.truncate_fully_and_start_at(earliest)
        return [LogTruncated(was, earliest, high_watermark)]

    def _divergence(self, leaders: EpochEnd) -> int:
        """KIP-279, Leader Epoch Cache: where to cut, given the end of the largest epoch that the leader shares.

        If this log does not have that epoch, it ends where its own largest one below it does; the next fetch asks again from there.
        """
        own = self._log.end_of_epoch(leaders.epoch)
        if own == UNKNOWN_END or own.epoch == leaders.epoch:
            return min(leaders.offset, self._log.log_end_offset if own == UNKNOWN_END else own.offset)
        return min(own.offset, self._log.log_end_offset)

    def _truncate(self, offset: int) -> list[Effect]:
        was, high_watermark = self._log.log_end_offset, self._log.high_watermark
        if not self._log.truncate(offset):
            return []
        return [LogTruncated(was, self._log.log_end_offset, high_watermark)]
