"""One member of a consumer group, from its joining to its leaving, and all that the history can know of it (group.py).

The application's side of a member is a loop: `poll` brings records, they are processed, their offsets are committed. Rebalances come
as callbacks in the middle of a poll. What had been brought until then is handed to `settle` first (processed, committed), while
the member still has its partitions, so that a rebalance takes nothing that is half done:

    poll ─ records ─┬─ full, or nothing more ───────────────────> the caller processes and commits
                    └─ callback: the poll ends, settle(records)
                         revoke    op `revoke`, then the partitions are given up
                         lost      op `lost`; nothing can be committed any more
                         assign    op `fetch-offsets`: where the group has come; then an op `assign` for each partition

A new process begins with each callback, since positions move: within one process, offsets of a partition only grow.

Every member is a Kafka client of its own name; who comes back is another member.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, Consumer, KafkaException, Message, TopicPartition

from workloads import clients
from workloads.group import GroupProtocol
from workloads.op import OpKind, Outcome, Phase
from workloads.outcomes import error_name, outcome_of_commit
from workloads.poller import ASK_S, columns
from workloads.worker import Counts
from workloads.workload import Positions, Recorder

Place = tuple[str, int]  # topic, partition
CLOSE_S = 10.0  # a member that leaves commits first
SERVE_S = 0.1
_METADATA = b"CGMDv2:"
_GENERATION = struct.Struct("=i")


class Standing(NamedTuple):
    """What a member knows of itself; None: nothing."""

    member: str | None = None
    generation: int | None = None


def standing(metadata: bytes | None) -> Standing:
    """Of `Consumer.consumer_group_metadata()`, whose bytes are librdkafka's own: "CGMDv2:", the generation (int32 of this machine),
    then group, member and instance id, each ended by a zero byte.

    `standing(b"CGMDv2:\\x05\\0\\0\\0krash\\0w1.m0-3b0c\\0\\0")` -> `Standing("w1.m0-3b0c", 5)`
    """
    if metadata is None or not metadata.startswith(_METADATA):
        return Standing()
    rest = metadata[len(_METADATA) :]
    (generation,) = _GENERATION.unpack_from(rest)
    member = rest[_GENERATION.size :].split(b"\0")[1].decode()
    return Standing(member or None, generation if generation >= 0 else None)


class Membership:
    """`settle(records, may_commit)`: what to do with records that were brought before a rebalance takes or gives partitions."""

    def __init__(
        self,
        recorder: Recorder,
        counts: Counts,
        *,
        client: str,
        group: str,
        config: Mapping[str, Any],
        topics: Sequence[str],
        value_bytes: int,
        settle: Callable[[list[Message], bool], None],
    ) -> None:
        self.client, self.group, self.counts = client, group, counts
        self.protocol = (
            GroupProtocol.COOPERATIVE
            if config["partition.assignment.strategy"] == "cooperative-sticky"
            else GroupProtocol.EAGER
        )
        self.process = recorder.new_process()
        self.reached: dict[
            Place, int | None
        ] = {}  # of every partition that it has: next offset to read; None: not known
        self._recorder, self._value_bytes, self._settle = recorder, value_bytes, settle
        self._poll: int | None = None
        self._brought: list[Message] = []
        self._astray: set[Place] = set()
        self._gone = False
        self.consumer: Consumer = clients.new_consumer(config)
        for topic in topics:
            self._recorder.complete(self._invoke(OpKind.SUBSCRIBE, topic=topic), Outcome.OK)
        self.consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def poll(self, most: int, within_s: float) -> list[Message]:
        """Up to `most` records, waiting for the first one only. They are in the journal when this returns."""
        if self._astray:
            self._set_right()
        self._poll = self._invoke(OpKind.POLL)
        wait_s, error = within_s, None
        while len(self._brought) < most:
            try:
                message = self.consumer.poll(wait_s)
            except KafkaException as failure:
                error = error_name(failure.args[0])
                break
            if message is None:
                break
            wait_s = 0
            if (failed := message.error()) is not None:
                error = error_name(failed)
                if message.topic() is not None:
                    self._astray.add((cast(str, message.topic()), cast(int, message.partition())))
                break
            self._brought.append(message)
        return self._end_poll(error)

    def commit(self, positions: Mapping[Place, int], retry_backoff_s: float) -> Outcome:
        """Commit these offsets and wait for the answer."""
        op = self.begin_commit(positions)
        asked = time.monotonic()
        error: str | None = None
        try:
            answers = self.consumer.commit(offsets=_partitions(positions), asynchronous=False) or []
            errors = {error_name(answer.error) if answer.error is not None else None for answer in answers}
            partly = len(errors) > 1
            error = next((one for one in errors if one is not None), None)
        except KafkaException as failure:
            error, partly = error_name(failure.args[0]), False
        outcome = outcome_of_commit(error, latency_s=time.monotonic() - asked, retry_backoff_s=retry_backoff_s)
        outcome = Outcome.INFO if partly else outcome
        self._recorder.complete(op, outcome, error=error)
        if outcome is Outcome.INFO:
            self.process = self._recorder.new_process()
        return outcome

    def begin_commit(self, positions: Mapping[Place, int], transaction: int | None = None) -> int:
        """The op of a commit that the caller sends and completes: what is to be committed is in the journal when this returns."""
        op = self._invoke(OpKind.COMMIT_OFFSETS, transaction=transaction)
        self._note(op, self.standing(), positions)
        return op

    def standing(self) -> Standing:
        return standing(self.consumer.consumer_group_metadata())

    def go_back(self, positions: Mapping[Place, int]) -> None:
        """Read on from other places, for what was read from there does not count."""
        kept = {place: offset for place, offset in positions.items() if place in self.reached}
        self.process = self._recorder.new_process()
        self.reached |= kept
        self._move(kept)
        self._note_assigned(self.standing())

    def lose(self, places: Iterable[Place]) -> None:
        """Nobody knows whether what was read there counts: the next poll goes on where the group has committed."""
        self._astray.update(places)

    def leave(self) -> bool:
        """Give everything up and say so to the group. False when that took too long."""
        left = clients.bounded(self._leave, CLOSE_S)
        self._gone = True
        return left

    def _leave(self) -> None:
        """Partitions are given back before the client closes: a closing librdkafka may call back when it has already forgotten the
        group, and then neither tells who this member is (RuntimeError) nor takes a commit (confluent-kafka aborts the process)."""
        with suppress(KafkaException):
            self.consumer.unsubscribe()
            while self.reached and not self._gone:
                self.consumer.poll(SERVE_S)  # records that come with it are read again by the next owner
        self._gone = True
        self.consumer.close()

    # a poll and its records

    def _set_right(self) -> None:
        """Partitions whose position was lost (truncated, expired, or nobody told where the group had come) go on where the group has
        committed. Tried again with the next poll when nobody answers."""
        astray = [TopicPartition(*place) for place in self._astray if place in self.reached]
        self._astray.clear()
        if not astray:
            return
        self.process = self._recorder.new_process()
        told = self.standing()
        starts = self._committed(self.consumer, astray, told)
        self.reached |= {place: _offset(start) for place, start in starts.items()}
        self._move({place: start.offset for place, start in starts.items()})
        self._note_assigned(told)

    def _move(self, positions: Mapping[Place, int]) -> None:
        """By assigning anew: a seek is refused while a partition is not being fetched."""
        moved = _partitions(positions)
        if self.protocol is GroupProtocol.COOPERATIVE:
            self.consumer.incremental_unassign(moved)
            self.consumer.incremental_assign(moved)
            return
        kept = {place: offset for place, offset in self.reached.items() if place not in positions}
        unknown = {place: OFFSET_INVALID if offset is None else offset for place, offset in kept.items()}
        self.consumer.assign([*moved, *_partitions(unknown)])

    def _end_poll(self, error: str | None = None) -> list[Message]:
        brought, self._brought = self._brought, []
        if self._poll is None:
            return brought
        poll, self._poll = self._poll, None
        outcome = Outcome.FAIL if error and not brought else Outcome.OK
        self._recorder.complete(poll, outcome, error=error, reads=columns(brought, self._value_bytes))
        self.counts.read += len(brought)
        if brought:
            self._recorder.flush()  # before anything can be committed: a kill must not leave a commit of what nobody read
        for message in brought:
            self.reached[cast(str, message.topic()), cast(int, message.partition())] = cast(int, message.offset()) + 1
        if error is not None:
            self.process = self._recorder.new_process()  # records may have gone with it
        return brought

    def _interrupt(self, *, may_commit: bool = True) -> bool:
        """The poll under way ends here. Whether there was one: not when closing."""
        polling = self._poll is not None
        self._settle(self._end_poll(), may_commit)
        return polling

    def _go_on(self, polling: bool) -> None:
        self.process = self._recorder.new_process()
        if polling:
            self._poll = self._invoke(OpKind.POLL)

    # rebalances

    def _on_assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        if self._gone:
            return
        polling = self._interrupt()
        self.process = self._recorder.new_process()
        told = self.standing()
        if self.protocol is GroupProtocol.EAGER:
            self.reached.clear()
        starts = self._committed(consumer, given, told)
        self.reached |= {place: _offset(start) for place, start in starts.items()}
        if self.protocol is GroupProtocol.EAGER:
            consumer.assign(list(starts.values()))
        else:
            consumer.incremental_assign(list(starts.values()))
        self._note_assigned(told)
        self._go_on(polling)

    def _committed(
        self, consumer: Consumer, given: list[TopicPartition], told: Standing
    ) -> dict[Place, TopicPartition]:
        """Where to begin: at what is committed, else at the beginning; left to librdkafka where nobody could be asked."""
        if not given:
            return {}
        op = self._invoke(OpKind.FETCH_OFFSETS)
        error: str | None = None
        try:
            answers = consumer.committed(given, timeout=ASK_S)
            error = next((error_name(answer.error) for answer in answers if answer.error is not None), None)
        except KafkaException as failure:
            error = error_name(failure.args[0])
        if error is not None:
            self._recorder.complete(op, Outcome.FAIL, error=error)
            return {_place(one): TopicPartition(one.topic, one.partition, OFFSET_INVALID) for one in given}
        self._note(op, told, {_place(one): one.offset if one.offset >= 0 else None for one in answers})
        self._recorder.complete(op, Outcome.OK)
        return {
            _place(one): TopicPartition(one.topic, one.partition, one.offset if one.offset >= 0 else OFFSET_BEGINNING)
            for one in answers
        }

    def _on_revoke(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        self._taken(consumer, OpKind.REVOKE, taken)

    def _on_lost(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        self._taken(consumer, OpKind.LOST, taken)

    def _taken(self, consumer: Consumer, kind: OpKind, taken: list[TopicPartition]) -> None:
        if self._gone:
            return
        polling = self._interrupt(may_commit=kind is OpKind.REVOKE)
        op = self._invoke(kind)
        self._note(op, self.standing(), {_place(one): self.reached.get(_place(one)) for one in taken})
        for one in taken:
            self.reached.pop(_place(one), None)
        if self.protocol is GroupProtocol.EAGER:
            consumer.unassign()
        else:
            consumer.incremental_unassign(taken)
        self._recorder.complete(op, Outcome.OK)
        self._go_on(polling)

    # rows

    def _note_assigned(self, told: Standing) -> None:
        for (topic, partition), offset in self.reached.items():
            op = self._invoke(OpKind.ASSIGN, topic=topic, partition=partition)
            self._note(op, told, {(topic, partition): offset})
            self._recorder.complete(op, Outcome.OK)

    def _note(self, op: int, told: Standing, positions: Mapping[Place, int | None]) -> None:
        topics, partitions = [place[0] for place in positions], [place[1] for place in positions]
        self._recorder.positions(
            op,
            Positions(
                self.group, self.protocol, told.member, told.generation, topics, partitions, list(positions.values())
            ),
        )

    def _invoke(self, kind: OpKind, **op: Any) -> int:
        return self._recorder.invoke(client=self.client, kind=kind, phase=Phase.MAIN, process=self.process, **op)


def _place(one: TopicPartition) -> Place:
    return one.topic, one.partition


def _offset(start: TopicPartition) -> int | None:
    """Of where a partition begins: 0 for the beginning."""
    return None if start.offset == OFFSET_INVALID else max(start.offset, 0)


def _partitions(positions: Mapping[Place, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()]
