"""A simulated consumer's place in its group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and its offsets (Kafka's ConsumerCoordinator).

    membership = Membership(client, "g0", instance=None, places=[("log", 0), ("log", 1)], settings)
    given = await membership.join(deadline)        # [("log", 1)] | None: not in time. Fenced: another process has the instance id
    await membership.heartbeat()                   # Standing it is still: none | REBALANCE_IN_PROGRESS | ILLEGAL_GENERATION | ...
    await membership.commit({("log", 1): 120})     # Answer
    await membership.leave()

The member that the coordinator makes the group's leader shares the partitions out, in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.simulated import group_requests as requests
from harness.simulated.asking import DOUBTFUL, LATER, Answer, ask_coordinator
from harness.simulated.client import GROUP, REQUEST_TIMEOUT, Client
from harness.simulated.group_requests import Place, Standing
from nodes.reference.environment import MILLISECOND, SECOND, Disconnected

_DEPOSED: Final = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})
_BEGIN_AGAIN: Final = frozenset(
    {ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.rebalance_in_progress}
)


class Fenced(Exception):
    """Another process has this group.instance.id now (KIP-345): this one may not go on."""


@dataclass(frozen=True, kw_only=True)
class GroupTimes:
    """Times in ns. A coordinator that does not answer is asked again well before the session ends."""

    session: int = 2500 * MILLISECOND
    rebalance: int = 3 * SECOND
    heartbeat: int = 250 * MILLISECOND
    patience: int = 2 * SECOND  # for an answer about offsets


class Membership:
    def __init__(
        self, client: Client, group: str, *, instance: str | None, places: Sequence[Place], times: GroupTimes
    ) -> None:
        self._client, self._places, self._times = client, list(places), times
        self.standing = Standing(group=group, instance=instance)

    async def join(self, deadline: int) -> list[Place] | None:
        while self._client.now < deadline:
            joined = await self._join(deadline)
            if joined is None:
                return None
            assignment = await self._sync(joined)
            if assignment is not None:
                return requests.assigned(assignment)
        return None

    async def _join(self, deadline: int) -> Any:
        """The answer that makes it a member of a generation. An old id is given up when the group knows it no more."""
        while self._client.now < deadline:
            request = requests.join(
                self.standing,
                sorted({topic for topic, _ in self._places}),
                session_ms=self._times.session // MILLISECOND,
                rebalance_ms=self._times.rebalance // MILLISECOND,
            )
            answer = await self._ask(
                request,
                lambda said: said.error_code,
                patience=deadline - self._client.now,
                timeout=2 * self._times.rebalance,
            )
            match answer.error:
                case ErrorCode.none | ErrorCode.member_id_required:
                    joined = answer.response
                    generation = int(joined.generation_id)
                    self.standing = replace(self.standing, member=joined.member_id, generation=generation)
                    if answer.done:
                        return joined
                case ErrorCode.fenced_instance_id:
                    raise Fenced
                case ErrorCode.unknown_member_id:
                    self.standing = replace(self.standing, member="")
                case None:
                    return None
                case _:
                    await self._client.pause()
        return None

    async def _sync(self, joined: Any) -> bytes | None:
        """None: the group is on its way to another generation, or nobody knows."""
        shares: Mapping[str, Sequence[Place]] = {}
        if joined.leader == self.standing.member:
            members = [one.member_id for one in joined.members]
            shares = requests.shared_out(members, self._places, self.standing.generation)
        answer = await self._ask(
            requests.sync(self.standing, shares),
            lambda said: said.error_code,
            patience=2 * self._times.rebalance,
            timeout=2 * self._times.rebalance,
        )
        if answer.error is ErrorCode.fenced_instance_id:
            raise Fenced
        if answer.error is ErrorCode.unknown_member_id:
            self.standing = replace(self.standing, member="")
        return bytes(answer.response.assignment) if answer.done else None

    async def heartbeat(self) -> ErrorCode:
        """One attempt; nobody there counts as no news. Fenced."""
        node = await self._client.coordinator(
            self.standing.group, GROUP, deadline=self._client.now + self._times.heartbeat
        )
        if node is None:
            return ErrorCode.none
        try:
            said = await self._client.ask(node, requests.heartbeat(self.standing), timeout=REQUEST_TIMEOUT // 2)
        except Disconnected:
            return ErrorCode.none
        error: ErrorCode = said.error_code
        if error is ErrorCode.fenced_instance_id:
            raise Fenced
        return error if error in _BEGIN_AGAIN else ErrorCode.none

    async def commit(self, positions: Mapping[Place, int]) -> Answer:
        """A coordinator that was deposed may have written it (workloads/outcomes.py)."""
        return await self._ask(
            requests.commit(self.standing, positions),
            requests.error_of_topics,
            patience=self._times.patience,
            later=LATER - _DEPOSED,
            doubtful=DOUBTFUL | _DEPOSED,
        )

    async def committed(self, places: Sequence[Place]) -> tuple[Answer, dict[Place, int | None]]:
        return await committed(self._client, self.standing.group, places, self._times.patience)

    def forget_generation(self, *, member: bool) -> None:
        """It was told that it is not in the generation any more; `member`: nor in the group."""
        kept = "" if member else self.standing.member
        self.standing = replace(self.standing, member=kept, generation=requests.NO_GENERATION)

    async def leave(self) -> None:
        """One attempt: who is not heard of is thrown out anyway."""
        who, self.standing = self.standing, replace(self.standing, member="", generation=requests.NO_GENERATION)
        node = await self._client.coordinator(who.group, GROUP, deadline=self._client.now + SECOND)
        if node is not None and who.member:
            try:
                await self._client.ask(node, requests.leave(who))
            except Disconnected:
                return

    async def _ask(self, request: object, error_of: Any, **how: Any) -> Answer:
        return await ask_coordinator(self._client, self.standing.group, GROUP, request, error_of, **how)


async def committed(
    client: Client, group: str, places: Sequence[Place], patience: int
) -> tuple[Answer, dict[Place, int | None]]:
    """What a group has committed, as its coordinator says it; offsets of a transaction that is being ended are waited for."""
    answer = await ask_coordinator(
        client,
        group,
        GROUP,
        requests.fetch(group, places),
        requests.error_of_fetch,
        patience=patience,
        later=LATER | {ErrorCode.unstable_offset_commit},
    )
    return answer, requests.fetched(answer.response) if answer.done else {}
