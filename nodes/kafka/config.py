"""server.properties of one node, from plan, topology and addresses. Pure: same input, same text.

The defaults are Kafka's own but for the ones below, each with its reason. A spec's overrides come last and win.

Left at Kafka's value on purpose: Raft's fetch (2 s) and election (1 s) timeouts, log flushing (acks=all is not fsync), producer and
transaction timeouts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from nodes.system import SystemUnavailable
from nodes.topology import BROKER_PORT, CONTROLLER_PORT, NodePlan, QuorumKind, ServerRole, Topology

# name -> (value, reason)
COMMON: Final[Mapping[str, tuple[str, str]]] = {
    "broker.session.timeout.ms": (
        "4000",
        "9 s by default: a kill -9 should turn into a fail-over within one short fault",
    ),
    "broker.heartbeat.interval.ms": ("500", "eight tries per session, so that a busy machine fences nobody"),
    "replica.lag.time.max.ms": (
        "10000",
        "30 s by default: a follower that lost only its leader should leave the ISR within a fault",
    ),
    "controller.socket.timeout.ms": (
        "10000",
        "30 s by default: how long an AlterPartition hangs on a silent controller",
    ),
    "unclean.leader.election.enable": (
        "false",
        "an acknowledged record may not be traded for availability; also Kafka's default",
    ),
    "auto.create.topics.enable": (
        "false",
        "a topic that is gone must stay gone, or loss would look like an empty topic",
    ),
    "auto.leader.rebalance.enable": (
        "false",
        "leaders should move because of recorded faults, not because five minutes have passed",
    ),
    "group.initial.rebalance.delay.ms": ("0", "3 s by default: groups form at once"),
    "log.cleaner.dedupe.buffer.size": ("2097152", "128 MiB of heap are taken at start otherwise"),
    "log.cleaner.threads": ("1", "small machine"),
    "num.network.threads": ("2", "small machine"),
    "num.io.threads": ("4", "small machine"),
    "background.threads": ("2", "small machine"),
    "num.recovery.threads.per.data.dir": ("1", "small machine"),
    "offsets.topic.num.partitions": ("4", "50 by default: fewer replicas to elect after each fault"),
    "transaction.state.log.num.partitions": ("4", "50 by default: as above"),
    "share.coordinator.state.topic.num.partitions": ("4", "50 by default: as above"),
}


def properties(plan: NodePlan, topology: Topology, addresses: Mapping[str, str], *, data: str) -> str:
    """Text of server.properties.

    addresses: node name -> IPv4 of every server; data: absolute path of the node's disk. SystemUnavailable names a node without address.
    """
    values = {
        **_identity(plan, topology, addresses, data),
        **{name: value for name, (value, _) in COMMON.items()},
        **replication(len(topology.brokers)),
        **topic_defaults(plan.roles, len(topology.brokers)),
        **plan.config,
    }
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _identity(plan: NodePlan, topology: Topology, addresses: Mapping[str, str], data: str) -> dict[str, str]:
    address = _address(plan.name, addresses)
    listeners = {
        ServerRole.BROKER: f"PLAINTEXT://{address}:{BROKER_PORT}",
        ServerRole.CONTROLLER: f"CONTROLLER://{address}:{CONTROLLER_PORT}",
    }
    roles = sorted(plan.roles)
    values = {
        "process.roles": ",".join(roles),
        "node.id": str(plan.id),
        "listeners": ",".join(listeners[role] for role in roles),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": data,
        **_quorum(topology, addresses),
    }
    if ServerRole.BROKER in plan.roles:  # a controller with advertised.listeners refuses to start before 3.9
        values |= {"advertised.listeners": listeners[ServerRole.BROKER], "inter.broker.listener.name": "PLAINTEXT"}
    return values


def _quorum(topology: Topology, addresses: Mapping[str, str]) -> dict[str, str]:
    at = [(voter.id, f"{_address(voter.name, addresses)}:{CONTROLLER_PORT}") for voter in topology.controllers]
    if topology.quorum is QuorumKind.DYNAMIC:
        return {"controller.quorum.bootstrap.servers": ",".join(place for _, place in at)}
    return {"controller.quorum.voters": ",".join(f"{id}@{place}" for id, place in at)}


def initial_controllers(topology: Topology, addresses: Mapping[str, str], directories: Mapping[int, str]) -> str:
    """The first voters of a dynamic quorum, as `kafka-storage format --initial-controllers` takes them.

    directories: node id -> directory id of its first disk.
    """
    return ",".join(
        f"{voter.id}@{_address(voter.name, addresses)}:{CONTROLLER_PORT}:{directories[voter.id]}"
        for voter in topology.controllers
    )


def replication(brokers: int) -> dict[str, str]:
    """Internal topics survive what a topic of replication 3 survives, as far as there are brokers for it."""
    copies, in_sync = str(min(3, brokers)), str(min(2, brokers))
    return {
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,  # 4.0 and later; ignored before
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def topic_defaults(roles: Collection[ServerRole], brokers: int) -> dict[str, str]:
    """The controller decides them; a broker of 4.x only complains."""
    return {"default.replication.factor": str(min(3, brokers))} if ServerRole.CONTROLLER in roles else {}


def _address(name: str, addresses: Mapping[str, str]) -> str:
    try:
        return addresses[name]
    except KeyError:
        raise SystemUnavailable(f"no address for node {name}; there are {', '.join(sorted(addresses))}") from None


def _escaped(value: str) -> str:
    """A value as java.util.Properties reads it back: one line, backslashes doubled."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
