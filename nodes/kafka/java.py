"""The Java runtime, and the flags that make many small Kafka servers start quickly on a small machine.

Measured on two cores, 1 controller + 3 brokers until every broker lists all three: no flags 5.6-11 s, with SerialGC and C1 only 3.4-7 s,
with a class data archive as well 2.2-3.3 s and a quarter of the CPU time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nodes.backend import Requirement

OLDEST = 17
INSTALL = "sudo apt-get install openjdk-17-jre-headless"


@dataclass(frozen=True, kw_only=True)
class Java:
    path: str  # real path of the executable
    version: str  # "17.0.15"
    key: str  # names what archives made by it depend on

    @property
    def major(self) -> int:
        return int(re.match(r"\d+", self.version)[0])  # type: ignore[index]  # found by find_java as digits


def find_java() -> Java | None:
    """$JAVA_HOME's java, else the one on the PATH, else None. Reads the runtime's `release` file: starting a JVM to ask costs 50 ms."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        return None
    path = Path(found).resolve()
    described = path.parent.parent / "release"
    text = described.read_text() if described.is_file() else _ask(path)
    match = re.search(r'version[="\s]+(\d[\w.+-]*)', text, re.IGNORECASE)
    if match is None:
        return None
    key = hashlib.sha256(f"{path}\n{text}".encode()).hexdigest()[:12]
    return Java(path=str(path), version=match[1], key=f"{match[1]}-{key}")


def _ask(path: Path) -> str:
    return subprocess.run([str(path), "-version"], capture_output=True, text=True, timeout=60, check=False).stderr


def requirement() -> Requirement:
    java = find_java()
    if java is None:
        return Requirement(
            name=f"Java {OLDEST} or newer", present=False, found="no java on the PATH or in JAVA_HOME", remedy=INSTALL
        )
    new_enough = java.major >= OLDEST
    return Requirement(
        name=f"Java {OLDEST} or newer",
        present=new_enough,
        found=f"{java.version} at {java.path}",
        remedy="" if new_enough else INSTALL,
    )


def flags(*, heap_mib: int, error_file: str) -> list[str]:
    """JVM flags of one server. The same ones make and use an archive.

    SerialGC, C1, small code cache and stacks: start-up and memory count here, not peak throughput. ExitOnOutOfMemoryError: a server that
    limps on after an OutOfMemoryError is no system under test.
    """
    return [
        "-Xms64m",
        f"-Xmx{heap_mib}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=48m",
        "-XX:MaxMetaspaceSize=128m",
        "-XX:MaxDirectMemorySize=64m",
        "-Xss512k",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        f"-XX:ErrorFile={error_file}",
        "-Djava.net.preferIPv4Stack=true",
        "-Djava.awt.headless=true",
    ]


def archive_flags(path: str) -> list[str]:
    """Use an archive where it fits; where it does not (another runtime, other jars), start without it and without a word."""
    return [
        f"-XX:SharedArchiveFile={path}",
        "-Xshare:auto",
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
        "-Xlog:class+path=off",
    ]
