"""What the docker backend needs from this machine, found out by asking its engine: see `krash doctor`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from nodes.backend import Requirement
from nodes.backends import docker_engine, docker_image
from nodes.backends.requirements import SEARCH_PATH, program
from nodes.node import NodeError

IMAGE = "image for nodes"


def probe() -> list[Requirement]:
    return [
        _root(),
        program("iptables-save", package="iptables", version=("-V",)),
        program("iptables-restore", package="iptables", version=("-V",)),
        program("ss", package="iproute2", version=("-V",)),
        *_engine_and_image(),
    ]


def _root() -> Requirement:
    name = "root, to enter the namespaces of containers"
    if os.geteuid() == 0:
        return Requirement(name=name, present=True, found="root", remedy="")
    return Requirement(
        name=name,
        present=False,
        found=f"user {os.geteuid()}",
        remedy="sudo ./krash run --backend docker  # or --backend local",
    )


def _engine_and_image() -> list[Requirement]:
    from docker.errors import APIError, ImageNotFound

    try:
        with docker_engine.connected() as engine:
            version = engine.version()["Version"]
            found = f"{version} at {docker_engine.address()}"
            there = Requirement(name="Docker engine", present=True, found=found, remedy="")
            try:
                engine.images.get(docker_image.tag())
            except (ImageNotFound, APIError):
                return [there, _image_can_be_made()]
            return [there, Requirement(name=IMAGE, present=True, found=docker_image.tag(), remedy="")]
    except NodeError as error:
        reason = str(error).partition(";")[0]
        return [
            Requirement(name="Docker engine", present=False, found=reason, remedy=_start_engine()),
            _image_can_be_made(),
        ]


def _start_engine() -> str:
    if not shutil.which("dockerd", path=SEARCH_PATH):
        return "sudo apt-get install docker.io"
    if Path("/run/systemd/system").is_dir():
        return "sudo systemctl start docker"
    return "sudo dockerd >/tmp/dockerd.log 2>&1 &"


def _image_can_be_made() -> Requirement:
    if docker_image.tar_path().is_file():
        found = f"in the cache: {docker_image.tar_path()}"
        return Requirement(name=IMAGE, present=True, found=found, remedy="")
    program = docker_image.builder()
    return Requirement(
        name=IMAGE,
        present=program is not None,
        found=f"will be built by {program}" if program else "not built, and no mmdebstrap to build it with",
        remedy="" if program else docker_image.INSTALL,
        replaced_by="image",
    )
