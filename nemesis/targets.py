"""Who is hit: a rule in words, parsed once, resolved to node names at the fault's moment.

Why rules and not names: "leader of log-0" finds bugs that "b1" misses, and it still means something when a plan is replayed. A plan holds
the rule and one random number; what the rule came to is recorded beside it. Resolving is a pure function of rule, topology, view and that
number, so the same picture of the cluster gives the same victim.

    parse("leader of log-0")                         -> Rule(text="leader of log-0", ...)
    resolve(rule, topology, view, draw=17)           -> ("b2",)

The words (`RULES` lists them for error messages):

    b1 | random broker | random controller | random node | random client | active controller | leader of log-0
    leader of a random partition | a follower of log-0 | a follower in the isr of log-0 | a follower out of the isr of log-0
    followers of log-0 | minority of brokers | minority of controllers | minority | all brokers | all controllers | all clients | all
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nemesis.fault import Refused
from nodes.topology import Topology
from nodes.view import ClusterView, PartitionView

RULES = (
    "a node's name (b1)",
    "random broker|controller|node|client",
    "active controller",
    "leader of TOPIC-PARTITION",
    "leader of a random partition",
    "a follower of TOPIC-PARTITION",
    "a follower in the isr of TOPIC-PARTITION",
    "a follower out of the isr of TOPIC-PARTITION",
    "followers of TOPIC-PARTITION",
    "minority of brokers|controllers",
    "minority",
    "all brokers|controllers|clients",
    "all",
)
ANY_PARTITION = "a random partition"
T = TypeVar("T")


class UnknownRule(ValueError):
    """A target was written that means nothing here; the message lists what would."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`kind` is the pattern that matched, `group` and `where` what stood in its gaps."""

    text: str
    kind: str
    group: str = ""  # "broker", "controller", "node", "client"; for kind "name" the node
    where: str = ""  # "log-0" or ANY_PARTITION


_GROUPS = r"(?P<group>broker|controller|node|client)"
_WHERE = r"(?P<where>a random partition|\S+-\d+)"
_PATTERNS: Mapping[str, re.Pattern[str]] = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "random": rf"(?:a )?random {_GROUPS}",
        "active controller": r"(?:the )?active controller",
        "leader": rf"(?:the )?leader of {_WHERE}",
        "follower in isr": rf"an? follower in the isr of {_WHERE}",
        "follower out of isr": rf"an? follower out of the isr of {_WHERE}",
        "follower": rf"an? follower of {_WHERE}",
        "followers": rf"(?:all |the )?followers of {_WHERE}",
        "minority": rf"(?:a )?minority(?: of {_GROUPS}s)?",
        "all": rf"all(?: {_GROUPS}s)?",
        "name": r"(?P<group>[a-z][a-z0-9-]{0,14})",
    }.items()
}


def parse(text: str) -> Rule:
    words = " ".join(text.split())
    for kind, pattern in _PATTERNS.items():
        if match := pattern.fullmatch(words):
            found = match.groupdict()
            return Rule(text=words, kind=kind, group=found.get("group") or "", where=found.get("where") or "")
    raise UnknownRule(f"{text!r} is no target; a target is one of: {'; '.join(RULES)}")


def validate(rule: Rule, topology: Topology) -> None:
    """Raise UnknownRule when the rule names a node, topic or partition that this topology does not have."""
    if rule.kind == "name":
        names = [node.name for node in topology.nodes] + client_names(topology)
        if rule.group not in names:
            raise UnknownRule(
                f"{rule.text!r} is no node here; there are {', '.join(names)}. Other targets: {'; '.join(RULES[1:])}"
            )
    if rule.where and rule.where != ANY_PARTITION:
        name, number = topic_partition(rule.where)
        topics = {topic.name: topic.partitions for topic in topology.topics}
        if name.startswith("__"):
            return
        if name not in topics:
            raise UnknownRule(f"{rule.text!r}: no topic {name!r}; there are {', '.join(topics) or 'none'}")
        if number >= topics[name]:
            raise UnknownRule(f"{rule.text!r}: topic {name!r} has partitions 0 to {topics[name] - 1}")


def topic_partition(text: str) -> tuple[str, int]:
    """ "log-0" -> ("log", 0)."""
    name, _, number = text.rpartition("-")
    if not name or not number.isdigit():
        raise UnknownRule(f"{text!r} is no partition; write TOPIC-NUMBER, as log-0")
    return name, int(number)


