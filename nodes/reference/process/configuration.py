"""The configuration of a node: a file of Kafka's, `name=value` lines, with Kafka's names where Kafka has them.

    process.roles=broker,controller              log.dirs=/var/lib/krash/1
    node.id=1                                    cluster.id=kraSh-1            (this cluster's own; meta.properties wins)
    listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
    controller.quorum.voters=1@127.0.0.1:9093    krash.protections.off=maximal-isr,vote-persisted

A name that is not known is a warning, as in Kafka; a value that makes no sense is an error that names its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_type_hints

from nodes.reference.broker.settings import BrokerSettings
from nodes.reference.controller.settings import ControllerSettings
from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.coordinator.settings import CoordinatorSettings
from nodes.reference.coordinator.transactions.requests import TransactionSettings
from nodes.reference.environment import MILLISECOND, Address
from nodes.reference.process.connections import ConnectionSettings
from nodes.reference.protections import Protection, Protections
from nodes.reference.raft.log import Voters
from nodes.reference.raft.roles import RaftConfig

T = TypeVar("T")
DEFAULT_CLUSTER: Final = "krash-reference"
META: Final = "meta.properties"
BROKER, CONTROLLER = "broker", "controller"
_PROTECTIONS: Final = {protection.value: protection for protection in Protection}
_NEVER: Final = (1 << 63) - 1  # how Kafka writes "no limit" in log.flush.interval.*
_RAFT: Final = {
    "controller.quorum.election.timeout.ms": "election_timeout",
    "controller.quorum.election.backoff.max.ms": "election_backoff_max",
    "controller.quorum.fetch.timeout.ms": "fetch_timeout",
    "controller.quorum.request.timeout.ms": "request_timeout",
    "controller.quorum.retry.backoff.ms": "retry_backoff",
}
_RAFT_BYTES: Final = {  # KIP-1219
    "controller.quorum.fetch.max.bytes": "fetch_max_bytes",
    "controller.quorum.fetch.snapshot.max.bytes": "snapshot_max_bytes",
}
_CONTROLLER: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "broker.session.timeout.ms": ("broker_session_timeout", lambda value: int(value) * MILLISECOND),
    "num.partitions": ("num_partitions", int),
    "default.replication.factor": ("default_replication_factor", int),
    "unclean.leader.election.enable": ("unclean_leader_election_enable", lambda value: _boolean(value)),
    "krash.metadata.version": ("metadata_version", int),
    "krash.snapshot.records": ("snapshot_every", lambda value: _count(value)),
    "krash.snapshot.records.lagging": ("snapshot_every_lagging", lambda value: _count(value)),
}
_KNOWN_TO_KAFKA: Final = frozenset(
    {
        "listener.security.protocol.map",
        "controller.listener.names",
        "inter.broker.listener.name",
        "metadata.log.dir",
    }
)


class BadConfiguration(Exception):
    """What is wrong, where, and what to write instead."""


@dataclass(frozen=True, kw_only=True)
class NodeConfiguration:
    node_id: int
    roles: frozenset[str]
    directory: Path
    raft: RaftConfig
    voters: Mapping[int, Address]
    controller_listener: Address | None
    broker: BrokerSettings | None
    controller: ControllerSettings
    protections: Protections
    connections: ConnectionSettings
    unknown: tuple[str, ...]  # names that nobody here knows

    @property
    def cluster_id(self) -> str:
        return self.raft.cluster_id


def read_configuration(path: Path) -> NodeConfiguration:
    """BadConfiguration names what is wrong with the file; OSError if it cannot be read."""
    try:
        return configuration(parse(path.read_text()))
    except (BadConfiguration, UnicodeDecodeError) as error:
        raise BadConfiguration(f"{path}: {error}") from error


def parse(text: str) -> dict[str, str]:
    """Lines of `name=value`; `#` and `!` begin comments. Of a name that is there twice the last counts, as in Java."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        name, found, value = line.partition("=")
        if not found:
            raise BadConfiguration(f"line {number}: {line!r} is not name=value")
        values[name.strip()] = value.strip().replace("\\\\", "\\")
    return values


