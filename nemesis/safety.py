"""When a disk may be taken away without asking Kafka for more than it promises.

Released Kafka loses acknowledged records when the last member of an ISR loses its disk, with unclean election off too (KIP-966; after
kill -9 even with eligible leader replicas on), and a controller of a static quorum that comes back empty may outvote the one that knows
(KIP-853). So in safe mode a disk is taken only from a broker, only while every ISR without it still has min.insync.replicas members, and
only while no other fault is active. What is lost then is a finding.
"""

from __future__ import annotations

from nodes.topology import ServerRole, Topology
from nodes.view import ClusterView

MIN_ISR = "min.insync.replicas"
OWN_MIN_ISR = {"__transaction_state": ("transaction.state.log.min.isr", 2)}


def min_insync(topic: str, topology: Topology) -> int:
    """The topic's min.insync.replicas: its own setting, else the largest of the brokers', else Kafka's default 1."""
    for own in topology.topics:
        if own.name == topic and MIN_ISR in own.config:
            return int(own.config[MIN_ISR])
    key, default = OWN_MIN_ISR.get(topic, (MIN_ISR, 1))
    return max(int(node.config.get(key, default)) for node in topology.brokers)


def why_unsafe(targets: tuple[str, ...], topology: Topology, view: ClusterView) -> str | None:
    """Why taking these nodes' disks now would be more than Kafka promises to survive; None: it is safe."""
    plans = [topology.node(name) for name in targets]
    for plan in plans:
        if ServerRole.CONTROLLER in plan.roles:
            return f"{plan.name} is a controller, and a static quorum does not survive a lost disk safely (KIP-853)"
    ids = {plan.id for plan in plans}
    if not view.partitions:
        return "nobody knows any partition"
    for (topic, number), part in sorted(view.partitions.items()):
        rest = [broker for broker in part.isr if broker not in ids]
        needed = min_insync(topic, topology)
        if ids & set(part.replicas) and len(rest) < needed:
            return (
                f"the isr of {topic}-{number} is {list(part.isr)}; without {', '.join(targets)} it has {len(rest)} "
                f"member(s), and min.insync.replicas is {needed}"
            )
    return None


def still_leads(targets: tuple[str, ...], topology: Topology, view: ClusterView) -> str | None:
    """What the cluster still counts on these nodes for: a partition that they lead, an ISR that they are in. None: nothing."""
    ids = {topology.node(name).id for name in targets}
    for (topic, number), part in sorted(view.partitions.items()):
        if ids & set(part.isr) or part.leader in ids or part.leader < 0:
            return f"{topic}-{number} has leader {part.leader} and isr {list(part.isr)}"
    return None
