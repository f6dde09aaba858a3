"""Which partition of an internal topic a group or a transactional id belongs to; who leads that partition is its coordinator.

Clients never compute it, but every broker must come to the same answer, and so must Kafka's own tools that read these topics.

    partition_of("orders", 50)      14
"""

from __future__ import annotations

from typing import Final

GROUPS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
_SMALLEST: Final = -(1 << 31)


def partition_of(key: str, partitions: int) -> int:
    """Kafka's GroupMetadataManager.partitionFor and TransactionStateManager.partitionFor: abs(hash) % partitions, abs(smallest) = 0."""
    hashed = java_hash(key)
    return (0 if hashed == _SMALLEST else abs(hashed)) % partitions


def java_hash(text: str) -> int:
    """java.lang.String.hashCode: over UTF-16 code units, in 32 bits with a sign."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFF_FFFF
    return hashed - (1 << 32) if hashed >= 1 << 31 else hashed
