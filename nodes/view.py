"""What a cluster says about itself, merged from the answers of its members. Pure: answers in, one view out.

Brokers answer Metadata, the active controller answers DescribeQuorum. Answers differ: a broker that is cut off from the
controllers goes on telling an old story. What is believed, in this order:

- the newest answer of a broker that keeps up with the metadata log (the active controller says how far each has fetched)
  tells who is unfenced and which topics exist;
- per partition the highest leader epoch, and among equals the leader's own answer, since ISR changes start with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

LAG_RECORDS: Final = 4  # of the metadata log, which gets two idle records a second: less than a broker session


@dataclass(frozen=True, kw_only=True)
class PartitionView:
    topic: str
    partition: int
    leader: int  # broker id, -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Led, and every replica in sync."""
        return self.leader >= 0 and set(self.isr) == set(self.replicas)


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    at_ns: int
    answered: frozenset[str]  # names of the brokers that answered
    brokers: frozenset[int]  # unfenced broker ids
    partitions: Mapping[tuple[str, int], PartitionView]
    controller: str | None  # name of the active controller, None: unknown
    claims: Mapping[str, int] = field(default_factory=dict)  # controller that says that it is the active one -> epoch
    places: Mapping[str, int] = field(default_factory=dict)  # node -> metadata log end, as the active controller knows


@dataclass(frozen=True, kw_only=True)
class BrokerAnswer:
    """One broker's Metadata."""

    id: int
    asked_ns: int
    brokers: frozenset[int]
    topics: Mapping[str, object]  # name -> topic id, to tell a topic from an earlier one of the same name
    partitions: Mapping[tuple[str, int], PartitionView]


@dataclass(frozen=True, kw_only=True)
class QuorumAnswer:
    """An active controller's DescribeQuorum."""

    leader: int
    epoch: int
    offsets: Mapping[int, int] = field(default_factory=dict)  # node id -> how far it has fetched the metadata log


def merge(
    at_ns: int,
    brokers: Mapping[str, BrokerAnswer],
    quorums: Iterable[QuorumAnswer],
    *,
    names: Mapping[int, str],
    offsets: Mapping[int, int],
) -> ClusterView:
    """One view of the brokers' and controllers' answers.

    names: node id -> name; offsets: the last known places in the metadata log, for when no controller answers.
    """
    quorums = list(quorums)
    active = max(quorums, key=lambda answer: answer.epoch, default=None)
    places = {**offsets, **(active.offsets if active else {})}
    furthest = max((places.get(one.id, -1) for one in brokers.values()), default=-1)
    ranked = sorted(
        brokers.values(),
        key=lambda one: (places.get(one.id, -1) >= furthest - LAG_RECORDS, one.asked_ns),
        reverse=True,
    )
    best = ranked[0] if ranked else None
    return ClusterView(
        at_ns=at_ns,
        answered=frozenset(brokers),
        brokers=best.brokers if best else frozenset(),
        partitions={key: _believed(key, best, ranked) for key in best.partitions} if best else {},
        controller=names.get(active.leader) if active else None,
        places={names[id]: offset for id, offset in active.offsets.items() if id in names} if active else {},
        claims={names[answer.leader]: answer.epoch for answer in quorums if answer.leader in names},
    )


def _believed(key: tuple[str, int], best: BrokerAnswer, ranked: list[BrokerAnswer]) -> PartitionView:
    topic = key[0]
    told = [one for one in ranked if key in one.partitions and one.topics.get(topic) == best.topics.get(topic)]
    epoch = max(one.partitions[key].leader_epoch for one in told)
    newest = [one for one in told if one.partitions[key].leader_epoch == epoch]
    own = [one for one in newest if one.partitions[key].leader == one.id]
    return (own or newest)[0].partitions[key]


def describe(view: ClusterView) -> str:
    """A view in one line, for messages: what is not as it should be first.

    >>> describe(view)
    'brokers that answer: b1, b2; unfenced: 1, 2; controller: c1; 1 of 4 partitions not whole: log-0 led by 1, isr 1 of 1 2 3'
    """
    broken = [one for one in view.partitions.values() if not one.whole]
    shown = "; ".join(
        f"{one.topic}-{one.partition} led by {'none' if one.leader < 0 else one.leader}, "
        f"isr {_ids(one.isr)} of {_ids(one.replicas)}"
        for one in broken[:5]
    )
    more = f" and {len(broken) - 5} more" if len(broken) > 5 else ""
    partitions = f"{len(broken)} of {len(view.partitions)} partitions not whole" + (
        f": {shown}{more}" if broken else ""
    )
    return (
        f"brokers that answer: {', '.join(sorted(view.answered)) or 'none'}; unfenced: {_ids(view.brokers)}; "
        f"controller: {view.controller or 'unknown'}; {partitions}"
    )


def _ids(ids: Iterable[int]) -> str:
    return " ".join(str(one) for one in sorted(ids)) or "none"
