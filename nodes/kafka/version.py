"""Releases of Apache Kafka that krash knows, and their metadata.version levels.

A version is written as on the command line: `4.3.1`, `latest`, or the path of an unpacked distribution (anything with a slash). A release
outside `KNOWN` is fetched too when the repository has it; KNOWN only says what is tested here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LATEST: Final = "4.3.1"
KNOWN: Final[Mapping[str, str]] = {
    "3.2.3": "last preview of KRaft: no metadata.version; a fenced broker may join an ISR (KAFKA-13916)",
    "3.3.1": "first release with KRaft in production; leaders are not demoted in controlled shutdown (KAFKA-14296)",
    "3.3.2": "its last patch; no broker epochs in AlterPartition (KAFKA-14139)",
    "3.4.1": "last line that is open to KAFKA-14139 at its default metadata.version",
    "3.6.2": "last line without check-quorum (KAFKA-15489)",
    "3.9.2": "last line before 4.0; dynamic quorums",
    "4.3.1": "latest",
    "4.4.0": "its command line tools are missing from the repository; runs without them",
}

FIRST_METADATA_VERSION: Final = (3, 3, 0)  # before, a cluster had none that could be chosen
FIRST_DYNAMIC_QUORUM: Final = (3, 9, 0)  # KIP-853
FIRST_FEATURES: Final = (3, 9, 0)  # that `kafka-storage format` takes

# From org.apache.kafka.server.common.MetadataVersion of 4.4.0. Levels below 7 (KRaft previews) cannot be formatted any more.
METADATA_LEVELS: Final[Mapping[str, int]] = {
    "3.3-IV3": 7,
    "3.4-IV0": 8,
    "3.5-IV0": 9,
    "3.5-IV1": 10,
    "3.5-IV2": 11,
    "3.6-IV0": 12,
    "3.6-IV1": 13,
    "3.6-IV2": 14,
    "3.7-IV0": 15,
    "3.7-IV1": 16,
    "3.7-IV2": 17,
    "3.7-IV3": 18,
    "3.7-IV4": 19,
    "3.8-IV0": 20,
    "3.9-IV0": 21,
    "4.0-IV0": 22,
    "4.0-IV1": 23,
    "4.0-IV2": 24,
    "4.0-IV3": 25,
    "4.1-IV0": 26,
    "4.1-IV1": 27,
    "4.2-IV0": 28,
    "4.2-IV1": 29,
    "4.3-IV0": 30,
    "4.4-IV0": 31,
    "4.4-IV1": 32,
    "4.4-IV2": 33,
}


def is_path(version: str) -> bool:
    return "/" in version or version.startswith(("~", "."))


def release(version: str) -> tuple[int, int, int]:
    """`4.3.1`, `4.4.0-SNAPSHOT` -> (4, 3, 1), (4, 4, 0). ValueError names what is not a version."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if match is None:
        raise ValueError(f"{version!r} is not a Kafka version; expected for example {LATEST}")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def metadata_level(name: str) -> int:
    """Level of a metadata.version by name: `3.5-IV1` -> 10; a release without IV is its newest level: `3.5` -> 11, `3.5.2` -> 11."""
    if name in METADATA_LEVELS:
        return METADATA_LEVELS[name]
    match = re.fullmatch(r"(\d+\.\d+)(\.\d+)?", name)
    levels = [level for known, level in METADATA_LEVELS.items() if match and known.startswith(f"{match[1]}-IV")]
    if not levels:
        raise ValueError(f"unknown metadata.version {name!r}; known: {', '.join(METADATA_LEVELS)}")
    return max(levels)
