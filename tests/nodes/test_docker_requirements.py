"""What `krash doctor` says about the docker backend where something is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes.backend import Requirement
from nodes.backends import docker_image, docker_requirements, requirements
from nodes.backends.docker import DockerBackend
from nodes.node import NodeError


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def lines() -> dict[str, Requirement]:
    return {line.name: line for line in DockerBackend.probe()}


def test_an_engine_that_does_not_answer_is_named_with_its_socket(tmp_path: Path) -> None:
    line = lines()["Docker engine"]
    assert not line.present
    assert f"{tmp_path}/docker.sock" in line.found
    assert line.remedy


@pytest.mark.parametrize(
    ("programs", "systemd", "remedy"),
    [
        ((), False, "sudo apt-get install docker.io"),
        (("dockerd",), False, "sudo dockerd >/tmp/dockerd.log 2>&1 &"),
        (("dockerd",), True, "sudo systemctl start docker"),
    ],
)
def test_the_way_to_an_engine_depends_on_what_is_here(
    monkeypatch: pytest.MonkeyPatch, programs: tuple[str, ...], systemd: bool, remedy: str
) -> None:
    monkeypatch.setattr(docker_requirements.shutil, "which", lambda name, path: name if name in programs else None)
    monkeypatch.setattr(Path, "is_dir", lambda path: systemd)
    assert lines()["Docker engine"].remedy == remedy


def test_the_image_needs_a_builder_or_the_cache_or_a_name_in_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_image, "SEARCH_PATH", "/nowhere")
    line = lines()[docker_requirements.IMAGE]
    assert (line.present, line.remedy, line.replaced_by) == (False, "sudo apt-get install mmdebstrap", "image")
    with pytest.raises(NodeError, match="sudo apt-get install mmdebstrap, or name one"):
        docker_image.build_tar(print)
    docker_image.tar_path().parent.mkdir(parents=True)
    docker_image.tar_path().touch()
    assert lines()[docker_requirements.IMAGE].present


def test_an_ordinary_user_is_told_to_become_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (line,) = [line for name, line in lines().items() if name.startswith("root")]
    assert not line.present
    assert line.remedy.startswith("sudo ./krash run --backend docker")


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "SEARCH_PATH", "/nowhere")
    assert lines()["iptables-save"].remedy == "sudo apt-get install iptables"
