"""Asking a coordinator until it is known what became of a request, as real clients do: again and again, of whoever it is by then.

answer = await ask_coordinator(client, "g0", GROUP, HeartbeatRequest(...), lambda said: said.error_code, patience=5 * SECOND)
answer.outcome                      # ok; fail: surely not carried out; info: an attempt that nobody answered may have been
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from harness.simulated.client import REQUEST_TIMEOUT, Client
from nodes.reference.environment import Disconnected
from workloads.op import Outcome

LATER: Final = frozenset(  # ask again: nothing has happened
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
    }
)
DOUBTFUL: Final = frozenset(  # ask again: it may have happened, or may yet
    {ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append}
)


class Answer(NamedTuple):
    """error: None where nobody answered in time. open: an attempt was not answered, so it may have been carried out as well."""

    error: ErrorCode | None
    open: bool
    response: Any = None

    @property
    def done(self) -> bool:
        return self.error is ErrorCode.none

    @property
    def outcome(self) -> Outcome:
        if self.done:
            return Outcome.OK
        return Outcome.INFO if self.open or self.error is None else Outcome.FAIL

    @property
    def name(self) -> str | None:
        return "_TIMED_OUT" if self.error is None else None if self.done else self.error.name.upper()


async def ask_coordinator(
    client: Client,
    key: str,
    kind: int,
    request: object,
    error_of: Callable[[Any], ErrorCode],
    *,
    patience: int,
    timeout: int = REQUEST_TIMEOUT,
    later: Collection[ErrorCode] = LATER,
    doubtful: Collection[ErrorCode] = DOUBTFUL,
) -> Answer:
    """kind: GROUP or TRANSACTION; `timeout`: of one attempt. Errors of `later` and `doubtful` are asked again while patience lasts."""
    deadline, unanswered = client.now + patience, False
    while client.now < deadline:
        node = await client.coordinator(key, kind, deadline=deadline)
        if node is None:
            break
        try:
            response = await client.ask(node, request, timeout=timeout)
        except Disconnected:
            unanswered = True
            continue
        error = error_of(response)
        unanswered = unanswered or error in doubtful
        if error not in later and error not in doubtful:
            return Answer(error, unanswered, response)
        await client.pause()
    return Answer(None, unanswered)