def configuration(values: Mapping[str, str]) -> NodeConfiguration:
    roles = _roles(values)
    node_id = _number(values, "node.id", lowest=0)
    directory = Path(_required(values, "log.dirs").split(",")[0])
    voters = _voters(_required(values, "controller.quorum.voters"))
    if CONTROLLER in roles and node_id not in voters:
        raise BadConfiguration(f"controller.quorum.voters does not name this controller, {node_id}@host:port")
    if CONTROLLER not in roles and node_id in voters:
        raise BadConfiguration(
            f"controller.quorum.voters names {node_id}, which is no controller: process.roles has none"
        )
    listeners = _listeners(_required(values, "listeners"), "listeners")
    controller_names = [name.strip() for name in values.get("controller.listener.names", "CONTROLLER").split(",")]
    cluster_id = _cluster_id(directory, values)
    try:
        protections = Protections(_PROTECTIONS[name] for name in _words(values.get("krash.protections.off", "")))
    except KeyError as error:
        raise BadConfiguration(f"krash.protections.off: there is no protection {error}") from error
    return NodeConfiguration(
        node_id=node_id,
        roles=roles,
        directory=directory,
        raft=_raft(values, cluster_id, tuple(voters)),
        voters=voters,
        controller_listener=_controller_listener(roles, listeners, controller_names),
        broker=_broker(values, node_id, cluster_id, listeners, controller_names, voters) if BROKER in roles else None,
        controller=_controller(values, cluster_id),
        protections=protections,
        connections=_of(ConnectionSettings, values),
        unknown=tuple(sorted(set(values) - known_names())),
    )


def known_names() -> frozenset[str]:
    """What a node understands, or may be told without harm because Kafka is told it, too."""
    own = {"process.roles", "node.id", "log.dirs", "cluster.id", "listeners", "advertised.listeners"}
    own |= {"controller.quorum.voters", "krash.protections.off"}
    return frozenset(
        {*own, *_RAFT, *_RAFT_BYTES, *_CONTROLLER, *_KNOWN_TO_KAFKA, *(_dotted(name) for name in _BROKER_FIELDS)}
    ) | {_dotted(field.name) for kind in _OF_NUMBERS for field in fields(kind)}


def _broker(
    values: Mapping[str, str],
    node_id: int,
    cluster_id: str,
    listeners: Mapping[str, Address],
    controller_names: list[str],
    voters: Mapping[int, Address],
) -> BrokerSettings:
    name = next((name for name in listeners if name not in controller_names), None)
    if name is None:
        raise BadConfiguration("listeners has none for clients, such as PLAINTEXT://127.0.0.1:9092")
    advertised = (
        _listeners(values["advertised.listeners"], "advertised.listeners") if "advertised.listeners" in values else {}
    )
    settings: dict[str, Any] = {
        field: _value(_dotted(field), values[_dotted(field)], kind)
        for field, kind in _BROKER_FIELDS.items()
        if _dotted(field) in values
    }
    return BrokerSettings(
        coordinators=CoordinatorSettings(
            groups=_of(GroupSettings, values), transactions=_of(TransactionSettings, values)
        ),
        node_id=node_id,
        cluster_id=cluster_id,
        listener=listeners[name],
        advertised=advertised.get(name),
        listener_name=name,
        controllers=voters,
        **settings,
    )


_NOT_FROM_FILE: Final = {
    "node_id",
    "cluster_id",
    "listener",
    "advertised",
    "listener_name",
    "controllers",
    "coordinators",
}
_OF_NUMBERS: Final = (GroupSettings, TransactionSettings, ConnectionSettings)
_BROKER_FIELDS: Final[Mapping[str, Any]] = {
    field.name: get_type_hints(BrokerSettings)[field.name]
    for field in fields(BrokerSettings)
    if field.name not in _NOT_FROM_FILE
}


def _dotted(field: str) -> str:
    return "broker.rack" if field == "rack" else field.replace("_", ".")


def _of(kind: type[T], values: Mapping[str, str]) -> T:
    """Settings that are numbers, all of them."""
    names = {field.name: _dotted(field.name) for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{field: _whole(name, values[name]) for field, name in names.items() if name in values})


