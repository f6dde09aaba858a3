"""What a replica has in either role: its log, who it is, and what it knows of brokers."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.reference.environment import MILLISECOND
from nodes.reference.log.log import Log
from nodes.reference.partition.view import Brokers, PartitionSettings
from nodes.reference.protections import Protections


@dataclass(slots=True, kw_only=True)
class Local:
    broker: int
    broker_epoch: int  # of this registration, as the controller answered it (KIP-903, Follower)
    log: Log
    settings: PartitionSettings  # replaced when the topic's configuration changes
    protections: Protections
    brokers: Brokers  # newest metadata

    @property
    def max_lag(self) -> int:
        """`replica.lag.time.max.ms` in ns."""
        return self.settings.replica_lag_time_max_ms * MILLISECOND
