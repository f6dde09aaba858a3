"""Members of a consumer group in the simulated `groups` workload, recorded as workloads/groups.py and workloads/membership.py record them.

    join; op `fetch-offsets`: where the group has come; an op `assign` for each partition
    again and again: a poll of each partition, what it brought is processed, then its offsets are committed
    op `revoke` when the group rebalances or the member leaves; `lost` when it learns that it has been thrown out

A member leaves after a while and comes back as another one, of its own name: "w1.m0-3" is the third life of "w1.m0". One that is paused
wakes up as a zombie that still believes in its partitions, and its commits have to be refused. A static member (KIP-345) keeps its
instance id over its lives and does not leave; `twins` processes have the same one, of which each fences the other when it comes.

With `transactional` offsets are committed in transactions, some of which are aborted; who aborts closes its consumer and begins
anew, as does who does not know what became of a transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from harness.simulated.client import Client
from harness.simulated.group_requests import NO_GENERATION, Place
from harness.simulated.membership import Fenced, GroupTimes, Membership, committed
from harness.simulated.reader import Reader
from harness.simulated.recording import Found, Rows
from harness.simulated.transactor import TransactionSettings, User
from nodes.reference.environment import MILLISECOND, SECOND, Address, Environment
from workloads.group import GroupProtocol
from workloads.op import OpKind, Outcome, Phase

_A_POLL = SECOND  # for a partition whose leader is not known


@dataclass(frozen=True, kw_only=True)
class MemberSettings:
    """Times in ns, drawn between the two. `members`: for each of the client nodes."""

    group: str = "g0"
    members: int = 2
    times: GroupTimes = field(default_factory=GroupTimes)
    stay: tuple[int, int] = (3 * SECOND, 9 * SECOND)
    away: tuple[int, int] = (50 * MILLISECOND, SECOND)
    process: int = 20 * MILLISECOND  # what a round of polls brought
    twins: int = 0  # processes with one instance id; 0: members are dynamic
    transactional: bool = False
    aborts: float = 0.2


class Left(Exception):
    """This life is over: the consumer is closed, and another one follows."""


class Member:
    """Lives of one name, one after the other, until its process ends. `lives` counts on when the process is another."""

    def __init__(
        self,
        environment: Environment,
        rows: Rows,
        name: str,
        bootstrap: Sequence[Address],
        places: Sequence[Place],
        settings: MemberSettings,
        lives: Iterator[int],
        instance: str | None = None,
    ) -> None:
        self._environment, self._rows, self._name, self._bootstrap = environment, rows, name, bootstrap
        self._places, self._settings, self._lives, self._instance = list(places), settings, lives, instance

    async def run(self, until: int) -> None:
        clock, random = self._environment.clock, self._environment.random
        if self._settings.twins:  # they come one after the other
            await clock.sleep_until(clock.now() + random.randint(0, self._settings.stay[1]))
        while clock.now() < until:
            client = Client(self._environment, f"{self._name}-{next(self._lives)}", self._bootstrap)
            life = Life(client, self._rows, self._places, self._settings, self._instance, self._name)
            await life.live(min(until, clock.now() + random.randint(*self._settings.stay)))
            await client.pause(random.randint(*self._settings.away))
        if self._settings.transactional:
            await self._end_what_is_open()

    async def _end_what_is_open(self) -> None:
        """Nobody comes after this one, and an open transaction would keep the group's offsets from whoever asks for them."""
        client = Client(self._environment, f"{self._name}-{next(self._lives)}", self._bootstrap)
        await User(client, self._rows, client.client_id, self._name, _transactions(self._settings)).take_over()