def _value(name: str, value: str, kind: Any) -> Any:
    if kind is bool:
        return _boolean(value, name)
    if int in (kind, *get_args(kind)):
        number = _whole(name, value)
        return None if kind is not int and number == _NEVER else number
    return value


def _controller(values: Mapping[str, str], cluster_id: str) -> ControllerSettings:
    given = {}
    for name, (field, convert) in _CONTROLLER.items():
        if name in values:
            try:
                given[field] = convert(values[name])
            except ValueError as error:
                raise BadConfiguration(f"{name}={values[name]}: {error}") from error
    return ControllerSettings(cluster_id=cluster_id, **given)


def _raft(values: Mapping[str, str], cluster_id: str, voters: tuple[int, ...]) -> RaftConfig:
    times = {field: _number(values, name, lowest=1) * MILLISECOND for name, field in _RAFT.items() if name in values}
    sizes = {field: _number(values, name, lowest=1) for name, field in _RAFT_BYTES.items() if name in values}
    return RaftConfig(cluster_id=cluster_id, voters=Voters(voters), **times, **sizes)


def _cluster_id(directory: Path, values: Mapping[str, str]) -> str:
    """As the disk says, where it has been in use before (KIP-78)."""
    wanted, meta = values.get("cluster.id"), directory / META
    written = parse(meta.read_text()).get("cluster.id") if meta.is_file() else None
    if wanted and written and wanted != written:
        raise BadConfiguration(f"cluster.id is {wanted}, but {meta} belongs to the cluster {written}")
    return written or wanted or DEFAULT_CLUSTER


def _roles(values: Mapping[str, str]) -> frozenset[str]:
    roles = frozenset(_words(_required(values, "process.roles")))
    if not roles or roles - {BROKER, CONTROLLER}:
        raise BadConfiguration(f"process.roles={values['process.roles']}: broker, controller, or broker,controller")
    return roles


def _voters(text: str) -> dict[int, Address]:
    """`1@127.0.0.1:9093,2@...`"""
    voters = {}
    for voter in _words(text):
        id, found, place = voter.partition("@")
        if not found or not id.isdecimal():
            raise BadConfiguration(f"controller.quorum.voters: {voter!r} is not id@host:port")
        voters[int(id)] = _address(place, "controller.quorum.voters")
    return voters


def _listeners(text: str, name: str) -> dict[str, Address]:
    """`PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093`"""
    listeners = {}
    for listener in _words(text):
        protocol, found, place = listener.partition("://")
        if not found:
            raise BadConfiguration(f"{name}: {listener!r} is not NAME://host:port")
        listeners[protocol] = _address(place, name)
    return listeners


def _controller_listener(
    roles: frozenset[str], listeners: Mapping[str, Address], controller_names: list[str]
) -> Address | None:
    if CONTROLLER not in roles:
        return None
    name = next((name for name in controller_names if name in listeners), None)
    if name is None:
        raise BadConfiguration(f"listeners has none of controller.listener.names={','.join(controller_names)}")
    return listeners[name]


def _address(place: str, name: str) -> Address:
    host, found, port = place.rpartition(":")
    if not found or not port.isdecimal() or not 0 <= int(port) <= 65_535:
        raise BadConfiguration(f"{name}: {place!r} is not host:port")
    return Address(host or "127.0.0.1", int(port))


def _required(values: Mapping[str, str], name: str) -> str:
    if not values.get(name):
        raise BadConfiguration(f"{name} is missing")
    return values[name]


def _number(values: Mapping[str, str], name: str, *, lowest: int) -> int:
    number = _whole(name, _required(values, name))
    if number < lowest:
        raise BadConfiguration(f"{name}={number}: at least {lowest}")
    return number


def _whole(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise BadConfiguration(f"{name}={value}: a whole number") from None


def _boolean(value: str, name: str = "") -> bool:
    if value.lower() not in ("true", "false"):
        raise BadConfiguration(f"{name}={value}: true or false")
    return value.lower() == "true"


def _count(value: str) -> int:
    if int(value) < 1:
        raise ValueError("1 or more")
    return int(value)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
