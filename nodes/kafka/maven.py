"""Jars from Maven coordinates: one generated pom per version, resolved by the user's own Maven (its mirrors, its proxy, its repository).

`kafka_2.13` pulls everything that runs a server but for two things: the logging binding (compile-only in Kafka's build) and the command
line tools (`kafka-tools`, taken without dependencies of its own, for StorageTool-like classes and DumpLogSegments).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from nodes.kafka.version import KNOWN, release
from nodes.system import SystemUnavailable

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
TIMEOUT_S = 600
WITHOUT_TOOLS = frozenset({(4, 4, 0)})
LOG4J1 = (("org.slf4j", "slf4j-reload4j", "1.7.36"), ("ch.qos.reload4j", "reload4j", "1.2.19"))
LOG4J2 = tuple(
    ("org.apache.logging.log4j", artifact, "2.24.3")
    for artifact in ("log4j-api", "log4j-core", "log4j-slf4j-impl", "log4j-1.2-api")
)

_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>krash</groupId><artifactId>kafka</artifactId><version>{version}</version><packaging>pom</packaging>
  <dependencies>
    {dependencies}
  </dependencies>
</project>
"""


def pom(version: str) -> str:
    """The generated pom of a release, e.g. "4.3.1". Pure."""
    kafka = "org.apache.kafka"
    wanted = [_DEPENDENCY.format(kafka, "kafka_2.13", version, _without_tools(version))]
    if release(version) not in WITHOUT_TOOLS:
        wanted.append(_DEPENDENCY.format(kafka, "kafka-tools", version, _ALONE))
    binding = LOG4J2 if release(version) >= (4, 0, 0) else LOG4J1
    wanted += [_DEPENDENCY.format(*coordinates, "") for coordinates in binding]
    return _POM.format(version=version, dependencies="\n    ".join(wanted))


def _without_tools(version: str) -> str:
    if release(version) not in WITHOUT_TOOLS:
        return ""
    tools = "".join(
        f"<exclusion><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId></exclusion>"
        for artifact in ("kafka-tools", "kafka-tools-api")
    )
    return f"<exclusions>{tools}</exclusions>"


def copy_jars(version: str, directory: Path, *, progress: Callable[[str], None]) -> None:
    """Resolve a release into `directory/libs`, checksums enforced. SystemUnavailable says what is missing and what to do."""
    if shutil.which("mvn") is None:
        raise SystemUnavailable(
            "Maven is needed to fetch Apache Kafka and is not installed: `sudo apt-get install maven` "
            "(or unpack a distribution and use kafka:/path/to/it)"
        )
    progress(f"fetching Apache Kafka {version} with Maven")
    (directory / "pom.xml").write_text(pom(version))
    command = ["mvn", "-q", "-B", "-C", "-f", str(directory / "pom.xml"), PLUGIN]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={directory / 'libs'}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired:
        raise SystemUnavailable(
            f"Maven did not fetch Kafka {version} within {TIMEOUT_S} s; is the network slow or cut?"
        ) from None
    if done.returncode != 0 or not any((directory / "libs").glob("kafka_*.jar")):
        raise SystemUnavailable(explain(version, done.stdout + done.stderr))


def explain(version: str, output: str) -> str:
    """Maven's output as one sentence that says what to do."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", output)
    errors = [line.removeprefix("[ERROR] ") for line in output.splitlines() if line.startswith("[ERROR] ")]
    first = errors[0] if errors else output.strip()[-400:] or "Maven said nothing"
    if f"kafka_2.13:jar:{version}" in first and "Could not find artifact" in first:
        return f"there is no Apache Kafka {version} in the Maven repository; known to work: {', '.join(KNOWN)}"
    if "Checksum validation failed" in output:
        return f"a downloaded file of Kafka {version} has a wrong checksum; try again or ask whoever runs the mirror: {first}"
    unreachable = (
        "Unknown host",
        "UnknownHost",
        "Could not transfer",
        "Connect to",
        "Connection refused",
        "timed out",
        "offline",
    )
    if any(sign in output for sign in unreachable) or "No plugin" in first:
        return (
            f"Maven cannot reach its repository, and Kafka {version} is not in the cache: check the network or ~/.m2/settings.xml, "
            f"or use kafka:/path/to/an/unpacked/distribution. Maven said: {first}"
        )
    return f"Maven could not fetch Kafka {version}: {first}"
