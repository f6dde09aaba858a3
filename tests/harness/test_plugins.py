"""Plug-ins: anybody's package, found by its metadata, named clearly when it is not there or there twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.plugins import Group, PluginError, load, registered
from tests.harness.conftest import make_plugin


@pytest.fixture(autouse=True)
def on_the_path(plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(plugins)
    monkeypatch.delitem(sys.modules, "toy_workload", raising=False)


def test_a_toy_plugin_is_found_and_loaded() -> None:
    assert "toy" in registered(Group.WORKLOADS)
    assert load(Group.WORKLOADS, "toy").name == "toy"


def test_an_unknown_name_is_answered_with_what_there_is() -> None:
    with pytest.raises(PluginError, match=r"no 'tyo' among the workloads \(krash\.workloads\); registered: .*toy"):
        load(Group.WORKLOADS, "tyo")


def test_two_plugins_of_one_name_are_an_error(plugins: Path) -> None:
    make_plugin(plugins, "rival", "[krash.workloads]\ntoy = rival:Toy\n")
    with pytest.raises(
        PluginError, match=r"two plug-ins named 'toy': rival:Toy of rival 1\.0 and toy_workload:Toy of toy"
    ):
        load(Group.WORKLOADS, "toy")


def test_a_plugin_that_cannot_be_imported_says_why(plugins: Path) -> None:
    make_plugin(plugins, "broken", "[krash.systems]\nbroken = no_such_module:System\n")
    with pytest.raises(PluginError, match=r"krash\.systems 'broken' .* cannot be imported: ModuleNotFoundError"):
        load(Group.SYSTEMS, "broken")
    assert "toy" in registered(Group.WORKLOADS)
