"""What coordinators are told when their broker starts: Kafka's names with underscores for dots, and its defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.coordinator.transactions.requests import TransactionSettings


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings:
    groups: GroupSettings = field(default_factory=GroupSettings)
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
