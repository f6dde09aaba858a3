"""This machine's Python for containers: what is mounted where. That it runs there is a contract of the backends, and a run's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from nodes.backends.container_python import (
    _mapped,
    _outermost,
    _package_directories,
    _system_libraries,
    python_of_this_machine,
)


def test_the_loader_starts_the_interpreter_with_its_packages_and_nothing_else() -> None:
    """With the libraries where they are on this machine: only containers have them elsewhere."""
    python = python_of_this_machine()

    def here(argument: str) -> str:
        for target, path in sorted(python.mounts.items(), reverse=True):
            argument = argument.replace(target, str(path))
        return argument

    script = "import google_crc32c, ssl, sys; from nodes.node import Node; print(sys.prefix, *sys.path, sep='\\n')"
    argv = [*map(here, python.argv), "-c", script]
    done = subprocess.run(argv, env=python.env, capture_output=True, text=True, check=True, cwd="/")
    prefix, *paths = done.stdout.splitlines()
    assert prefix == sys.base_prefix
    mounted = [path for path in map(Path, paths) if path.is_dir() and path != Path(".")]
    assert mounted
    assert all(any(path.is_relative_to(mount) for mount in python.mounts.values()) for path in mounted)


def test_system_libraries_are_mounted_where_they_replace_nothing() -> None:
    mounts = python_of_this_machine().mounts
    elsewhere = {target: path for target, path in mounts.items() if target != str(path)}
    assert elsewhere
    assert all(target.startswith("/run/krash-libraries/") for target in elsewhere)
    assert {path.parent for path in _mapped() if path.name.startswith("libc.so")} <= set(elsewhere.values())


def test_libraries_of_packages_and_of_the_interpreter_are_not_the_systems() -> None:
    found = _system_libraries(
        [
            Path("/usr/lib/libc.so.6"),
            Path("/usr/lib/ld-linux-x86-64.so.2"),
            Path("/opt/python/lib/libpython3.13.so.1.0"),
            Path("/venv/uvloop/loop.cpython-311-x86_64-linux-gnu.so"),
            Path("/usr/lib/locale/C.utf8/LC_CTYPE"),
        ],
        [Path("/venv")],
    )
    assert found == (Path("/usr/lib/ld-linux-x86-64.so.2"), [Path("/usr/lib"), Path("/opt/python/lib")])


def test_a_static_interpreter_needs_no_loader() -> None:
    assert _system_libraries([Path("/opt/python/bin/python3.13")], []) == (None, [])


def test_neither_the_current_directory_nor_the_standard_library_holds_packages(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    standard = Path(os.__file__).parent
    looked = ["", os.getcwd(), str(standard), f"{standard}/lib-dynload", str(packages), str(tmp_path / "absent")]
    assert _package_directories(looked, [standard])[1:] == [packages]


def test_what_lies_below_another_mount_is_not_mounted_twice() -> None:
    assert _outermost([Path("/a/b"), Path("/a"), Path("/ab"), Path("/a")]) == [Path("/a"), Path("/ab")]
