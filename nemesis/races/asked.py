"""More that a race can wait for: what single nodes say when they are asked. To be compared as in conditions.py.

end_offset("t", 0, on="b2") >= 50         of that broker's own log, leader or not
high_watermark("t", 0) == 10              of the leader: what consumers may read
stable_offset("t", 0) == 1                of the leader: what read_committed consumers may read
transaction_state("tx-1") == "Ongoing"    Empty, Ongoing, PrepareCommit, CompleteAbort, ...
quorum_leader("c2") == "c1"               whom a controller follows, from its disk: also while it is paused
quorum_epoch("c3") >= 7
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nemesis.races.conditions import UNKNOWN, Eyes, Quantity
from nodes.protocol.connection import Unreachable, Unsupported
from nodes.protocol.partitions import At
from nodes.protocol.requests import Declined


def end_offset(topic: str, partition: int, *, on: str) -> Quantity:
    return _asked(
        f"the end of {topic}-{partition} on {on}", lambda eyes: eyes.cluster.log_end(topic, partition, on=on), (on,)
    )


def high_watermark(topic: str, partition: int) -> Quantity:
    return _asked(f"the high watermark of {topic}-{partition}", lambda eyes: _offset(eyes, topic, partition, At.LATEST))


def stable_offset(topic: str, partition: int) -> Quantity:
    return _asked(
        f"the last stable offset of {topic}-{partition}", lambda eyes: _offset(eyes, topic, partition, At.STABLE)
    )


def transaction_state(transactional_id: str) -> Quantity:
    async def ask(eyes: Eyes) -> object:
        told = await eyes.cluster.transaction_state(transactional_id)
        return told.state if told.error == "NONE" else UNKNOWN

    return _asked(f"the state of transaction {transactional_id}", ask)


def quorum_leader(controller: str) -> Quantity:
    async def ask(eyes: Eyes) -> object:
        told = await eyes.cluster.quorum_state(controller)
        return UNKNOWN if told is None else eyes.name_of(told.leader) if told.leader >= 0 else None

    return _asked(f"the leader that {controller} follows", ask, (controller,))


def quorum_epoch(controller: str) -> Quantity:
    async def ask(eyes: Eyes) -> object:
        told = await eyes.cluster.quorum_state(controller)
        return UNKNOWN if told is None else told.epoch

    return _asked(f"the quorum epoch of {controller}", ask, (controller,))


async def _offset(eyes: Eyes, topic: str, partition: int, at: At) -> object:
    told = await eyes.cluster.offset(topic, partition, at)
    return told.offset if told.error == "NONE" else UNKNOWN


def _asked(name: str, ask: Callable[[Any], Awaitable[object]], nodes: tuple[str, ...] = ()) -> Quantity:
    """A node that does not answer now may do so later: nobody knows, and the wait goes on."""

    async def read(eyes: Eyes) -> object:
        try:
            return await ask(eyes)
        except (Unreachable, Unsupported, Declined):
            return UNKNOWN

    return Quantity(name, read, nodes)
