"""`krash doctor` over pretended plug-ins: what it says follows from what they say they need."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness import doctor, machine
from harness.doctor import Kind, Section
from nodes.backend import Requirement
from tests.plugins.distribution import install

PLUGINS = """
from nodes.backend import Capability, Requirement

class Able:
    capabilities = frozenset({Capability.CUT, Capability.FILES})
    probe = classmethod(lambda cls: [Requirement(name="ip", present=True, found="6.1", remedy="")])

class Unable:
    capabilities = frozenset(Capability)
    probe = classmethod(
        lambda cls: [Requirement(name="Docker engine", present=False, found="no socket", remedy="sudo apt-get install docker.io")]
    )

class Cut: needs = frozenset({Capability.CUT})
class Pause: needs = frozenset({Capability.PAUSE})
"""


@pytest.fixture
def machine_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Requirement(name="Java 17 or newer", present=True, found="17.0.15", remedy="")
    monkeypatch.setattr(machine, "needed", lambda: [there])
    monkeypatch.setattr(machine, "advised", list)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine_with_all: None) -> Callable[..., None]:
    """Pretends that these are all the plug-ins: group -> {name: class of PLUGINS}."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def pretend(**groups: dict[str, str]) -> None:
        for number, (group, points) in enumerate(groups.items()):
            for name, attribute in points.items():
                install(tmp_path, f"pretended-{number}-{name}", {f"krash.{group}": f"{name} = pretended:{attribute}"})
        (tmp_path / "pretended.py").write_text(PLUGINS)
        ours = doctor.registered
        monkeypatch.setattr(
            doctor,
            "registered",
            lambda group: {n: p for n, p in ours(group).items() if p.value.startswith("pretended")},
        )

    return pretend


def test_a_backend_that_lacks_something_will_not_work_and_the_command_is_named(plugins: Callable[..., None]) -> None:
    plugins(backends={"able": "Able", "unable": "Unable"}, systems={"some": "Able"})
    sections = doctor.gather()
    assert {s.name: s.works for s in sections if s.kind == Kind.BACKEND} == {"able": True, "unable": False}
    assert doctor.can_run(sections)
    assert doctor.summary(sections) == [
        "krash run --system some: will work here",
        "krash run --backend able: will work here",
        "krash run --backend unable: will not work here; missing: Docker engine",
    ]
    (missing,) = doctor.missing_for("unable", "some")
    assert missing.remedy.endswith("apt-get install docker.io")


def test_root_is_not_told_to_use_sudo(plugins: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    plugins(backends={"unable": "Unable"}, systems={"some": "Able"})
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert [row.remedy for row in doctor.missing_for("unable", "some")] == ["apt-get install docker.io"]
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert [row.remedy for row in doctor.missing_for("unable", "some")] == ["sudo apt-get install docker.io"]


def test_without_a_working_backend_nothing_can_run(plugins: Callable[..., None]) -> None:
    plugins(backends={"unable": "Unable"}, systems={"some": "Able"})
    assert not doctor.can_run(doctor.gather())


def test_what_the_machine_lacks_stops_every_run(plugins: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    plugins(backends={"able": "Able"}, systems={"some": "Able"})
    java = Requirement(name="Java", present=False, found="none", remedy="apt-get install java")
    monkeypatch.setattr(machine, "needed", lambda: [java])
    sections = doctor.gather()
    assert not doctor.can_run(sections)
    assert all(line.endswith("missing: Java") for line in doctor.summary(sections))
    assert doctor.missing_for("able", "some") == [java]


def test_a_fault_works_where_a_working_backend_can_do_it(plugins: Callable[..., None]) -> None:
    plugins(
        backends={"able": "Able", "unable": "Unable"},
        systems={"some": "Able"},
        nemeses={"cut": "Cut", "freeze": "Pause"},
    )
    (faults,) = [section for section in doctor.gather() if section.kind == Kind.FAULTS]
    assert {row.name: row.present for row in faults.rows} == {"cut": True, "freeze": False}
    assert [row.found for row in faults.rows] == [
        "needs cut; works on able",
        "needs pause; no working backend can do it",
    ]


def test_a_plugin_that_cannot_be_imported_has_a_line_that_says_so(plugins: Callable[..., None]) -> None:
    plugins(backends={"able": "Able", "broken": "NoSuchClass"}, systems={"some": "Able"})
    sections = doctor.gather()
    (broken,) = [section for section in sections if section.name == "broken"]
    assert "NoSuchClass" in broken.rows[0].found
    assert broken.rows[0].remedy
    assert doctor.can_run(sections)


def test_two_plugins_of_one_name_have_a_line_that_says_so(plugins: Callable[..., None], tmp_path: Path) -> None:
    plugins(backends={"able": "Able"}, systems={"some": "Able"})
    install(tmp_path, "second", {"krash.backends": "able = pretended:Unable"})
    (section,) = [section for section in doctor.gather() if section.kind == Kind.BACKEND]
    assert "two plug-ins" in section.rows[0].found


def test_the_table_shows_every_row_and_the_json_says_the_same(
    plugins: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    plugins(backends={"unable": "Unable"}, systems={"some": "Able"})
    paper = io.StringIO()
    Console(width=200, file=paper).print(doctor.render(doctor.gather()))
    shown = paper.getvalue()
    assert doctor.show(as_json=True) == 3
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["can_run"]) == (1, False)
    rows = [row for section in told["sections"] for row in section["rows"]]
    assert all(row["name"] in shown and row["found"] in shown and row["remedy"] in shown for row in rows)


def test_a_section_without_rows_stops_nothing() -> None:
    assert Section(kind=Kind.FAULTS, name="", rows=()).works


def test_a_control_groups_limit_counts_as_the_machines_memory(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       24000000 kB\nMemAvailable:   20971520 kB\n")
    assert machine.memory(meminfo, tmp_path / "none").found == "20.0 GiB available"
    (tmp_path / "memory.max").write_text(f"{3 << 30}\n")
    (tmp_path / "memory.current").write_text(f"{2 << 30}\n")
    limited = machine.memory(meminfo, tmp_path)
    assert (limited.present, limited.found) == (False, "1.0 GiB available")
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.memory(meminfo, tmp_path).present
