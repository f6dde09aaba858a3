"""What is asked of a transaction's coordinator, the same in all versions of the requests.

InitProducerId is answered with Initialized, the others with an ErrorCode. PRODUCER_FENCED is what is meant everywhere; clients of versions
that do not know it are told INVALID_PRODUCER_EPOCH (KIP-588), which is the shell's to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.groups.requests import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """Who asks."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """producer_id and epoch: KIP-360, of a producer that goes on after an error. spare: an id that nobody has, should one be needed."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    spare: int | None = None


@dataclass(frozen=True, slots=True)
class Initialized:
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    """state: as Kafka spells it; start -1 while none is open."""

    error: ErrorCode
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    started: int = -1  # ms since 1970
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    partitions: frozenset[TopicPartition] = frozenset()


Marked = Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, kw_only=True)
class TransactionSettings:
    """Kafka's names with underscores for dots, and its defaults. transaction_version: the feature (KIP-890); 2 is not there."""

    transaction_max_timeout_ms: int = 900_000
    transaction_version: int = 1
    marker_retry_backoff_ms: int = 100
    topic_gone_after_ms: int = 30_000  # an unknown topic may be one that this broker has not heard of yet
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
