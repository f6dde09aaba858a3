"""A distribution that registers entry points is found like krash's own; two of one name, or a broken one, are complained about."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness import doctor
from harness.plugins import Group, PluginError, load, registered
from tests.plugins.distribution import TOY_POINTS, install


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on the path where distributions can be installed."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "krash_toy", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("group", "attribute"),
    [
        (Group.BACKENDS, "ToyBackend"),
        (Group.SYSTEMS, "ToySystem"),
        (Group.WORKLOADS, "ToyWorkload"),
        (Group.RACES, "toy_race"),
    ],
)
def test_a_plugin_is_found_and_loaded(site: Path, group: Group, attribute: str) -> None:
    assert "toy" not in registered(group)
    install(site, "krash-toy", TOY_POINTS)
    assert "toy" in registered(group)
    assert load(group, "toy").__name__ == attribute


def test_ours_stay_beside_it(site: Path) -> None:
    ours = set(registered(Group.BACKENDS))
    install(site, "krash-toy", TOY_POINTS)
    assert set(registered(Group.BACKENDS)) == ours | {"toy"}


def test_an_unknown_name_is_told_what_there_is(site: Path) -> None:
    install(site, "krash-toy", TOY_POINTS)
    with pytest.raises(PluginError, match=r"no 'tyo' among the workloads.*log.*toy"):
        load(Group.WORKLOADS, "tyo")


def test_two_of_one_name_are_refused_and_both_are_named(site: Path) -> None:
    install(site, "krash-toy", TOY_POINTS)
    install(site, "other-toy", {"krash.workloads": "toy = other:Workload"})
    with pytest.raises(PluginError) as refused:
        load(Group.WORKLOADS, "toy")
    assert all(name in str(refused.value) for name in ("'toy'", "krash-toy 1.0", "other-toy 1.0"))


def test_nobody_can_shadow_one_of_ours(site: Path) -> None:
    install(site, "evil", {"krash.systems": "kafka = krash_toy:ToySystem"})
    with pytest.raises(PluginError, match="kafka"):
        load(Group.SYSTEMS, "kafka")


def test_a_broken_one_says_what_is_wrong_and_breaks_nothing_else(site: Path) -> None:
    install(site, "krash-toy", {**TOY_POINTS, "krash.backends": "toy = krash_toy:NoSuchBackend"})
    with pytest.raises(PluginError, match="NoSuchBackend"):
        load(Group.BACKENDS, "toy")
    assert load(Group.SYSTEMS, "toy").default_version() == "1.0"


def test_the_doctor_asks_it_what_it_needs(site: Path) -> None:
    install(site, "krash-toy", TOY_POINTS)
    assert [row.name for row in doctor.missing_for("toy", "toy")] == ["toy box"]
