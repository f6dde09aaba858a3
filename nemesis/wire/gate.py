"""The driver's side of the wire gate: arm rules in the gate process, learn what they caught, release it.

    stale = await gate.arm(Rule(id="stale", match=Match(source="b1", api="AlterPartition"), act=Hold()))
    message = (await stale.seen())[0]
    await stale.release()
    answer = await stale.answered()            # answer.error == "NONE", or what the controller refused it with
    await stale.disarm()

The first rule that matches a frame, in the order in which they were armed, decides about it; a Watch sees it whoever decides. A gate
that dies raises GateDied from every call: a harness error, never to be mistaken for a partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from nemesis.wire.message import Message
from nemesis.wire.rule import BadRule, Rule

__all__ = ["Armed", "BadRule", "Counts", "Gate", "GateDied"]


class GateDied(Exception):
    """The gate process is gone, and with it every connection between nodes; the message holds its last words."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a rule did so far: the proof of a wire fault."""

    matched: int = 0
    held: int = 0  # now
    released: int = 0
    dropped: int = 0
    delayed: int = 0
    duplicated: int = 0
    closed: int = 0
    rewritten: int = 0


class Armed(Protocol):
    """A rule that is in the gate."""

    rule: Rule

    @property
    def counts(self) -> Counts: ...
    @property
    def messages(self) -> list[Message]:
        """The frames that matched, oldest first (the last 1000)."""
        ...

    async def seen(self, count: int = 1) -> list[Message]:
        """Wait until `count` frames matched since it was armed. No deadline of its own."""
        ...

    async def release(
        self, which: Literal["all", "one"] = "all", order: Literal["as held", "reversed"] = "as held"
    ) -> None:
        """Let held frames go on; returns when they were handed to the kernel. What comes later is held again."""
        ...

    async def answered(self, nth: int = 1) -> Message:
        """Wait for the response to the nth frame that matched, decoded. The Message's `error` is NONE when it succeeded."""
        ...

    async def disarm(self) -> None:
        """Take the rule out; what it still holds is released first."""
        ...


class Gate(Protocol):
    async def arm(self, rule: Rule) -> Armed:
        """Returns when the rule is in force. BadRule, GateDied."""
        ...

    async def close(self) -> None:
        """Release everything, disarm everything; connections live on until the process ends with the run."""
        ...
