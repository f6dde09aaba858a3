"""Scripted faults of transaction coordinators (KIP-98): what a coordinator has decided, and what its successor knows of it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from harness.simulated.stage import Stage, api
from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.server.handlers import Api


async def dies_over_a_commit(on: Stage) -> None:
    """KIP-98: a commit is asked for; its coordinator, whose log nobody replicates, reaches one of two partitions and dies.

    What the next coordinator finds is an open transaction, which it aborts when its time is over: its client has died, too.
    """
    await on.soon(SECOND, 2 * SECOND)
    asked = _Commit(on)
    late = on.hold_any(asked.caught)
    await on.until(lambda: bool(late.caught))
    coordinator, brokers = asked.coordinator, on.cluster.broker_names
    held = [on.hold(coordinator, _brings_records, target=each) for each in brokers if each != coordinator]
    held.append(on.hold(coordinator, lambda message: api(message) == Api.WRITE_TXN_MARKERS, target=asked.out_of_reach))
    on.end_client(asked.client)
    late.release()
    await on.soon(300 * MILLISECOND, 700 * MILLISECOND)
    on.kill(coordinator)
    for each in held:
        each.drop()
    await on.soon(2 * SECOND, 4 * SECOND)
    on.start(coordinator)


class _Commit:
    """Waits for a commit over partitions with two leaders, one of which at least is not the coordinator."""

    def __init__(self, on: Stage) -> None:
        self._on = on
        self._added: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        self.client = self.coordinator = self.out_of_reach = ""

    def caught(self, source: str, target: str, message: Any) -> bool:
        if api(message) == Api.ADD_PARTITIONS_TO_TXN and not self.client:
            topics = getattr(message, "v3_and_below_topics", ())  # later versions are for brokers, which only verify
            added = {(str(topic.name), int(partition)) for topic in topics for partition in topic.partitions}
            self._added[getattr(message, "v3_and_below_transactional_id", "")] |= added
        if api(message) != Api.END_TXN or self.client:
            return False
        leaders = {self._on.leader_of(*place) for place in self._added.pop(message.transactional_id, ())}
        elsewhere = sorted(name for name in leaders if name not in (None, target))
        if not message.committed or len(leaders) < 2 or not elsewhere:
            return False
        self.client, self.coordinator = source, target
        self.out_of_reach = target if target in leaders else elsewhere[-1]
        return True


def _brings_records(message: object) -> bool:
    """The answer to another broker's fetch."""
    return getattr(message, "__api_key__", None) == Api.FETCH and type(message).__name__ == "FetchResponse"
