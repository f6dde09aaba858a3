"""Why a server ended by itself, from the end of its logs: a known cause in words where there is one, and the lines that show it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

LINES: Final = 12
_WIDTH: Final = 300

# The first pattern that occurs in the tail decides. Left: what the log says; right: what it means and what to do.
CAUSES: Final = (
    (r"UnsupportedClassVersionError", "this Java is too old for this release; install a newer one"),
    (r"OutOfMemoryError", "it ran out of memory; raise the node's memory_mib"),
    (r"(?:sh|exec): .*java.*not found|java: (?:not found|No such file)", "the node has no java"),
    (r"Could not create the Java Virtual Machine|Unrecognized VM option", "this Java does not take the JVM flags"),
    (
        r"ClassNotFoundException: kafka\.Kafka|Could not find or load main class",
        "the distribution's jars are not readable in the node",
    ),
    (r"Address already in use|BindException", "its port is taken"),
    (
        r"No `?meta\.properties`? found|have you run kafka-storage",
        "its disk is not formatted: meta.properties is missing",
    ),
    (
        r"InconsistentClusterIdException|Invalid cluster\.id|INCONSISTENT_CLUSTER_ID",
        "its disk belongs to another cluster",
    ),
    (
        r"below the current high watermark",
        "the controllers' log is behind its own: a controller lost committed metadata",
    ),
    (
        r"DuplicateBrokerRegistrationException|DUPLICATE_BROKER_REGISTRATION",
        "another process with its id is still registered",
    ),
    (
        r"UnsupportedVersionException|does not support.*metadata\.version",
        "it does not know the cluster's metadata.version",
    ),
    (r"ConfigException|IllegalArgumentException", "its configuration was refused"),
    (r"No space left on device", "its disk is full"),
    (r"KafkaStorageException|All log dirs in .* have failed", "its disk failed"),
)


def last_words(logs: Iterable[str]) -> str:
    """Cause and last telling lines of a node's logs, each given as text, main log first."""
    tails = [log.splitlines()[-400:] for log in logs]
    lines = [line for tail in tails for line in tail]
    text = "\n".join(lines)
    cause = next((meaning for pattern, meaning in CAUSES if re.search(pattern, text)), None)
    telling = [line for line in lines if re.search(r"\b(?:FATAL|ERROR)\b|Exception|Error\b", line) and not _frame(line)]
    shown = (telling or [line for tail in tails for line in tail[-LINES:] if not _frame(line)])[-LINES:]
    quoted = "\n  ".join(line.strip()[:_WIDTH] for line in shown) or "its logs are empty"
    return f"{cause}\n  {quoted}" if cause else quoted


def _frame(line: str) -> bool:
    return line.startswith(("\tat ", "    at ", "\t... "))
