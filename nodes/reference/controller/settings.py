"""What a controller is configured with: Kafka's names with underscores for dots; times in ns, as everywhere.

KIP-343 and KIP-631 ask that a broker fences itself later than the controller has done so: a lease is longer than a session. (The other
way round a partition would be without a leader for longer than it must.)
"""

from __future__ import annotations

from dataclasses import dataclass

from nodes.reference.environment import MILLISECOND, SECOND
from nodes.reference.metadata.features import LATEST


@dataclass(frozen=True, kw_only=True)
class ControllerSettings:
    """metadata_max_lag: a broker whose metadata is older is fenced (KIP-631, "rejects brokers whose metadata is too stale").

    snapshot_every, snapshot_every_lagging: committed records between two snapshots of a controller, and while the loss of one voter would
    probably cost the quorum its majority (not less than `snapshot_every`). ValueError unless leases outlast sessions.
    """

    cluster_id: str
    broker_session_timeout: int = 9 * SECOND
    broker_lease: int | None = None  # None: one and a half sessions
    metadata_max_lag: int = 30 * SECOND
    num_partitions: int = 1
    default_replication_factor: int = 1
    unclean_leader_election_enable: bool = False
    metadata_version: int = LATEST  # of a new cluster
    snapshot_every: int = 20_000
    snapshot_every_lagging: int = 100_000
    controller_heartbeat_interval: int = SECOND // 2
    snapshot_timeout: int = 60 * SECOND  # then another controller's turn comes
    producer_ids: int = 1_000  # in a block

    def __post_init__(self) -> None:
        if self.broker_lease is not None and self.broker_lease <= self.broker_session_timeout:
            raise ValueError(
                "broker_lease must be longer than broker_session_timeout (KIP-343, Controller-Side Heartbeat Timeout)"
            )

    @property
    def lease_ms(self) -> int:
        lease = self.broker_session_timeout * 3 // 2 if self.broker_lease is None else self.broker_lease
        return lease // MILLISECOND
