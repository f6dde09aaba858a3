"""Kafka's properties as the configuration of a node: what is read, what is refused and in which words."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

import pytest

from nodes.kafka.config import COMMON, properties, replication
from nodes.reference.environment import MILLISECOND, SECOND, Address
from nodes.reference.process.configuration import (
    BadConfiguration,
    NodeConfiguration,
    configuration,
    known_names,
    parse,
)
from nodes.reference.process.connections import ConnectionSettings
from nodes.reference.protections import Protection
from nodes.topology import NodePlan, ServerRole, Topology

BROKER = """
# a broker
process.roles = broker
node.id=1
listeners=PLAINTEXT://127.0.0.1:9092
advertised.listeners=PLAINTEXT://10.0.0.1:9092
controller.quorum.voters=101@127.0.0.1:9093,102@127.0.0.1:9094
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=4000
log.flush.interval.messages=9223372036854775807
log.flush.interval.ms=100
auto.create.topics.enable=false
krash.protections.off=maximal-isr, vote-persisted
log.cleaner.threads=1
queued.max.request.bytes=1000
"""


def read(text: str, tmp_path: Path) -> NodeConfiguration:
    return configuration({"log.dirs": str(tmp_path / "data"), **parse(text)})


def test_a_broker(tmp_path: Path) -> None:
    node = read(BROKER, tmp_path)
    assert node.roles == {"broker"}
    assert node.voters == {101: Address("127.0.0.1", 9093), 102: Address("127.0.0.1", 9094)}
    assert node.raft.voters.current == (101, 102)
    assert node.controller.broker_session_timeout == 4 * SECOND
    assert node.protections.off == {Protection.MAXIMAL_ISR, Protection.VOTE_PERSISTED}
    assert node.controller_listener is None
    assert node.connections == ConnectionSettings(queued_max_request_bytes=1_000)
    assert node.unknown == ("log.cleaner.threads",)
    settings = node.broker
    assert settings is not None
    assert (settings.listener, settings.advertised) == (Address("127.0.0.1", 9092), Address("10.0.0.1", 9092))
    assert settings.broker_heartbeat_interval_ms == 500
    assert (settings.log_flush_interval_messages, settings.log_flush_interval_ms) == (None, 100)
    assert not settings.auto_create_topics_enable


def test_a_controller(tmp_path: Path) -> None:
    text = "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://:9093\ncontroller.quorum.voters=1@h:9093\n"
    more = "controller.quorum.fetch.timeout.ms=300\ncontroller.quorum.fetch.max.bytes=1\nunclean.leader.election.enable=true"
    node = read(text + more, tmp_path)
    assert node.broker is None
    assert node.controller_listener == Address("127.0.0.1", 9093)
    assert (node.raft.fetch_timeout, node.raft.fetch_max_bytes) == (300 * MILLISECOND, 1)
    assert node.controller.unclean_leader_election_enable


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("process.roles=leader", "process.roles=leader: broker, controller, or broker,controller"),
        ("process.roles=", "process.roles is missing"),
        ("krash.snapshot.records=0", "krash.snapshot.records=0: 1 or more"),
        ("node.id=one", "node.id=one: a whole number"),
        ("node.id=-1", "node.id=-1: at least 0"),
        ("node.id=101", "names 101, which is no controller"),
        ("process.roles=broker,controller", "does not name this controller, 1@host:port"),
        ("controller.quorum.voters=1", "'1' is not id@host:port"),
        ("controller.quorum.voters=101@here", "'here' is not host:port"),
        ("listeners=127.0.0.1:9092", "'127.0.0.1:9092' is not NAME://host:port"),
        ("listeners=CONTROLLER://127.0.0.1:9092", "listeners has none for clients"),
        ("listeners=PLAINTEXT://127.0.0.1:99999", "is not host:port"),
        ("broker.heartbeat.interval.ms=soon", "broker.heartbeat.interval.ms=soon: a whole number"),
        ("auto.create.topics.enable=perhaps", "auto.create.topics.enable=perhaps: true or false"),
        ("krash.protections.off=luck", "there is no protection 'luck'"),
        ("nonsense", "line 17: 'nonsense' is not name=value"),
    ],
)
def test_what_is_refused(changed: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration) as refused:
        read(f"{BROKER}\n{changed}\n", tmp_path)
    assert said in str(refused.value)


def test_a_disk_of_another_cluster_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=1\ncluster.id=mine\nnode.id=1\n")
    assert read(BROKER, tmp_path).cluster_id == "mine"
    with pytest.raises(BadConfiguration, match=r"cluster\.id is yours, but .* belongs to the cluster mine"):
        read(BROKER + "cluster.id=yours\n", tmp_path)


def test_what_krash_gives_apache_kafka_is_understood(tmp_path: Path) -> None:
    """Both are deployed from the same topology."""
    nodes = (
        NodePlan(name="c1", id=101, roles=frozenset({ServerRole.CONTROLLER}), version="1"),
        NodePlan(name="b1", id=1, roles=frozenset({ServerRole.BROKER}), version="1"),
    )
    topology = Topology(system="reference", nodes=nodes)
    for plan in nodes:
        text = properties(plan, topology, {"b1": "10.0.0.1", "c1": "10.0.0.2"}, data=str(tmp_path / "data"))
        node = read(text, tmp_path)
        assert set(node.unknown) <= {*COMMON, *replication(1)}
        assert "broker.session.timeout.ms" not in node.unknown


def test_every_name_is_in_the_documentation() -> None:
    """Written out, with alternatives in braces, or with a star at its end."""
    page = re.sub(r"```.*?```", "", (Path(__file__).parents[4] / "docs" / "reference.md").read_text(), flags=re.DOTALL)
    documented = set[str]()
    for code in re.findall(r"`([^`]+)`", page):
        choices = [part[1:-1].split(",") if part[0] == "{" else [part] for part in re.findall(r"\{[^}]*\}|[^{]+", code)]
        documented |= {"".join(chosen) for chosen in product(*choices)}
    missing = {name for name in known_names() if not any(fnmatchcase(name, pattern) for pattern in documented)}
    assert missing == set()
