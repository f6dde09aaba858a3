"""What `kafka-storage format` writes on a controller's disk besides meta.properties, cached per release and metadata.version.

It sets the metadata.version (and other features) with which a cluster begins: `bootstrap.checkpoint` (3.3 - 4.3) or the first snapshot of
the metadata log (4.4). It depends on neither cluster nor node id, so one JVM start per release and metadata.version is enough for ever.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nodes.kafka.disk import META
from nodes.kafka.distribution import Distribution
from nodes.kafka.java import find_java
from nodes.system import SystemUnavailable

DEFAULT: Final = "default"
_PROPERTIES = """process.roles=controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
listeners=CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
log.dirs={data}
"""


def bootstrap_files(distribution: Distribution, metadata_version: str | None) -> Mapping[str, bytes]:
    """Files of a freshly formatted controller disk, by path relative to it, without meta.properties.

    metadata_version: as `--release-version` takes it, None for the release's default. From the cache, or made by one JVM start.
    SystemUnavailable when the release does not know the metadata.version.
    """
    name = metadata_version or DEFAULT
    if not re.fullmatch(r"[A-Za-z0-9.\-]{1,32}", name):
        raise SystemUnavailable(f"{name!r} is not a metadata.version; expected for example 3.4 or 3.5-IV1")
    cached = distribution.derived / "formats" / name
    if not cached.is_dir():
        _format(distribution, metadata_version, cached)
    return {str(path.relative_to(cached)): path.read_bytes() for path in sorted(cached.rglob("*")) if path.is_file()}


def _format(distribution: Distribution, metadata_version: str | None, cached: Path) -> None:
    java = find_java()
    if java is None:
        raise SystemUnavailable("no Java to format a controller's disk with; see `krash doctor`")
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent, prefix=".format-") as scratch:
        data, properties = Path(scratch) / "data", Path(scratch) / "server.properties"
        properties.write_text(_PROPERTIES.format(data=data))
        command = [
            java.path,
            "-Xshare:auto",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            distribution.class_path(),
        ]
        command += ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(properties)]
        command += ["--release-version", metadata_version] if metadata_version else []
        done = subprocess.run(command, cwd=distribution.home, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise SystemUnavailable(_explain(distribution.version, metadata_version, done.stdout + done.stderr))
        (data / META).unlink()
        try:
            os.rename(data, cached)
        except OSError:
            if not cached.is_dir():  # somebody else was quicker otherwise, with the same content
                raise
        shutil.rmtree(data, ignore_errors=True)


def _explain(version: str, metadata_version: str | None, output: str) -> str:
    lines = [
        line.strip()
        for line in output.splitlines()
        if line.strip() and not line.startswith(("\tat ", "log4j", "SLF4J"))
    ]
    said = next(
        (line for line in lines if "metadata.version" in line or "Unknown" in line or "Exception" in line),
        " ".join(lines)[-300:],
    )
    return f"Kafka {version} cannot format a disk at metadata.version {metadata_version or DEFAULT}: {said}"
