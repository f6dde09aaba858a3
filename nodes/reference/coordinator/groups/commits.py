"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete of one group.

A commit is acknowledged when it is committed in the log, and only then does it count: whoever fetches it gets what every later coordinator
will find. One whose answer is overdue is told so; should its record be committed after all, it counts from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.schema.errors import ErrorCode

from nodes.reference.coordinator import framing
from nodes.reference.coordinator.effects import NEVER, Answer, Effect, Ticket, Writes, is_in_the_log, of_the_log
from nodes.reference.coordinator.groups import records
from nodes.reference.coordinator.groups.group import Group, GroupState
from nodes.reference.coordinator.groups.membership import Membership
from nodes.reference.coordinator.groups.rebalance import alive
from nodes.reference.coordinator.groups.requests import (
    NO_GENERATION,
    NO_OFFSET,
    NOTHING_COMMITTED,
    UNKNOWN_MEMBER,
    Commit,
    DeletedOffsets,
    Fetched,
    FetchedOffset,
    Offset,
    TopicPartition,
    TransactionalCommit,
)
from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.environment import MILLISECOND
from nodes.reference.log.keyed import Undecodable, Writer
from nodes.reference.protections import Protection, Protections

Then = Callable[[ErrorCode], "list[Effect]"]
_TOO_LARGE = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.invalid_fetch_size})


