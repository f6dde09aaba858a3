"""`krash kafka versions` and `krash kafka fetch`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from harness.errors import UsageError
from nodes.kafka.distribution import cached_versions, known_versions
from nodes.kafka.system import KafkaSystem


def show_versions(*, as_json: bool) -> int:
    """Versions krash was tried with, and those in the cache."""
    known, cached, default = known_versions(), cached_versions(), KafkaSystem.default_version()
    if as_json:
        print(json.dumps({"known": known, "cached": list(cached), "default": default}))
        return 0
    for version in sorted(
        {*known, *cached}, key=lambda text: [int(part) if part.isdigit() else -1 for part in text.split(".")]
    ):
        words = [
            known.get(version, "not tried"),
            "on this machine" if version in cached else "not fetched",
            *(["default"] if version == default else []),
        ]
        print(f"{version:<10} {' · '.join(words)}")
    return 0


def fetch_versions(versions: Sequence[str]) -> int:
    """Jars, archive and format of each version into the cache."""
    system = KafkaSystem()
    for version in versions:
        if "/" in version:
            raise UsageError(
                f"{version} is a path: an unpacked distribution needs no fetching; name it as --system kafka:{version}"
            )
        system.fetch(version, progress=lambda text: print(text, file=sys.stderr))
        print(f"Apache Kafka {version} is on this machine")
    return 0
