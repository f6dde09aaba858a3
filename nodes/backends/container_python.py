"""This machine's Python inside containers: mounted like its Java, so that a server can be the harness's own code whatever the image is.

    interpreter, standard library, packages      mounted read-only at their own paths
    C library, OpenSSL and others it links       their directories, mounted below /run/krash-libraries, where they replace nothing
    loader                                       taken from there too: it is told where the libraries are, and starts the interpreter

So neither the image's C library nor a Python in it matters: Debian's Python runs in an image of another release, and one that uv
manages in an image without any. Nothing is copied and nothing built; the container needs a kernel, and that is this machine's.

    python_of_this_machine().argv   ("/run/krash-libraries/0/ld-linux-x86-64.so.2", "--library-path", "/run/krash-libraries/0",
                                     "/usr/bin/python3.11", "-S")
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PACKAGES = Path(__file__).resolve().parents[2]  # where `harness` and `nodes` can be imported from
_LIBRARIES = "/run/krash-libraries"
_LIBRARY = re.compile(r"\.so(\.[0-9]+)*$")
_LOADER = re.compile(r"ld-(linux|musl)\b.*\.so(\.[0-9]+)*$|ld64\.so\.[0-9]+$")


@dataclass(frozen=True, kw_only=True)
class MountedPython:
    argv: tuple[str, ...]  # argv prefix of the interpreter
    env: Mapping[str, str]
    mounts: Mapping[str, Path]  # path in the container -> path of this machine


NO_PYTHON = MountedPython(argv=(), env={}, mounts={})


def python_of_this_machine() -> MountedPython:
    """The interpreter that runs this, with the packages that it finds."""
    program = Path(sys.executable).resolve()
    standard = _standard_library()
    packages = _package_directories(sys.path, standard)
    own = _outermost([program, *standard, *packages])
    loader, libraries = _system_libraries(_mapped(), own)
    targets = {directory: f"{_LIBRARIES}/{number}" for number, directory in enumerate(libraries)}
    start: tuple[str, ...] = ()
    if loader is not None:
        start = (f"{targets[loader.parent]}/{loader.name}", "--library-path", ":".join(targets.values()))
    return MountedPython(
        argv=(*start, str(program), "-S"),  # its path is complete
        env={
            "PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}",
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
        },
        mounts={**{str(path): path for path in own}, **{target: path for path, target in targets.items()}},
    )


def _standard_library() -> list[Path]:
    """Two directories where what is compiled has one of its own; never those of a virtual environment, which hold packages only."""
    pure = Path(sysconfig.get_path("stdlib")).resolve()
    compiled = Path(sys.base_exec_prefix, sys.platlibdir, pure.name).resolve()
    return [pure, compiled] if compiled.is_dir() else [pure]


def _package_directories(paths: Iterable[str], standard: Sequence[Path]) -> list[Path]:
    """Of the paths that modules are looked for in: those of packages. Not the current directory, which may be anything."""
    directories = [Path(path).resolve() for path in paths if path and path != os.getcwd()]
    known = {*standard, *(path / "lib-dynload" for path in standard)}
    others = [path for path in directories if path.is_dir() and path not in known]
    return list(dict.fromkeys([_PACKAGES, *others]))


def _system_libraries(mapped: Sequence[Path], own: Sequence[Path]) -> tuple[Path | None, list[Path]]:
    """The loader, and the directories of shared libraries that come with the system, not with the interpreter or a package."""
    libraries = [path for path in mapped if _LIBRARY.search(path.name) and not any(map(path.is_relative_to, own))]
    loader = next((path for path in libraries if _LOADER.match(path.name)), None)
    return loader, list(dict.fromkeys(path.parent for path in libraries))


def _mapped() -> list[Path]:
    """Files that are mapped into this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [Path(path) for path in dict.fromkeys(line[line.index("/") :] for line in lines if "/" in line)]


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Without what lies below another one of them."""
    unique = list(dict.fromkeys(paths))
    return [path for path in unique if not any(path != other and path.is_relative_to(other) for other in unique)]
