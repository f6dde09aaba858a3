"""Looking until something is seen, or saying what was seen instead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nemesis.fault import Unproved
from nemesis.stage import Stage
from nodes.node import Gone, Paused, ProcessState, Running
from nodes.topology import ServerRole

EVERY_S = 0.2


async def observed(look: Callable[[], Awaitable[str | None]], *, within: float) -> None:
    """Look until `look` returns None; what it returns otherwise says what is missing. Raises Unproved with the last of these."""
    missing: str | None = "nothing was seen"
    try:
        async with asyncio.timeout(within):
            while (missing := await look()) is not None:  # noqa: ASYNC110 - what others do has no event here
                await asyncio.sleep(EVERY_S)
    except TimeoutError:
        raise Unproved(f"after {within:g} s: {missing}") from None


def in_words(state: ProcessState) -> str:
    match state:
        case Running():
            return "is running"
        case Paused():
            return "is paused"
        case Gone(code=None):
            return "is not running"
        case Gone(code=code):
            return f"is gone ({f'signal {-code}' if code is not None and code < 0 else f'exit code {code}'})"


async def missing_to_be_back(on: Stage, names: tuple[str, ...]) -> str | None:
    """What still keeps these nodes from being useful: servers answer their protocol, and brokers are unfenced. None: nothing.

    Raises Unproved at once when a node that should come back is gone again.
    """
    servers = [name for name in names if name in on.nodes]
    for name in names:
        state = await (on.nodes[name] if name in on.nodes else on.clients[name]).state()
        if isinstance(state, Gone):
            raise Unproved(f"{name} was started but {in_words(state)}")
        if isinstance(state, Paused):
            return f"{name} {in_words(state)}"
        if name in servers and not await on.answers(name):
            return f"{name} {in_words(state)} and does not answer its protocol"
    if not servers:
        return None
    unfenced = (await on.view()).brokers
    fenced = [
        name
        for name in servers
        if ServerRole.BROKER in (plan := on.topology.node(name)).roles and plan.id not in unfenced
    ]
    return f"still fenced: {', '.join(fenced)}" if fenced else None


async def missing_replicas(on: Stage, names: tuple[str, ...]) -> str | None:
    """The partitions whose ISR these brokers belong to and are not in. None: they are everywhere where they should be."""
    ids = {plan.id: plan.name for plan in on.topology.brokers if plan.name in names}
    view = await on.view()
    behind = [
        f"{ids[broker]} is not in the isr of {part.topic}-{part.partition}"
        for part in view.partitions.values()
        for broker in part.replicas
        if broker in ids and broker not in part.isr
    ]
    return "; ".join(sorted(behind)[:4]) or (None if view.partitions else "nobody knows any partition")
