"""Where the jars of a release are, and how they get there.

    $XDG_CACHE_HOME/krash/kafka/        mounted into every node as "kafka"
      4.3.1/libs/*.jar                  complete or absent: made beside and renamed
      4.3.1/archives/<java>.jsa         class data archive per Java runtime (nodes/kafka/archive.py)
      4.3.1/formats/<name>/...          what formatting a controller's disk writes, per metadata.version
      unpacked-<hash>/{archives,formats} the same for a distribution that somebody else unpacked

The class path is a list of sorted *relative* jar names and the server is started inside the distribution's directory: the JVM accepts a
class data archive only when the class path string is the same as when it was made, and a container sees other absolute paths.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nodes.kafka import maven
from nodes.kafka.version import KNOWN, LATEST, is_path, release
from nodes.system import SystemUnavailable


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "krash" / "kafka"


@dataclass(frozen=True, kw_only=True)
class Distribution:
    version: str  # "4.3.1", read from the jars' names
    home: Path  # holds libs/
    derived: Path  # holds archives/ and formats/

    @property
    def unpacked(self) -> bool:
        return self.home != self.derived

    def class_path(self) -> str:
        return ":".join(f"libs/{jar.name}" for jar in sorted((self.home / "libs").glob("*.jar")))


def known_versions() -> dict[str, str]:
    """Releases tested here, oldest first, each with a word about it."""
    return dict(KNOWN)


def cached_versions() -> list[str]:
    """Releases that are on this machine, oldest first."""
    root = cache_root()
    found = [path.parent.name for path in root.glob("[0-9]*.[0-9]*/libs")]
    return sorted(found, key=release)


def locate(version: str) -> Distribution:
    """The distribution behind a version or path; SystemUnavailable when it is not on this machine."""
    if is_path(version):
        return _unpacked(Path(version).expanduser().resolve())
    version = LATEST if version == "latest" else version
    try:
        release(version)
    except ValueError as error:
        raise SystemUnavailable(f"{error}; known: {', '.join(KNOWN)}") from None
    home = cache_root() / version
    if not (home / "libs").is_dir():
        raise SystemUnavailable(f"Apache Kafka {version} is not on this machine: run `krash kafka fetch {version}`")
    return Distribution(version=version, home=home, derived=home)


def fetch_jars(version: str, *, progress: Callable[[str], None]) -> Distribution:
    """Make a version's jars available; at once when they are. SystemUnavailable names what is missing."""
    try:
        return locate(version)
    except SystemUnavailable:
        if is_path(version):
            raise
    version = LATEST if version == "latest" else version
    with exclusive(version, progress=progress):
        home = cache_root() / version
        if not (home / "libs").is_dir():
            release(version)
            _fetch(version, home, progress)
    return locate(version)


def _fetch(version: str, home: Path, progress: Callable[[str], None]) -> None:
    aside = Path(tempfile.mkdtemp(prefix=f".{version}-", dir=home.parent))
    try:
        maven.copy_jars(version, aside, progress=progress)
        shutil.rmtree(home, ignore_errors=True)
        aside.chmod(0o755)
        aside.rename(home)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _unpacked(home: Path) -> Distribution:
    jars = sorted((home / "libs").glob("kafka_2.*.jar"))
    servers = [jar.stem.split("-", 1)[1] for jar in jars if not jar.stem.endswith(("sources", "javadoc", "test"))]
    if not servers:
        raise SystemUnavailable(f"{home} is not an unpacked Kafka distribution: it has no libs/kafka_2.*.jar")
    described = [
        f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in sorted((home / "libs").glob("*.jar"))
    ]
    digest = hashlib.sha256("\n".join([str(home), *described]).encode()).hexdigest()[:16]
    return Distribution(version=servers[0], home=home, derived=cache_root() / f"unpacked-{digest}")


@contextmanager
def exclusive(name: str, *, progress: Callable[[str], None]) -> Iterator[None]:
    """One krash at a time works on this part of the cache; the lock goes with its holder."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with (root / f".{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"another krash is fetching Kafka {name}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
