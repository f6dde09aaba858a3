"""The image that nodes run in, made once from what the host has. No registry is asked.

    mmdebstrap (minbase of the host's own release and
                mirrors + iproute2 iptables procps)         ->  $XDG_CACHE_HOME/krash/docker/<recipe>.tar
                                                            ->  docker import  ->  krash-node:<recipe>

<recipe> is a hash of everything the image depends on, so a changed recipe makes a new image. The tar stays in the
cache, so that another engine (a fresh one in CI) needs seconds instead of the whole way.

Java is not in the image: the host's own runtime is mounted read-only at the same path (`java_of_this_machine`). So nodes run
what `krash doctor` shows, and class data archives, which fit one runtime at one path only, are valid in containers too.

Instead, a spec may name any image that has a shell, coreutils and Java on its PATH (`image: eclipse-temurin:17-jre`);
it is pulled when the engine does not have it, and nothing of the host's Java is mounted then. Nodes of the reference cluster need
neither: their Python is always this machine's (`container_python.py`).
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.backends.requirements import SEARCH_PATH
from nodes.node import NodeError

if TYPE_CHECKING:
    from docker import DockerClient

REPOSITORY = "krash-node"
INSTALL = "sudo apt-get install mmdebstrap"
_SOURCES = ("sources.list.d/debian.sources", "sources.list.d/ubuntu.sources", "sources.list")
_PACKAGES = ("iproute2", "iptables", "procps")
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")
_BUILD_SECONDS = 900

Progress = Callable[[str], None]


def tag() -> str:
    """Name of the image of this recipe: "krash-node:bookworm-0d3c..."."""
    recipe = "\n".join([_suite(), platform.machine(), *_PACKAGES, *_LEFT_OUT])
    return f"{REPOSITORY}:{_suite()}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def _suite() -> str:
    """The release of this machine, whose C library its Java needs."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME") or "stable"
    except OSError:
        return "stable"


def _mirrors() -> list[str]:
    """The machine's own package sources, where they are where Debian puts them."""
    sources = [Path("/etc/apt") / name for name in _SOURCES]
    return [str(path) for path in sources if path.is_file() and "deb" in path.read_text(errors="replace")][:1]


def tar_path() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    cache = (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "krash" / "docker"
    return cache / f"{tag().partition(':')[2]}.tar"


def builder() -> str | None:
    """Path of mmdebstrap, if it is here."""
    return shutil.which("mmdebstrap", path=SEARCH_PATH)


def build_tar(progress: Progress) -> Path:
    """The root file system as a tar; at once when the cache has it. NodeError says what mmdebstrap said."""
    done = tar_path()
    if done.is_file():
        return done
    program = builder()
    if program is None:
        raise NodeError(
            f"cannot build the image for nodes: {INSTALL}, or name one that has Java in the spec (image: ...)"
        )
    progress(f"building the image {tag()} with mmdebstrap (once, about half a minute)")
    done.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=done.parent) as folder:
        made = Path(folder) / "root.tar"
        excludes = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
        argv = [
            program,
            "--variant=minbase",
            f"--include={','.join(_PACKAGES)}",
            *excludes,
            _suite(),
            str(made),
            *_mirrors(),
        ]
        try:
            said = subprocess.run(argv, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise NodeError(
                f"mmdebstrap did not end within {_BUILD_SECONDS} s: is a Debian mirror reachable?"
            ) from None
        if said.returncode != 0:
            raise NodeError(f"mmdebstrap failed with code {said.returncode}:\n{said.stderr.strip()[-2000:]}")
        made.rename(done)
    return done


def provide(engine: DockerClient, image: str | None, progress: Progress) -> str:
    """Make an image available to the engine: krash's own, or the named one. Returns its name."""
    from docker.errors import APIError, ImageNotFound

    name = image or tag()
    try:
        engine.images.get(name)
        return name
    except ImageNotFound:
        pass
    try:
        if image is not None:
            progress(f"pulling the image {image}")
            engine.images.pull(image)  # the tag "latest" unless it names one
            return image
        tar = build_tar(progress)
        progress(f"importing the image {name}")
        repository, _, version = name.partition(":")
        engine.api.import_image_from_file(str(tar), repository=repository, tag=version)
    except APIError as error:
        raise NodeError(f"the Docker engine has no image {name} and cannot get it: {error.explanation}") from error
    return name


def java_of_this_machine() -> list[Path]:
    """Directories a container needs to run this machine's Java: the runtime's own, and, as Debian links a runtime's
    configuration from /etc, those there. Empty without Java."""
    home_variable = os.environ.get("JAVA_HOME")
    found = str(Path(home_variable) / "bin" / "java") if home_variable else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        return []
    java = Path(found).resolve()
    home = java.parents[1]
    links = (
        home / folder / name for part in ("conf", "lib") for folder, _, files in os.walk(home / part) for name in files
    )
    targets = {link.resolve().parent for link in links if link.is_symlink()}
    outside = sorted(path for path in targets if path.is_relative_to("/etc") and len(path.parts) > 2 and path.is_dir())
    tops = [path for path in outside if not any(path != other and path.is_relative_to(other) for other in outside)]
    return [home, *tops]
