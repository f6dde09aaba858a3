"""What a broker is told when it starts: Kafka's configuration names with underscores for dots, and Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodes.reference.coordinator.settings import CoordinatorSettings
from nodes.reference.environment import Address
from nodes.reference.log.log import LogSettings
from nodes.reference.partition.view import PartitionSettings


@dataclass(frozen=True, kw_only=True)
class BrokerSettings:
    node_id: int
    cluster_id: str
    listener: Address  # port 0: any that is free
    advertised: Address | None = None  # None: the listener
    listener_name: str = "PLAINTEXT"
    controllers: Mapping[int, Address]
    rack: str | None = None
    broker_session_timeout_ms: int = 9_000  # the controller's; told to who asks for it
    broker_heartbeat_interval_ms: int = 2_000
    controlled_shutdown_timeout_ms: int = 30_000
    request_timeout_ms: int = 2_000  # of what is asked of a controller, one try
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 100
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    min_insync_replicas: int = 1
    message_max_bytes: int = 1_048_588
    fetch_max_bytes: int = 55 << 20
    log_flush_interval_messages: int | None = None
    log_flush_interval_ms: int | None = None
    auto_create_topics_enable: bool = True
    num_partitions: int = 1
    default_replication_factor: int = 1
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2
    transaction_partition_verification_enable: bool = True
    coordinators: CoordinatorSettings = field(default_factory=CoordinatorSettings)

    def log(self, configured: Mapping[str, str]) -> LogSettings:
        """configured: what is set for the topic, by Kafka's topic names (KIP-226: `max.message.bytes`, `flush.messages`, `flush.ms`)."""
        return LogSettings(
            message_max_bytes=int(configured.get("max.message.bytes", self.message_max_bytes)),
            log_flush_interval_messages=_optional(configured.get("flush.messages"), self.log_flush_interval_messages),
            log_flush_interval_ms=_optional(configured.get("flush.ms"), self.log_flush_interval_ms),
        )

    def partition(self, configured: Mapping[str, str]) -> PartitionSettings:
        return PartitionSettings(
            min_insync_replicas=int(configured.get("min.insync.replicas", self.min_insync_replicas)),
            replica_lag_time_max_ms=self.replica_lag_time_max_ms,
        )


def _optional(configured: str | None, default: int | None) -> int | None:
    return default if configured is None else int(configured)
