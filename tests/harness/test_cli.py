"""The command line as a user meets it: help, bad input and its exit codes, and what must not be imported for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.reference.protections import Protection
from tests.harness.krash import krash


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("run", "missing.yaml"), 64, "cannot be read"),
        (("run", "--system", "quantum"), 64, "quantum"),
        (("run", "--nemesis", "earthquake"), 64, "earthquake"),
        (("run", "--set", "brokers=none"), 64, "brokers"),
        (("run", "--no-such-flag"), 64, "no-such-flag"),
        (("check", "nowhere"), 3, "nowhere"),
        (("recover", "nowhere"), 3, "nowhere"),
        (("export", "nowhere"), 3, "nowhere"),
        (("export", "nowhere", "--format", "xml"), 64, "jepsen-edn, jsonl"),
        (("heal",), 64, "--all"),
    ],
)
def test_bad_input_is_told_with_its_exit_code(arguments: tuple[str, ...], code: int, says: str) -> None:
    ran = krash(*arguments)
    assert ran.code == code
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "up",
        "check",
        "report",
        "recover",
        "export",
        "runs",
        "wire",
        "node",
        "doctor",
        "heal",
        "kafka versions",
        "kafka fetch",
        "spec schema",
        "spec show",
        "protections",
        "race run",
        "race compare",
        "track-record",
    ],
)
def test_every_command_has_help_with_an_example(command: str) -> None:
    ran = krash(*command.split(), "--help")
    assert ran.code == 0
    assert "Example:" in ran.stdout


def test_protections_are_listed_with_what_goes_wrong_without_them() -> None:
    told = krash("protections", "--json").answers
    assert {one["name"] for one in told} == {one.value for one in Protection}
    assert all(one["source"] and one["without"] for one in told)
    assert "two leaders in one epoch" in krash("protections").stdout


def test_names_may_be_given_together_or_one_by_one(tmp_path: Path) -> None:
    only = ("--only", "two-controllers", "--only", "undemoted-leader,recreated-topic")
    ran = krash("track-record", *only, "--times", "0", "--runs", tmp_path, "--out", tmp_path, cwd=tmp_path)
    assert ran.code == 0, ran.stderr
    told = (tmp_path / "track-record.json").read_text()
    counted = sum(
        told.count(f'"race": "{name}"') for name in ("two-controllers", "undemoted-leader", "recreated-topic")
    )
    assert f"{counted} cells" in ran.stdout


def test_help_imports_nothing_heavy() -> None:
    heavy = "{'pyspark', 'pandas', 'matplotlib', 'numba', 'docker', 'fabric', 'pyarrow', 'pydantic', 'confluent_kafka', 'kio'}"
    script = f"import sys, harness.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_the_schema_describes_the_workloads_settings_too() -> None:
    schema = json.loads(krash("spec", "schema").stdout)
    assert "producers" in schema["$defs"]["WorkloadSection"]["properties"]
    assert schema["properties"]["nemesis"]


def test_a_shown_spec_is_whole_and_reads_back(tmp_path: object) -> None:
    ran = krash("spec", "show", "examples/chaos.yaml", "--set", "seed=7")
    assert ran.code == 0
    assert "seed: 7" in ran.stdout
    assert "delivery_timeout_ms" in ran.stdout
