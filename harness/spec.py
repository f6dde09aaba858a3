"""What a run is asked to do, as a person writes it: one YAML file, validated, with errors that name file, line and column.

    name: chaos
    system: kafka:4.3.1
    brokers: 3
    topics:
      - {name: log, partitions: 4, replication: 3, config: {min.insync.replicas: "2"}}
    workload: {name: log, clients: 2, producers: 2}
    nemesis: {mix: {faults: [kill, partition], interval: 8s}}
    time_limit: 60s

The sections `workload`, `nemesis` and `checks` belong to the folders that act on them; this module only composes their
models. A `Spec` is plain data with every default filled in, and what `run.json` stores.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from harness.checker.settings import Settings as CheckSettings
from nemesis.durations import Seconds
from nemesis.settings import NemesisSettings
from nodes.topology import NodePlan, QuorumKind, ServerRole, Topic, Topology

NAME = r"^[a-z0-9][a-z0-9-]{0,40}$"


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _as_text(value: Any) -> Any:
    """YAML reads `min.insync.replicas: 2` as a number and `x: true` as a boolean; Kafka's configuration is text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _config(value: Any) -> Any:
    return {key: _as_text(item) for key, item in value.items()} if isinstance(value, dict) else value


class ConfigSection(Section):
    """Kafka configuration added to krash's own; the more specific one wins: all < role < node."""

    all: dict[str, str] = Field(default={}, description="for every node")
    controllers: dict[str, str] = Field(default={}, description="for nodes with the controller role")
    brokers: dict[str, str] = Field(default={}, description="for nodes with the broker role")
    nodes: dict[str, dict[str, str]] = Field(default={}, description="for one node, by its name")

    @field_validator("all", "controllers", "brokers", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        return _config(value)

    @field_validator("nodes", mode="before")
    @classmethod
    def _node_texts(cls, value: Any) -> Any:
        return {key: _config(item) for key, item in value.items()} if isinstance(value, dict) else value


class TopicSection(Section):
    name: str = Field(pattern=r"^[a-zA-Z0-9._-]{1,200}$", description="topic name")
    partitions: int = Field(default=4, ge=1, le=1000, description="number of partitions")
    replication: int | None = Field(default=None, ge=1, description="replication factor; default: min(3, brokers)")
    assignment: dict[int, list[int]] | None = Field(
        default=None, description="partition -> broker ids, preferred leader first; replaces partitions and replication"
    )
    config: dict[str, str] = Field(default={}, description="topic configuration, e.g. min.insync.replicas")

    @field_validator("config", mode="before")
    @classmethod
    def _texts(cls, value: Any) -> Any:
        return _config(value)

    @model_validator(mode="after")
    def _assignment_is_whole(self) -> TopicSection:
        if self.assignment is not None:
            if sorted(self.assignment) != list(range(len(self.assignment))):
                raise ValueError("assignment must name the partitions 0, 1, 2, ... without a gap")
            if len({len(replicas) for replicas in self.assignment.values()}) != 1:
                raise ValueError("assignment must give every partition the same number of replicas")
        return self


class LimitsSection(Section):
    memory_mib: int | None = Field(default=None, ge=128, description="memory limit of each server node (docker)")
    cpus: float | None = Field(default=None, gt=0, description="CPU limit of each server node (docker)")


class WorkloadSection(BaseModel):
    """The workload's name, how many client nodes run it, and its own settings beside them."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = Field(default="log", description="a registered workload")
    clients: int = Field(default=2, ge=1, le=32, description="client nodes, each with an address of its own")

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Spec(Section):
    name: str = Field(default="run", pattern=NAME, description="goes into the run's id")
    system: str = Field(
        default="reference", description="system under test, NAME or NAME:VERSION: reference, kafka, kafka:3.9.2"
    )
    metadata_version: str | None = Field(
        default=None, description="feature level at format time, e.g. 3.4 or 3.5-IV0; default: the version's own"
    )
    features: dict[str, int] = Field(
        default={},
        description="levels of other features at format time, e.g. transaction.version: 1 (Kafka 3.9 and newer)",
    )
    controllers: int = Field(default=1, ge=1, le=9, description="separate controllers c1, c2, ... (node ids from 101)")
    brokers: int = Field(default=3, ge=1, le=30, description="brokers b1, b2, ... (node ids from 1)")
    quorum: QuorumKind = Field(
        default=QuorumKind.STATIC,
        description="how controllers know each other: static, or dynamic (Kafka 3.9 and newer)",
    )
    combined: bool = Field(default=False, description="nodes n1, n2, ... with both roles; `controllers` of them vote")
    versions: dict[str, str] = Field(
        default={}, description="version of single nodes, by name: two can live side by side"
    )
    config: ConfigSection = Field(default=ConfigSection(), description="configuration of the nodes")
    debug: list[str] = Field(default=[], description="loggers of the servers that write at DEBUG level too")
    limits: LimitsSection = Field(default=LimitsSection(), description="resource limits of the nodes")
    topics: list[TopicSection] = Field(
        default=[TopicSection(name="log")], min_length=1, description="topics made before the workload starts"
    )
    workload: WorkloadSection = Field(default=WorkloadSection(), description="what clients do")
    nemesis: NemesisSettings = Field(default_factory=NemesisSettings, description="what goes wrong, and when")
    wire: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="lead connections between servers through the wire gate; auto: when a fault needs it",
    )
    wire_clients: bool = Field(default=False, description="and the connections of clients, which costs them throughput")
    rate: float | None = Field(
        default=1000, gt=0, description="records per second over all clients; null: as fast as it goes"
    )
    time_limit: Seconds = Field(default=60, gt=0, description="length of the fault phase")
    recovery_limit: Seconds = Field(
        default=90, gt=0, description="how long to wait after healing for leaders and full ISRs"
    )
    drain_limit: Seconds = Field(default=120, gt=0, description="how long the final read may take")
    backend: str = Field(default="local", description="where nodes run: local, docker, ...")
    image: str | None = Field(
        default=None, description="docker: an image to use instead of krash's own, for Kafka one with Java"
    )
    seed: int | None = Field(
        default=None, ge=0, lt=2**63, description="decides every random choice; default: drawn, and recorded"
    )
    checks: CheckSettings = Field(default_factory=CheckSettings, description="how the history is judged")

    @field_validator("wire", mode="before")
    @classmethod
    def _wire_text(cls, value: Any) -> Any:
        """Some YAML reads on and off as booleans."""
        return {True: "on", False: "off"}[value] if isinstance(value, bool) else value

    @field_validator("versions", mode="before")
    @classmethod
    def _version_texts(cls, value: Any) -> Any:
        return _config(value)

    @model_validator(mode="after")
    def _fits_together(self) -> Spec:
        names = {node.name for node in self.topology("").nodes}
        for where, named in (("versions", self.versions), ("config.nodes", self.config.nodes)):
            for name in named:
                if name not in names:
                    raise ValueError(f"{where} names {name}, but the nodes are {', '.join(sorted(names))}")
        brokers = {node.id for node in self.topology("").brokers}
        for topic in self.topics:
            if topic.replication is not None and topic.replication > len(brokers):
                raise ValueError(
                    f"topic {topic.name} wants {topic.replication} replicas, but there are {len(brokers)} brokers"
                )
            for partition, replicas in (topic.assignment or {}).items():
                if not set(replicas) <= brokers or len(set(replicas)) != len(replicas):
                    raise ValueError(
                        f"topic {topic.name} assigns partition {partition} to {replicas}; broker ids are {sorted(brokers)}"
                    )
        if self.combined and self.controllers > self.brokers:
            raise ValueError(f"combined: {self.controllers} controllers do not fit into {self.brokers} nodes")
        if len({topic.name for topic in self.topics}) != len(self.topics):
            raise ValueError("two topics have the same name")
        return self

    @property
    def system_name(self) -> str:
        return self.system.partition(":")[0]

    @property
    def system_version(self) -> str | None:
        """What follows the colon, or None for the system's default version."""
        return self.system.partition(":")[2] or None

    def topology(self, default_version: str) -> Topology:
        """The nodes and topics to deploy; `default_version` serves nodes for which the spec names none."""
        version = self.system_version or default_version
        broker, controller = frozenset({ServerRole.BROKER}), frozenset({ServerRole.CONTROLLER})
        if self.combined:
            shapes = [
                (f"n{n}", n, broker | controller if n <= self.controllers else broker)
                for n in range(1, self.brokers + 1)
            ]
        else:
            shapes = [(f"c{n}", 100 + n, controller) for n in range(1, self.controllers + 1)]
            shapes += [(f"b{n}", n, broker) for n in range(1, self.brokers + 1)]
        return Topology(
            system=self.system_name,
            nodes=tuple(
                NodePlan(
                    name=name,
                    id=number,
                    roles=roles,
                    version=self.versions.get(name, version),
                    config=self._node_config(name, roles),
                    memory_mib=self.limits.memory_mib,
                    cpus=self.limits.cpus,
                )
                for name, number, roles in shapes
            ),
            topics=tuple(self._topic(topic) for topic in self.topics),
            clients=self.workload.clients,
            metadata_version=self.metadata_version,
            features=self.features,
            quorum=self.quorum,
            debug=tuple(self.debug),
        )

    def _node_config(self, name: str, roles: frozenset[ServerRole]) -> dict[str, str]:
        config = dict(self.config.all)
        if ServerRole.CONTROLLER in roles:
            config |= self.config.controllers
        if ServerRole.BROKER in roles:
            config |= self.config.brokers
        return config | self.config.nodes.get(name, {})

    def _topic(self, topic: TopicSection) -> Topic:
        if topic.assignment is not None:
            replication = len(topic.assignment[0])
            return Topic(
                name=topic.name,
                partitions=len(topic.assignment),
                replication=replication,
                assignment={partition: tuple(replicas) for partition, replicas in topic.assignment.items()},
                config=topic.config,
            )
        replication = topic.replication or min(3, self.brokers)
        return Topic(name=topic.name, partitions=topic.partitions, replication=replication, config=topic.config)
