"""A wire rule of a race, from arming it to the answer to what it caught.

stale = await on.hold("AlterPartition", source="b1", where="newIsr contains 2")
await on.until(held(stale))
await on.release(stale)
await on.until(answered(stale))
stale.answer.error          "NONE", or "INELIGIBLE_REPLICA"
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from nemesis.races.conditions import Sighting
from nemesis.wire.gate import Armed
from nemesis.wire.message import Message


class Hold:
    """What a rule caught so far. Made by the stage's wire verbs."""

    def __init__(self, armed: Armed, *, verb: str, fault: int) -> None:
        self.armed = armed
        self.verb = verb  # "hold", "drop", ...
        self.fault = fault
        self.lifted = False
        match = armed.rule.match
        arrow = f"{match.source or 'anybody'} → {match.destination or 'anybody'}"
        self.what = f"{match.api or 'a frame'} {arrow}"
        self.nodes = tuple(one for one in (match.source, match.destination) if one and "*" not in one)
        self._answer: asyncio.Task[Message] = _background(armed.answered(), f"answer of {armed.rule.id}")
        self._seen: asyncio.Task[list[Message]] = _background(armed.seen(), f"{armed.rule.id} seen")

    @property
    def messages(self) -> list[Message]:
        """The frames that were caught, oldest first."""
        return self.armed.messages

    @property
    def answer(self) -> Message | None:
        """The response to the first of them, once it came."""
        return self._answer.result() if self._answer.done() else None

    def sighting(self, count: int) -> Sighting:
        if self._seen.done():
            self._seen.result()  # a gate that died says so here
        found = self.messages
        if len(found) < count:
            return Sighting(False, f"{len(found)} of {count} frames were caught")
        one = found[count - 1]
        return Sighting(True, describe(one), one.message)

    def answer_sighting(self) -> Sighting:
        answer = self.answer
        if answer is None:
            return Sighting(False, "no response yet" if self.messages else "nothing was caught")
        return Sighting(True, describe(answer), answer.message)

    async def close(self) -> None:
        """Stop waiting for what it may still catch."""
        for task in (self._answer, self._seen):
            task.cancel()
        await asyncio.gather(self._answer, self._seen, return_exceptions=True)


def describe(message: Message) -> str:
    """A frame in one line: 'AlterPartition v2 b1 → c1 {"newIsr": [1, 2]}' or '... c1 → b1: INELIGIBLE_REPLICA'."""
    route = f"{message.api_name} v{message.version} {message.source} → {message.destination}"
    if message.error is not None:
        return f"{route}: {message.error}"
    return f"{route} {_short(message.fields)}".rstrip()


def _short(fields: str | None) -> str:
    if not fields:
        return ""
    try:
        text = json.dumps(json.loads(fields), separators=(", ", ": "))
    except ValueError:
        text = fields
    return text if len(text) <= 200 else f"{text[:199]}…"


def _background(work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_noticed)
    return task


def _noticed(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # told by whoever looks next; here only so that asyncio does not complain