def client_names(topology: Topology) -> list[str]:
    return [f"w{n}" for n in range(1, topology.clients + 1)]


def resolve(rule: Rule, topology: Topology, view: ClusterView, draw: int) -> tuple[str, ...]:
    """The names of the nodes that the rule means now, sorted. Raises Refused when it means nobody."""
    return tuple(sorted(_RESOLVERS[rule.kind](rule, topology, view, random.Random(draw))))


def members(group: str, topology: Topology) -> list[str]:
    if group == "broker":
        return sorted(node.name for node in topology.brokers)
    if group == "controller":
        return sorted(node.name for node in topology.controllers)
    if group == "client":
        return client_names(topology)
    return sorted(node.name for node in topology.nodes)


def name_of(broker: int, topology: Topology) -> str:
    for node in topology.brokers:
        if node.id == broker:
            return node.name
    raise Refused(f"the cluster names broker {broker}, which is not in the topology")


def _named(rule: Rule, topology: Topology, view: ClusterView, rng: random.Random) -> list[str]:
    return [rule.group]


def _random(rule: Rule, topology: Topology, view: ClusterView, rng: random.Random) -> list[str]:
    return [_pick(members(rule.group, topology), rng, f"there is no {rule.group}")]


def _all(rule: Rule, topology: Topology, view: ClusterView, rng: random.Random) -> list[str]:
    return members(rule.group, topology)


def _minority(rule: Rule, topology: Topology, view: ClusterView, rng: random.Random) -> list[str]:
    everyone = members(rule.group, topology)
    size = (len(everyone) - 1) // 2
    if size == 0:
        raise Refused(
            f"{rule.text}: {len(everyone)} {rule.group or 'node'}(s) have no minority; it takes at least three"
        )
    return rng.sample(everyone, size)


def _active_controller(rule: Rule, topology: Topology, view: ClusterView, rng: random.Random) -> list[str]:
    if view.controller is None:
        raise Refused("no controller says that it is the active one")
    return [view.controller]


def _leader(rule: Rule, topology: Topology, view: ClusterView, rng: random.Random) -> list[str]:
    led = [part for part in _partitions(rule, topology, view) if part.leader >= 0]
    chosen = _pick(led, rng, f"{rule.where} has no leader now")
    return [name_of(chosen.leader, topology)]


def _followers(rule: Rule, topology: Topology, view: ClusterView, rng: random.Random) -> list[str]:
    chosen = _pick(_partitions(rule, topology, view), rng, f"nobody knows {rule.where}")
    found = [name_of(broker, topology) for broker in chosen.replicas if broker != chosen.leader]
    if not found:
        raise Refused(f"{chosen.topic}-{chosen.partition} has no follower")
    return found


def _one_follower(
    wanted: Callable[[PartitionView, int], bool], what: str
) -> Callable[[Rule, Topology, ClusterView, random.Random], list[str]]:
    def resolver(rule: Rule, topology: Topology, view: ClusterView, rng: random.Random) -> list[str]:
        found = [
            broker
            for part in _partitions(rule, topology, view)
            for broker in sorted(part.replicas)
            if broker != part.leader and wanted(part, broker)
        ]
        return [name_of(_pick(found, rng, f"{rule.where} has no follower{what} now"), topology)]

    return resolver


def _partitions(rule: Rule, topology: Topology, view: ClusterView) -> list[PartitionView]:
    """Those that the rule speaks of. "A random partition" is one of the run's own topics, so that internal ones do not crowd them out."""
    if rule.where == ANY_PARTITION:
        own = {topic.name for topic in topology.topics}
        return [view.partitions[key] for key in sorted(view.partitions) if key[0] in own]
    found = view.partitions.get(topic_partition(rule.where))
    return [found] if found else []


def _pick(candidates: Sequence[T], rng: random.Random, otherwise: str) -> T:
    if not candidates:
        raise Refused(otherwise)
    return candidates[rng.randrange(len(candidates))]


_RESOLVERS: Mapping[str, Callable[[Rule, Topology, ClusterView, random.Random], list[str]]] = {
    "name": _named,
    "random": _random,
    "all": _all,
    "minority": _minority,
    "active controller": _active_controller,
    "leader": _leader,
    "followers": _followers,
    "follower": _one_follower(lambda part, broker: True, ""),
    "follower in isr": _one_follower(lambda part, broker: broker in part.isr, " in its isr"),
    "follower out of isr": _one_follower(lambda part, broker: broker not in part.isr, " out of its isr"),
}