class Commits:
    def __init__(
        self, settings: GroupSettings, protections: Protections, writes: Writes, membership: Membership
    ) -> None:
        self._settings = settings
        self._protections = protections
        self._writes = writes
        self._membership = membership
        self._waiting: dict[Ticket, tuple[int, Commit]] = {}  # for the log, and until when

    def commit(self, group: Group, ticket: Ticket, request: Commit, now: int) -> list[Effect]:
        """OffsetCommit (`offsets.commit.required.acks` is all). It is a sign of life, too."""
        error = self._error(group, request, transactional=False)
        if error is ErrorCode.none:
            if request.member_id in group.members:
                alive(group.members[request.member_id], now)
            if group.state is GroupState.COMPLETING:  # the member does not know its assignment yet
                error = ErrorCode.rebalance_in_progress
        if error is not ErrorCode.none:
            return [Answer(ticket, dict.fromkeys(request.offsets, error))]
        errors, sound = self._sound(request)
        if not sound:
            return [Answer(ticket, errors)]
        if not self._protections.on(Protection.OFFSET_COMMIT_WRITTEN):
            group.offsets.commit_unwritten(sound)
            return [Answer(ticket, errors)]
        group.offsets.writes += 1

        def written(error: ErrorCode, position: int, now: int) -> list[Effect]:
            group.offsets.writes -= 1
            if is_in_the_log(error):
                group.offsets.commit(sound, position)
            return self._committed(ticket, errors, error)

        self._wait(ticket, request, now)
        return [self._writes.begin(records.of_offsets(request.group, sound), written)]

    def transactional_commit(
        self, group: Group, ticket: Ticket, request: TransactionalCommit, now: int
    ) -> list[Effect]:
        """KIP-98, TxnOffsetCommitRequest: in the log at once, but it counts when its transaction has committed."""
        commit = request.commit
        error = self._error(group, commit, transactional=True)
        if error is not ErrorCode.none:
            return [Answer(ticket, dict.fromkeys(commit.offsets, error))]
        errors, sound = self._sound(commit)
        if not sound:
            return [Answer(ticket, errors)]
        group.offsets.writes += 1
        group.offsets.on_their_way.append(sound)

        def written(error: ErrorCode, position: int, now: int) -> list[Effect]:
            group.offsets.writes -= 1
            group.offsets.on_their_way.remove(sound)
            if is_in_the_log(error):
                if self._protections.on(Protection.TRANSACTIONAL_OFFSETS_WAIT):
                    group.offsets.commit_in_transaction(request.producer_id, sound, position)
                else:
                    group.offsets.commit(sound, position)
            return self._committed(ticket, errors, error)

        self._wait(ticket, commit, now)
        writer = Writer(request.producer_id, request.producer_epoch)
        return [self._writes.begin(records.of_offsets(commit.group, sound), written, writer)]

    def fetch(self, group: Group, partitions: Collection[TopicPartition] | None, *, stable: bool) -> Fetched:
        wanted = sorted(group.offsets.partitions) if partitions is None else partitions
        found = {partition: self._fetch(group, partition, stable=stable) for partition in wanted}
        if partitions is None:
            found = {partition: fetched for partition, fetched in found.items() if fetched != NOTHING_COMMITTED}
        return Fetched(ErrorCode.none, found)

    def delete(self, group: Group, ticket: Ticket, partitions: Iterable[TopicPartition]) -> list[Effect]:
        """KIP-496: not of topics that members are subscribed to."""
        subscribed = subscribed_topics(group)
        if subscribed is None:
            return [Answer(ticket, DeletedOffsets(ErrorCode.non_empty_group))]
        errors = {
            partition: ErrorCode.group_subscribed_to_topic if partition.topic in subscribed else ErrorCode.none
            for partition in partitions
        }
        allowed = [partition for partition, error in errors.items() if error is ErrorCode.none]
        doomed = [partition for partition in allowed if partition in group.offsets.committed]
        if not doomed:
            return [Answer(ticket, DeletedOffsets(ErrorCode.none, errors))]

        return self.forget(
            group,
            doomed,
            lambda error: [Answer(ticket, DeletedOffsets(error, errors if error is ErrorCode.none else {}))],
        )

    def forget(self, group: Group, doomed: list[TopicPartition], then: Then) -> list[Effect]:
        """Tombstones first. then: what comes of it, given what a client may be told."""

        def written(error: ErrorCode, position: int, now: int) -> list[Effect]:
            if not is_in_the_log(error):
                return then(of_the_log(error))
            group.offsets.forget(doomed)
            return then(ErrorCode.none)

        return [self._writes.begin(records.of_deleted_offsets(group.group_id, doomed), written)]

    @property
    def next_deadline(self) -> int:
        return min((late for late, _ in self._waiting.values()), default=NEVER)

    def tick(self, now: int) -> list[Effect]:
        return self._answer_all(
            [ticket for ticket, (late, _) in self._waiting.items() if late <= now], ErrorCode.request_timed_out
        )

    def give_up(self) -> list[Effect]:
        return self._answer_all([*self._waiting], ErrorCode.not_coordinator)

    def _answer_all(self, tickets: list[Ticket], error: ErrorCode) -> list[Effect]:
        return [Answer(ticket, dict.fromkeys(self._waiting.pop(ticket)[1].offsets, error)) for ticket in tickets]

    def _wait(self, ticket: Ticket, request: Commit, now: int) -> None:
        self._waiting[ticket] = (now + self._settings.offsets_commit_timeout_ms * MILLISECOND, request)

    def _error(self, group: Group, request: Commit, *, transactional: bool) -> ErrorCode:
        """Of a group with members only they may commit; in a transaction old clients do not say who they are (KIP-447)."""
        if group.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if request.generation == NO_GENERATION and group.state is GroupState.EMPTY:
            return ErrorCode.none
        anonymous = request.member_id == UNKNOWN_MEMBER and request.instance_id is None
        if request.generation == NO_GENERATION and anonymous:
            return ErrorCode.none if transactional else ErrorCode.unknown_member_id
        return self._membership.may_act(group, request.member_id, request.instance_id, request.generation)

    def _sound(self, request: Commit) -> tuple[dict[TopicPartition, ErrorCode], dict[TopicPartition, Offset]]:
        """What each partition is told if the log takes it, and what is to be written."""
        limit = self._settings.offset_metadata_max_bytes
        sound = {
            partition: offset for partition, offset in request.offsets.items() if len(offset.metadata.encode()) <= limit
        }
        errors = {
            partition: ErrorCode.none if partition in sound else ErrorCode.offset_metadata_too_large
            for partition in request.offsets
        }
        return errors, sound

    def _committed(self, ticket: Ticket, errors: dict[TopicPartition, ErrorCode], error: ErrorCode) -> list[Effect]:
        if self._waiting.pop(ticket, None) is None:
            return []  # its time was over
        said = ErrorCode.invalid_commit_offset_size if error in _TOO_LARGE else of_the_log(error)
        return [
            Answer(ticket, {partition: was if was is not ErrorCode.none else said for partition, was in errors.items()})
        ]

    def _fetch(self, group: Group, partition: TopicPartition, *, stable: bool) -> FetchedOffset:
        if (
            stable
            and group.offsets.is_unstable(partition)
            and self._protections.on(Protection.UNSTABLE_OFFSETS_REFUSED)
        ):
            return FetchedOffset(ErrorCode.unstable_offset_commit, Offset(NO_OFFSET))
        stored = group.offsets.committed.get(partition)
        return NOTHING_COMMITTED if stored is None else FetchedOffset(ErrorCode.none, stored.offset)


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """Of a group of consumers; None where members are something else, or say it in a way that this coordinator cannot read."""
    if not group.members:
        return frozenset()
    if group.protocol_type != "consumer" or group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            # later versions only add fields at the end
            subscription = framing.read(ConsumerProtocolSubscription, member.metadata(group.protocol))
        except Undecodable:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
