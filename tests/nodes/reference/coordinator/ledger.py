"""A log as a coordinator sees it: batches at offsets, of which any prefix may be what the next coordinator finds."""

from __future__ import annotations

from nodes.reference.coordinator.effects import Write
from nodes.reference.log.batch import Marker, marker_batch, parse, stamped
from nodes.reference.log.keyed import encode


class Ledger:
    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end_offset = 0

    def append(self, write: Write) -> int:
        return self._append(encode(write.records, timestamp=1_000, writer=write.writer))

    def mark(self, producer_id: int, producer_epoch: int, *, commit: bool) -> int:
        marker = Marker.COMMIT if commit else Marker.ABORT
        return self._append(
            marker_batch(
                marker, producer_id=producer_id, producer_epoch=producer_epoch, coordinator_epoch=0, timestamp=1_000
            )
        )

    def content(self, batches: int | None = None) -> bytes:
        """Of the first so many batches."""
        return b"".join(self.batches[:batches])

    def _append(self, content: bytes) -> int:
        header, offset = parse(content, 0), self.end_offset
        self.batches.append(bytes(stamped(content, header, base_offset=offset, leader_epoch=0)))
        self.end_offset += header.last_offset_delta + 1
        return offset
