from __future__ import annotations

from dataclasses import replace

import pytest

from nodes.kafka import disk, log_config
from nodes.kafka.config import COMMON, initial_controllers, properties
from nodes.kafka.version import METADATA_LEVELS, is_path, metadata_level, release
from nodes.system import SystemUnavailable
from nodes.topology import QuorumKind, separate
from tests.kafka.conftest import combined

PLAN = separate(system="kafka", version="4.3.1", controllers=3, brokers=2)
ADDRESSES = {name: f"10.0.0.{number}" for number, name in enumerate(("c1", "c2", "c3", "b1", "b2"), 1)}


def of(name: str, topology: object = PLAN, addresses: dict[str, str] = ADDRESSES) -> dict[str, str]:
    return disk.parse(properties(topology.node(name), topology, addresses, data="/home/data"))  # type: ignore[attr-defined]


def test_a_broker_s_configuration() -> None:
    broker = of("b2")
    assert broker["process.roles"] == "broker"
    assert broker["node.id"] == "2"
    assert broker["listeners"] == broker["advertised.listeners"] == "PLAINTEXT://10.0.0.5:9092"
    assert broker["controller.quorum.voters"] == "101@10.0.0.1:9093,102@10.0.0.2:9093,103@10.0.0.3:9093"
    assert broker["log.dirs"] == "/home/data"
    assert broker["offsets.topic.replication.factor"] == "2"
    assert broker["unclean.leader.election.enable"] == "false"


def test_a_controller_advertises_nothing_because_it_would_not_start_before_3_9() -> None:
    controller = of("c2")
    assert controller["listeners"] == "CONTROLLER://10.0.0.2:9093"
    assert "advertised.listeners" not in controller
    assert controller["default.replication.factor"] == "2"


def test_a_combined_node_has_both_listeners() -> None:
    node = of("n1", combined("4.3.1", 1), {"n1": "10.0.0.9"})
    assert node["process.roles"] == "broker,controller"
    assert node["listeners"] == "PLAINTEXT://10.0.0.9:9092,CONTROLLER://10.0.0.9:9093"
    assert node["transaction.state.log.min.isr"] == "1"


def test_overrides_have_the_last_word_and_stay_on_one_line() -> None:
    odd = replace(PLAN.nodes[3], config={"broker.session.timeout.ms": "9000", "x": "a\\b\nnode.id=7"})
    text = properties(odd, PLAN, ADDRESSES, data="/d")
    assert "broker.session.timeout.ms=9000\n" in text
    assert text.endswith("x=a\\\\b\\nnode.id=7\n")
    assert disk.parse(text)["node.id"] == "1"


def test_every_default_has_its_reason_and_an_order_that_makes_sense() -> None:
    assert all(reason for _, reason in COMMON.values())
    value = {name: int(value) for name, (value, _) in COMMON.items() if value.isdigit()}
    assert (
        4 * value["broker.heartbeat.interval.ms"]
        <= value["broker.session.timeout.ms"]
        < value["replica.lag.time.max.ms"]
    )


def test_what_cannot_be_configured_is_named() -> None:
    with pytest.raises(SystemUnavailable, match="no address for node c3; there are b1, c1"):
        properties(PLAN.nodes[0], PLAN, {"c1": "1", "c2": "1", "b1": "1"} | {"c2": "2"}, data="/d")


def test_a_dynamic_quorum_is_found_by_addresses_and_its_voters_are_in_the_log() -> None:
    dynamic = replace(PLAN, quorum=QuorumKind.DYNAMIC)
    text = properties(dynamic.nodes[0], dynamic, ADDRESSES, data="/d")
    places = ",".join(f"{ADDRESSES[voter.name]}:9093" for voter in PLAN.controllers)
    assert f"controller.quorum.bootstrap.servers={places}\n" in text
    assert "controller.quorum.voters" not in text
    directories = {voter.id: f"d{voter.id}" for voter in PLAN.controllers}
    first = initial_controllers(dynamic, ADDRESSES, directories).split(",")[0]
    assert first == f"{PLAN.controllers[0].id}@{ADDRESSES[PLAN.controllers[0].name]}:9093:d{PLAN.controllers[0].id}"


def test_log_configuration_is_there_for_both_logging_generations() -> None:
    files = log_config.files("/n/log/server.log")
    assert "log4j.appender.FILE.File=/n/log/server.log" in files["log4j.properties"]
    assert "appender.file.fileName=/n/log/server.log" in files["log4j2.properties"]
    for text in files.values():
        assert "org.apache.kafka.server.partition.DefaultAlterPartitionManager" in text
    assert log_config.flag("3.9.2", "/n/etc") == "-Dlog4j.configuration=file:/n/etc/log4j.properties"
    assert log_config.flag("4.0.0", "/n/etc") == "-Dlog4j2.configurationFile=/n/etc/log4j2.properties"


def test_ids_of_cluster_and_disks_depend_on_what_they_name_and_on_nothing_else() -> None:
    cluster = disk.cluster_id(ADDRESSES)
    assert cluster == disk.cluster_id(dict(reversed(ADDRESSES.items())))
    assert cluster != disk.cluster_id({**ADDRESSES, "b1": "10.0.0.99"})
    first = disk.directory_id(cluster, 1)
    ids = {cluster, first, disk.directory_id(cluster, 2), disk.next_directory_id(first)}
    assert len(ids) == 4
    assert all(len(one) == 22 and not one.startswith("-") for one in ids)


def test_no_id_begins_with_a_dash() -> None:
    assert not any(disk.next_directory_id(str(number)).startswith("-") for number in range(2000))


def test_versions_and_paths() -> None:
    assert release("4.4.0-SNAPSHOT") == (4, 4, 0)
    assert [is_path(one) for one in ("4.3.1", "latest", "/opt/kafka", "./kafka", "~/kafka")] == [
        False,
        False,
        True,
        True,
        True,
    ]
    with pytest.raises(ValueError, match="'four' is not a Kafka version"):
        release("four")


@pytest.mark.parametrize(
    ("name", "level"), [("3.5-IV1", 10), ("3.5", 11), ("3.5.2", 11), ("3.9", 21), ("4.0", 25), ("4.3", 30)]
)
def test_levels_of_metadata_versions(name: str, level: int) -> None:
    assert metadata_level(name) == level


def test_levels_are_without_gaps_and_unknown_ones_are_named() -> None:
    assert list(METADATA_LEVELS.values()) == list(range(7, 7 + len(METADATA_LEVELS)))
    with pytest.raises(ValueError, match=r"unknown metadata.version '3\.2'; known: 3\.3-IV3, "):
        metadata_level("3.2")
