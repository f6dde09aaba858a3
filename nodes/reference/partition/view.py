"""What the metadata log says that one replica of a partition needs to know, and its settings.

PartitionView(replicas=(1, 2, 3), isr=frozenset({1, 2}), leader=1, leader_epoch=4, partition_epoch=9)
{1: BrokerView(epoch=120), 2: BrokerView(epoch=131), 3: BrokerView(epoch=97, fenced=True)}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NO_LEADER: Final = -1
NO_BROKER_EPOCH: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A PartitionRecord with the changes since."""

    replicas: tuple[int, ...]
    isr: frozenset[int]
    leader: int  # -1: none
    leader_epoch: int
    partition_epoch: int  # grows with every change (KIP-497: the "zkVersion" of the ZooKeeper era)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """A registration. A broker without one is not in the mapping."""

    epoch: int
    fenced: bool = False
    in_controlled_shutdown: bool = False


Brokers = Mapping[int, BrokerView]


@dataclass(frozen=True, kw_only=True)
class PartitionSettings:
    """Kafka's names with underscores for dots."""

    min_insync_replicas: int = 1
    replica_lag_time_max_ms: int = 30_000
