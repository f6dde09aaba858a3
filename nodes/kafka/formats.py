"""What `kafka-storage format` writes on a controller's disk besides meta.properties, cached per release and format.

It sets the metadata.version and other features with which a cluster begins: `bootstrap.checkpoint` (3.3 - 4.3) or the first snapshot of
the metadata log (4.4); nothing at all before 3.3. It depends on neither cluster nor node id, so one JVM start per release and format is
enough for ever. With the first voters of a dynamic quorum (KIP-853) there is a first snapshot in every release: it names them by id,
address and directory id, the same on each controller.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nodes.kafka.disk import META
from nodes.kafka.distribution import Distribution
from nodes.kafka.java import find_java
from nodes.kafka.version import FIRST_METADATA_VERSION, release
from nodes.system import SystemUnavailable

DEFAULT: Final = "default"
CLUSTER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"  # of the scratch disk
_PROPERTIES: Final = """process.roles=controller
node.id={node}
{quorum}
listeners=CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs={data}
"""
_STATIC: Final = "controller.quorum.voters=1@127.0.0.1:9093"
_DYNAMIC: Final = "controller.quorum.bootstrap.servers=127.0.0.1:9093"


@dataclass(frozen=True, kw_only=True)
class Format:
    """How a cluster begins."""

    metadata_version: str | None = None  # as `--release-version` takes it; None: the release's default
    features: Mapping[str, int] = field(default_factory=dict)  # feature -> level, e.g. {"transaction.version": 1}
    voters: str | None = (
        None  # as `--initial-controllers` takes it: "101@10.0.0.1:9093:6Gy8...,..."; None: a static quorum
    )

    @property
    def name(self) -> str:
        """Of its place in the cache. SystemUnavailable names what cannot be one."""
        version = self.metadata_version or DEFAULT
        if not re.fullmatch(r"[A-Za-z0-9.\-]{1,32}", version):
            raise SystemUnavailable(f"{version!r} is not a metadata.version; expected for example 3.4 or 3.5-IV1")
        for feature in self.features:
            if not re.fullmatch(r"[a-z][a-z.]{0,60}", feature):
                raise SystemUnavailable(f"{feature!r} is not a feature; expected for example transaction.version")
        levels = [f"{feature}={level}" for feature, level in sorted(self.features.items())]
        voters = [f"voters-{hashlib.sha256(self.voters.encode()).hexdigest()[:16]}"] if self.voters else []
        return "+".join([version, *levels, *voters])

    @property
    def arguments(self) -> list[str]:
        version = ["--release-version", self.metadata_version] if self.metadata_version else []
        features = [word for feature, level in self.features.items() for word in ("--feature", f"{feature}={level}")]
        return [*version, *features, *(["--initial-controllers", self.voters] if self.voters else [])]


def bootstrap_files(distribution: Distribution, format: Format = Format()) -> Mapping[str, bytes]:
    """Files of a freshly formatted controller disk, by path relative to it, without meta.properties.

    From the cache, or made by one JVM start. SystemUnavailable when the release cannot begin so.
    """
    if release(distribution.version) < FIRST_METADATA_VERSION:
        return {}
    cached = distribution.derived / "formats" / format.name
    if not cached.is_dir():
        _format(distribution, format, cached)
    return {str(path.relative_to(cached)): path.read_bytes() for path in sorted(cached.rglob("*")) if path.is_file()}


def _format(distribution: Distribution, format: Format, cached: Path) -> None:
    java = find_java()
    if java is None:
        raise SystemUnavailable("no Java to format a controller's disk with; see `krash doctor`")
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent, prefix=".format-") as scratch:
        data, properties = Path(scratch) / "data", Path(scratch) / "server.properties"
        node = format.voters.partition("@")[0] if format.voters else "1"  # one of them, or it would not be its disk
        quorum = _DYNAMIC if format.voters else _STATIC
        properties.write_text(_PROPERTIES.format(node=node, quorum=quorum, data=data))
        command = [
            java.path,
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            distribution.class_path(),
        ]
        command += ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(properties), *format.arguments]
        done = subprocess.run(command, cwd=distribution.home, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise SystemUnavailable(_explain(distribution.version, format, done.stdout + done.stderr))
        (data / META).unlink()
        try:
            os.rename(data, cached)
        except OSError:
            if not cached.is_dir():  # somebody else was quicker otherwise, with the same content
                raise
        shutil.rmtree(data, ignore_errors=True)


def _explain(version: str, format: Format, output: str) -> str:
    lines = [
        line.strip()
        for line in output.splitlines()
        if line.strip() and not line.startswith(("\tat ", "log4j", "SLF4J"))
    ]
    said = next(
        (
            line
            for line in lines
            if "metadata.version" in line or "feature" in line or "Unknown" in line or "Exception" in line
        ),
        " ".join(lines)[-300:],
    )
    features = "".join(f", {feature} {level}" for feature, level in format.features.items())
    return f"Kafka {version} cannot format a disk at metadata.version {format.metadata_version or DEFAULT}{features}: {said}"
