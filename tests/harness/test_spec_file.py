"""Specs: defaults, overrides, and errors that name file, line, column, value and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from harness.errors import UsageError
from harness.run import prepare
from harness.spec import Spec
from harness.spec_docs import with_current_table
from harness.spec_file import SpecError, load_spec, parse_setting
from harness.spec_show import as_yaml, settings_table
from nodes.topology import QuorumKind, ServerRole


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    return path


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_spec(written(tmp_path, text))
    return [str(mistake).removeprefix(f"{tmp_path}/") for mistake in caught.value.mistakes]


def test_an_empty_file_is_a_whole_spec(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, ""))
    assert (spec.brokers, spec.controllers, spec.time_limit) == (3, 1, 60)
    assert spec.topology("1").topics[0].replication == 3
    assert (spec.system_name, spec.system_version) == ("reference", None)


def test_all_defaults_are_filled_in_and_read_back_the_same(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path, "time_limit: 1.5m\nworkload: {clients: 3}\n"))
    assert "producers" in spec.workload.settings
    assert load_spec(written(tmp_path, as_yaml(spec))) == spec


def test_a_wrong_value_is_named_with_its_place(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "brokers: 3\ntopics:\n  - name: log\n    partitions: none\n") == [
        "spec.yaml:4:5: topics.0.partitions: Input should be a valid integer, unable to parse string as an integer (got 'none')"
    ]


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "brokers: 0\nbroker: 3\ntime_limit: soon\n")
    assert [line.split(": ")[0] for line in found] == ["spec.yaml:1:1", "spec.yaml:3:1", "spec.yaml:2:1"]
    assert "expected a duration such as 60s" in found[1]
    assert "unknown setting" in found[2]


def test_a_mistake_of_the_workloads_own_settings_has_its_place_too(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, "workload:\n  name: log\n  producers: many\n")
    assert found.startswith("spec.yaml:3:3: workload.producers:")


def test_an_unknown_workload_lists_those_there_are(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, "workload: {name: quantum}\n")
    assert "log" in found
    assert "'quantum'" in found or "quantum" in found


@pytest.mark.parametrize("text", ["brokers: [", "a: b: c", "- 1", "\tx: 1", "&a *a"])
def test_what_is_no_yaml_mapping_is_an_error_not_a_crash(tmp_path: Path, text: str) -> None:
    assert mistakes(tmp_path, text)


def test_what_is_not_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError):
        load_spec(path)
    with pytest.raises(SpecError, match="cannot be read"):
        load_spec(tmp_path / "missing.yaml")


def test_settings_override_the_file_and_may_reach_into_lists(tmp_path: Path) -> None:
    path = written(tmp_path, "topics: [{name: log, partitions: 4}]\nseed: 1\n")
    settings = dict(
        parse_setting(text) for text in ("topics.0.partitions=8", "config.brokers.log.retention.ms=5", "seed=7")
    )
    with pytest.raises(SpecError):
        load_spec(path, settings=settings)  # a dot in a Kafka name is a step: quote it as a mapping instead
    settings = dict(
        parse_setting(text) for text in ("topics.0.partitions=8", "config.brokers={log.retention.ms: 5}", "seed=7")
    )
    spec = load_spec(path, settings=settings)
    assert spec.topics[0].partitions == 8
    assert spec.config.brokers == {"log.retention.ms": "5"}
    assert spec.seed == 7


@pytest.mark.parametrize("text", ["seed", "=3", "seed=[1"])
def test_a_setting_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(SpecError, match="--set"):
        parse_setting(text)


def test_the_more_specific_configuration_wins() -> None:
    spec = Spec.model_validate(
        {"config": {"all": {"a": 1, "b": 1, "c": True}, "brokers": {"b": 2}, "nodes": {"b2": {"b": 3}}}}
    )
    by_name = {node.name: node.config for node in spec.topology("4.3.1").nodes}
    assert by_name == {
        "c1": {"a": "1", "b": "1", "c": "true"},
        "b1": {"a": "1", "b": "2", "c": "true"},
        "b2": {"a": "1", "b": "3", "c": "true"},
        "b3": {"a": "1", "b": "2", "c": "true"},
    }


def test_combined_nodes_share_one_name_and_id() -> None:
    topology = Spec(combined=True, brokers=3, controllers=1).topology("4.3.1")
    assert [(node.name, node.id) for node in topology.nodes] == [("n1", 1), ("n2", 2), ("n3", 3)]
    assert [ServerRole.CONTROLLER in node.roles for node in topology.nodes] == [True, False, False]


def test_versions_can_differ_by_node() -> None:
    topology = Spec(system="kafka:3.4.1", versions={"b3": "3.9.2"}).topology("4.3.1")
    assert [node.version for node in topology.nodes] == ["3.4.1", "3.4.1", "3.4.1", "3.9.2"]


def test_how_the_cluster_begins_is_the_topology_s() -> None:
    spec = Spec.model_validate({"quorum": "dynamic", "features": {"transaction.version": 1}, "debug": ["kafka.log"]})
    topology = spec.topology("4.3.1")
    assert (topology.quorum, topology.features, topology.debug) == (
        QuorumKind.DYNAMIC,
        {"transaction.version": 1},
        ("kafka.log",),
    )


def test_a_release_that_is_too_old_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    spec = Spec.model_validate({"system": "kafka:3.4.1", "quorum": "dynamic"})
    with pytest.raises(UsageError, match=r"c1 runs Kafka 3\.4\.1, but a dynamic quorum"):
        prepare(spec, Console(quiet=True), out=tmp_path, quiet=True, replayed=None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"versions": {"b9": "3.4.1"}}, "b9"),
        ({"brokers": 1, "topics": [{"name": "t", "replication": 2}]}, "2 replicas"),
        ({"topics": [{"name": "t", "assignment": {0: [1, 4]}}]}, "broker ids"),
        ({"topics": [{"name": "t", "assignment": {1: [1]}}]}, "without a gap"),
        ({"topics": [{"name": "t"}, {"name": "t"}]}, "same name"),
        ({"combined": True, "brokers": 1, "controllers": 3}, "do not fit"),
    ],
)
def test_what_cannot_be_deployed_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spec.model_validate(settings)


def test_every_setting_has_a_description() -> None:
    rows = list(settings_table())[2:]
    assert rows
    assert [row for row in rows if row.endswith("|  |")] == []


@pytest.mark.parametrize("path", sorted(Path("examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_a_valid_spec(path: Path) -> None:
    load_spec(path)


def test_the_page_about_specs_has_the_current_settings() -> None:
    text = Path("docs/spec.md").read_text(encoding="utf-8")
    assert with_current_table(text) == text, "run: python -m harness.spec_docs docs/spec.md"
