"""What brokers send at each metadata.version, from Kafka's MetadataVersion and from what the releases of that level sent."""

from __future__ import annotations

from nodes.reference.metadata.features import LEVELS, alter_partition_version, fetch_version


def test_what_a_leader_and_a_follower_send() -> None:
    sent = {name: (alter_partition_version(level), fetch_version(level)) for level, name in LEVELS.items()}
    assert sent == {
        "3.0-IV1": (0, 12),
        "3.1-IV0": (0, 13),
        "3.2-IV0": (1, 13),
        "3.3-IV0": (2, 13),
        "3.3-IV1": (2, 13),
        "3.3-IV2": (2, 13),
        "3.3-IV3": (2, 13),
        "3.4-IV0": (2, 13),
        "3.5-IV0": (2, 14),
        "3.5-IV1": (3, 15),
        "3.5-IV2": (3, 15),
    }