class Life:
    def __init__(
        self,
        client: Client,
        rows: Rows,
        places: Sequence[Place],
        settings: MemberSettings,
        instance: str | None,
        transactional_id: str,
    ) -> None:
        self._client, self._rows, self._places, self._settings = client, rows, places, settings
        self._membership = Membership(client, settings.group, instance=instance, places=places, times=settings.times)
        self._reader = Reader(client, rows, (), Phase.MAIN, committed=settings.transactional)
        self._user = User(client, rows, client.client_id, transactional_id, _transactions(settings))
        self._committed: dict[Place, int] = {}  # of each partition that it has
        self._next_beat = 0

    async def live(self, until: int) -> None:
        """until: when it leaves."""
        if self._settings.transactional and not await self._user.take_over():
            return
        try:
            while self._client.now < until:
                given = await self._membership.join(until)
                if given is None or not await self._take_up(given):
                    continue
                await self._work(until)
            self._give_up(OpKind.REVOKE)
        except Left:
            self._give_up(OpKind.REVOKE)
        except Fenced:
            self._give_up(OpKind.LOST)
            return
        if self._membership.standing.instance is None:
            await self._membership.leave()

    async def _take_up(self, given: Sequence[Place]) -> bool:
        """Where the group has come, from there on."""
        self._reader = Reader(self._client, self._rows, given, Phase.MAIN, committed=self._settings.transactional)
        if not given:
            return True
        op = self._invoke(OpKind.FETCH_OFFSETS)
        answer, found = await self._membership.committed(given)
        if not answer.done:
            self._rows.complete(op, Outcome.FAIL, error=answer.name)
            return False
        self._note(op, found)
        self._rows.complete(op, Outcome.OK)
        for place in self._reader.places:
            place.offset = found[place.topic, place.partition] or 0
            mine = (place.topic, place.partition)
            op = self._invoke(OpKind.ASSIGN, mine)
            self._note(op, {mine: place.offset})
            self._rows.complete(op, Outcome.OK)
        self._committed = self._reached
        return True

    async def _work(self, until: int) -> None:
        """Until the group has another generation, or the time to leave has come. Left, Fenced."""
        while self._client.now < until:
            for place in self._reader.places:
                await self._reader.poll(place, min(until, self._client.now + _A_POLL))
            await self._client.pause(self._client.environment.random.randint(1, 2 * self._settings.process))
            reached = {place: offset for place, offset in self._reached.items() if offset != self._committed[place]}
            if reached and not await self._commit(reached):
                return
            if self._client.now >= self._next_beat:
                self._next_beat = self._client.now + self._settings.times.heartbeat
                if not self._still_there(await self._membership.heartbeat()):
                    return

    async def _commit(self, positions: Mapping[Place, int]) -> bool:
        """False: it has to join again."""
        if self._settings.transactional:
            return await self._commit_in_transaction(positions)
        op = self._invoke(OpKind.COMMIT_OFFSETS)
        self._note(op, positions)
        answer = await self._membership.commit(positions)
        self._rows.complete(op, answer.outcome, error=answer.name)
        if answer.outcome is Outcome.INFO:
            self._reader.process = self._rows.new_process()
        if answer.done:
            self._committed.update(positions)
        if answer.error is ErrorCode.fenced_instance_id:
            raise Fenced
        return answer.error is None or self._still_there(answer.error)

    async def _commit_in_transaction(self, positions: Mapping[Place, int]) -> bool:
        random, user = self._client.environment.random, self._user
        transaction = user.begin()
        op = self._invoke(OpKind.COMMIT_OFFSETS, transaction=transaction)
        self._note(op, positions)
        answer = await user.send_offsets(self._membership.standing, positions)
        self._rows.complete(op, answer.outcome, error=answer.name)
        await self._client.pause(random.randint(1, 2 * self._settings.process))
        commit = answer.done and random.random() >= self._settings.aborts
        await user.end(commit=commit)
        if user.doubts or not commit:
            raise Left
        self._committed.update(positions)
        return True

    def _still_there(self, error: ErrorCode) -> bool:
        match error:
            case ErrorCode.rebalance_in_progress:
                self._give_up(OpKind.REVOKE)
                return False
            case ErrorCode.illegal_generation | ErrorCode.unknown_member_id:
                self._give_up(OpKind.LOST)
                self._membership.forget_generation(member=error is ErrorCode.unknown_member_id)
                return False
            case _:
                return True

    def _give_up(self, kind: OpKind) -> None:
        if self._reader.places:
            op = self._invoke(kind)
            self._note(op, self._reached)
            self._rows.complete(op, Outcome.OK)
        self._reader.places = []
        self._committed = {}

    @property
    def _reached(self) -> dict[Place, int]:
        return {(place.topic, place.partition): place.offset for place in self._reader.places}

    def _invoke(self, kind: OpKind, place: Place | None = None, transaction: int | None = None) -> int:
        topic, partition = place or (None, None)
        return self._rows.invoke(
            client=self._client.client_id,
            kind=kind,
            phase=Phase.MAIN,
            process=self._reader.process,
            topic=topic,
            partition=partition,
            transaction=transaction,
        )

    def _note(self, op: int, positions: Mapping[Place, int | None]) -> None:
        standing = self._membership.standing
        generation = None if standing.generation == NO_GENERATION else standing.generation
        self._rows.note(
            Found(op, standing.group, GroupProtocol.EAGER, standing.member or None, generation, dict(positions))
        )


def _transactions(settings: MemberSettings) -> TransactionSettings:
    return TransactionSettings(patience=settings.times.patience)


async def note_committed(client: Client, rows: Rows, group: str, places: Sequence[Place], patience: int) -> None:
    """Ask a group for its committed offsets, as somebody who is no member of it."""
    op = rows.invoke(client=client.client_id, kind=OpKind.FETCH_OFFSETS, phase=Phase.FINAL, process=rows.new_process())
    answer, found = await committed(client, group, places, patience)
    if answer.done:
        rows.note(Found(op, group, None, None, None, found))
    rows.complete(op, Outcome.OK if answer.done else Outcome.FAIL, error=answer.name)
