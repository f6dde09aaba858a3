"""Consumers of the simulated workloads: a reader that follows all partitions while the run lasts, and the final read of everything.

Both as the real ones record it (workloads/poller.py, workloads/drain.py): a poll is an op with the records that it brought; the final
read asks where a log begins and ends, reads up to there, and asks again until both agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from harness.simulated.batches import Piece, readable
from harness.simulated.client import Client
from harness.simulated.recording import Read, Rows
from nodes.reference.environment import MILLISECOND, Disconnected
from nodes.reference.server.schema import milliseconds
from workloads.op import OpKind, Outcome, Phase

LATEST, EARLIEST = -1, -2
GONE: Final = "UNKNOWN_TOPIC_OR_PARTITION"  # as workloads/drain.py says it: all the time there was no such partition
_CONSUMER: Final = BrokerId(i32(-1))
_AGAIN: Final = 100 * MILLISECOND
_ASKS: Final = 0.3  # how often a poll is followed by the question where the log ends


@dataclass
class Place:
    topic: str
    partition: int
    offset: int = 0


class Reader:
    """Reads partitions in turn, from their beginning; `committed`: as read_committed does."""

    def __init__(
        self, client: Client, rows: Rows, partitions: Sequence[tuple[str, int]], phase: Phase, *, committed: bool
    ) -> None:
        self._client, self._rows, self._phase, self._committed = client, rows, phase, committed
        self.places = [Place(*partition) for partition in partitions]
        self.process = rows.new_process()

    async def run(self, until: int) -> None:
        while self._client.now < until:
            for place in self.places:
                await self.poll(place, until)
                if self._client.environment.random.random() < _ASKS:
                    await self._ask_end(place, until)
            await self._client.pause()

    async def drain(self, until: int) -> None:
        """The final read of every partition, one after the other; what cannot be read in time is recorded as such."""
        for place in self.places:
            await self._drain(place, until)

    async def _ask_end(self, place: Place, until: int) -> None:
        """Of the leader that this client knows: what it says has to be no less than what was acknowledged before."""
        leader = await self._client.leader(place.topic, place.partition, deadline=until)
        if leader is None:
            return
        op = self._invoke(OpKind.BOUNDS, place)
        try:
            answer = _listed(await self._client.ask(leader, self._listing(place, LATEST, committed=False)))
        except Disconnected:
            self._rows.complete(op, Outcome.FAIL, error="_TRANSPORT")
            return
        if answer.error_code is not ErrorCode.none:
            self._rows.complete(op, Outcome.FAIL, error=answer.error_code.name.upper())
            return
        self._rows.complete(op, Outcome.OK, broker=leader)
        end = int(answer.offset)
        self._rows.span(op, topic=place.topic, partition=place.partition, log_start=0, log_end=end, read_to=None)

    async def _drain(self, place: Place, until: int) -> None:
        log_start: int | None = None
        while True:
            op = self._invoke(OpKind.BOUNDS, place)
            start = await self._list(place, EARLIEST, until, committed=False)
            end = await self._list(place, LATEST, until, committed=False)
            stable = await self._list(place, LATEST, until, committed=True) if self._committed else None
            failed = start is None or end is None
            error = GONE if failed and self._client.is_gone(place.topic, place.partition) else "_TIMED_OUT"
            self._rows.complete(op, Outcome.INFO if failed else Outcome.OK, error=error if failed else None)
            if start is not None and log_start != start:
                log_start = place.offset = start
            readable_to = end if stable is None else stable
            late = self._client.now >= until
            if failed or late or (place.offset == readable_to and (readable_to == end or late)):
                break
            if readable_to is not None and place.offset > readable_to:
                place.offset, self.process = log_start or 0, self._rows.new_process()
            elif place.offset == readable_to:
                await self._client.pause(_AGAIN)
            while place.offset < (readable_to or 0) and self._client.now < until:
                await self.poll(place, until)
        self._rows.span(
            op,
            topic=place.topic,
            partition=place.partition,
            log_start=start,
            log_end=end,
            read_to=None if failed else place.offset,
            error=error if failed else None,
            stable_end=stable,
        )

    async def poll(self, place: Place, until: int) -> None:
        """One Fetch, of whoever leads the partition before `until`."""
        leader = await self._client.leader(place.topic, place.partition, deadline=until)
        if leader is None:
            return
        op = self._invoke(OpKind.POLL, None)
        try:
            answer = _only(await self._client.ask(leader, self._fetch(place)))
        except Disconnected:
            self._rows.complete(op, Outcome.FAIL, error="_TRANSPORT")
            self._client.forget_leader(place.topic, place.partition)
            return
        if answer.error_code is not ErrorCode.none:
            self._rows.complete(op, Outcome.FAIL, error=answer.error_code.name.upper())
            await self._set_right(place, answer.error_code, until)
            return
        piece = self._piece(place, answer)
        reads = [Read(place.topic, place.partition, offset, value) for offset, value in piece.records]
        self._rows.complete(op, Outcome.OK, broker=leader, reads=reads)
        place.offset = piece.next_offset

    def _piece(self, place: Place, answer: Any) -> Piece:
        aborted = [(int(one.producer_id), int(one.first_offset)) for one in answer.aborted_transactions or ()]
        return readable(bytes(answer.records or b""), place.offset, aborted if self._committed else None)

    async def _set_right(self, place: Place, error: ErrorCode, until: int) -> None:
        """auto.offset.reset=latest, and another process: what it reads now need not follow what it read before."""
        if error is ErrorCode.offset_out_of_range:
            end = await self._list(place, LATEST, until, committed=False)
            if end is not None and end < place.offset:
                place.offset, self.process = end, self._rows.new_process()
        else:
            self._client.forget_leader(place.topic, place.partition)
        await self._client.pause()

    async def _list(self, place: Place, timestamp: int, until: int, *, committed: bool) -> int | None:
        """One offset; None: nobody said before the time was up."""
        request = self._listing(place, timestamp, committed=committed)
        where = (place.topic, place.partition)
        while (asked := await self._client.ask_leader(where, request, deadline=until)) is not None:
            if asked.response is None:
                continue
            answer = _listed(asked.response)
            if answer.error_code is ErrorCode.none:
                return int(answer.offset)
            self._client.forget_leader(place.topic, place.partition)
            await self._client.pause()
        return None

    def _listing(self, place: Place, timestamp: int, *, committed: bool) -> ListOffsetsRequest:
        asked = ListOffsetsPartition(
            partition_index=i32(place.partition), current_leader_epoch=i32(-1), timestamp=i64(timestamp)
        )
        return ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=i8(1 if committed else 0),
            topics=(ListOffsetsTopic(name=TopicName(place.topic), partitions=(asked,)),),
        )

    def _invoke(self, kind: OpKind, place: Place | None) -> int:
        return self._rows.invoke(
            client=self._client.client_id,
            kind=kind,
            phase=self._phase,
            process=self.process,
            topic=place.topic if place else None,
            partition=place.partition if place else None,
        )

    def _fetch(self, place: Place) -> FetchRequest:
        partition = FetchPartition(
            partition=i32(place.partition),
            current_leader_epoch=i32(-1),
            fetch_offset=i64(place.offset),
            last_fetched_epoch=i32(-1),
            log_start_offset=i64(-1),
            partition_max_bytes=i32(1 << 20),
        )
        return FetchRequest(
            cluster_id=None,
            replica_id=_CONSUMER,
            max_wait=milliseconds(50),
            min_bytes=i32(1),
            max_bytes=i32(1 << 20),
            isolation_level=i8(1 if self._committed else 0),
            session_id=i32(0),
            session_epoch=i32(-1),
            topics=(FetchTopic(topic=TopicName(place.topic), partitions=(partition,)),),
            forgotten_topics_data=(),
            rack_id="",
        )


def _only(response: Any) -> Any:
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def _listed(response: Any) -> Any:
    (topic,) = response.topics
    (partition,) = topic.partitions
    return partition
