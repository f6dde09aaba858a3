"""What a cluster's metadata.version allows (KIP-584, and KIP-631's "metadata.format"): names of levels, and what each brings.

A controller writes, and a broker sends, only what everyone at the finalized level understands. So a level is also how a protection can be
missing in new software: below 3.5-IV1 followers fetch without broker epochs, and KIP-903 protects nobody.
"""

from __future__ import annotations

from typing import Final

METADATA_VERSION: Final = "metadata.version"
LEVELS: Final = {
    1: "3.0-IV1",
    2: "3.1-IV0",
    3: "3.2-IV0",
    4: "3.3-IV0",
    5: "3.3-IV1",
    6: "3.3-IV2",
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
}
OLDEST: Final = min(LEVELS)
LATEST: Final = max(LEVELS)


def registration_changes(level: int) -> bool:
    """BrokerRegistrationChangeRecord instead of FenceBrokerRecord and UnfenceBrokerRecord."""
    return level >= 6


def controlled_shutdown_state(level: int) -> bool:
    """KIP-841: that a broker is stopping is written down."""
    return level >= 7


def leader_recovery_state(level: int) -> bool:
    """KIP-704: a leader that was elected uncleanly is marked."""
    return level >= 3


def alter_partition_version(level: int) -> int:
    """As the Kafka of that level sends it: KIP-903's from 3.5-IV1 on, with broker epochs; before that with topic ids (3.3, KIP-841), with
    names and the recovery state (3.2, KIP-704), or KIP-497's AlterIsr.
    """
    if level >= 10:
        return 3
    if level >= 4:
        return 2
    return 1 if level >= 3 else 0


def fetch_version(level: int) -> int:
    """KIP-903: of a follower's Fetch; 15 has its broker epoch (ReplicaState), those before do not."""
    if level >= 10:
        return 15
    if level >= 9:
        return 14
    return 13 if level >= 2 else 12


def written(level: int) -> tuple[bool, ...]:
    """What of the metadata depends on the level; the same for two levels: nothing is lost between them."""
    return (registration_changes(level), controlled_shutdown_state(level), leader_recovery_state(level))
