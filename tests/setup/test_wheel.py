"""The wheel: the five packages with their data files, no tests, every way in."""

from __future__ import annotations

import configparser
import subprocess
import sys
import tomllib
import zipfile

import pytest

from tests.setup.checkout import ROOT, copy_checkout

PACKAGES = {"harness", "workloads", "nemesis", "nodes", "reports"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    source = copy_checkout(tmp_path_factory.mktemp("source"))
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=60)
    (path,) = target.glob("*.whl")
    return zipfile.Path(path)


def names(wheel: zipfile.Path) -> set[str]:
    return {name for name in wheel.root.namelist() if ".dist-info/" not in name and not name.endswith("/")}


def metadata(wheel: zipfile.Path, name: str) -> str:
    (path,) = [path for path in wheel.root.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.root.read(path).decode()


def test_it_holds_the_five_packages_and_nothing_else(wheel: zipfile.Path) -> None:
    assert {name.partition("/")[0] for name in names(wheel)} == PACKAGES


def test_every_file_of_the_packages_is_in_it(wheel: zipfile.Path) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *sorted(PACKAGES)]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    here = {name for name in listed if (ROOT / name).is_file()}
    assert names(wheel) == here - {"harness/set-up.sh"}


def test_it_registers_what_pyproject_says(wheel: zipfile.Path) -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    registered = configparser.ConfigParser(delimiters=("=",))
    registered.read_string(metadata(wheel, "entry_points.txt"))
    groups = {"console_scripts": told["scripts"], **told["entry-points"]}
    assert {name: dict(registered[name]) for name in registered.sections()} == {
        name: points for name, points in groups.items() if points
    }


def test_it_carries_the_licence(wheel: zipfile.Path) -> None:
    assert "Apache License" in metadata(wheel, "licenses/LICENSE")
    assert "License-Expression: Apache-2.0" in metadata(wheel, "METADATA")
