"""Raw Produce and Fetch on one partition: what no client library sends, and answers as they came.

    sent = await logs.produce(connection, "t", 0, [b"a", b"b"], acks=-1, timeout=5)       # Produced(error="NONE", base_offset=200)
    read = await logs.fetch(connection, "t", 0, 0, committed=True, timeout=5)
    read.high_watermark, read.last_stable_offset, [record.value for record in read.records]

One record batch (magic 2) per Produce, uncompressed. A transactional one carries the producer's id, epoch and sequence, and whoever sends
it knows which partitions it told the coordinator about: version 9 needs AddPartitionsToTxn before (TV0, TV1), version 12 adds the
partition by itself where transaction.version is 2 (KIP-890).
"""

from __future__ import annotations

import datetime
import importlib
import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.schema.fetch.v12 import FetchRequest, FetchResponse
from kio.schema.fetch.v12.request import FetchPartition, FetchTopic
from kio.schema.types import TopicName, TransactionalId
from kio.serial.errors import SerialError
from kio.static.primitive import Records, TZAwareMicros, i8, i16, i32, i64

from nodes.protocol.connection import Connection
from nodes.protocol.framing import BadFrame
from nodes.protocol.requests import error_name, milliseconds

NO_PRODUCER: Final = -1
IMPLICIT: Final = 12  # Produce version from which a transactional batch adds its partition to the transaction
COMPRESSION, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20  # attribute bits of a batch
_TOLD_NOTHING: Final = "UNKNOWN_TOPIC_OR_PARTITION"


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Whose batch it is: an idempotent producer (no transactional id) or a transactional one."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Produced:
    error: str  # NONE, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS_AFTER_APPEND, ...
    base_offset: int  # -1 with an error
    message: str | None


@dataclass(frozen=True, kw_only=True)
class FetchedRecord:
    offset: int
    key: bytes | None
    value: bytes | None
    producer_id: int
    epoch: int  # of the producer
    transactional: bool
    control: bool  # a commit or abort marker


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """What one Fetch returned. Aborted transactions are told, not filtered out: (producer id, first offset)."""

    error: str
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: tuple[FetchedRecord, ...]
    aborted: tuple[tuple[int, int], ...]


def batch(values: Sequence[bytes], *, writer: Writer | None = None, base_sequence: int = -1) -> bytes:
    """One uncompressed record batch, as the broker is to store it."""
    now = TZAwareMicros.parse(datetime.datetime.now(datetime.UTC))
    records = tuple(
        Record(attributes=i8(0), timestamp=now, offset=i64(number), key=None, value=value, headers=())
        for number, value in enumerate(values)
    )
    made = NewRecordBatch(
        producer_id=i64(writer.producer_id if writer else NO_PRODUCER),
        producer_epoch=i16(writer.epoch if writer else -1),
        base_sequence=i32(base_sequence),
        records=records,
        attributes=i16(TRANSACTIONAL if writer and writer.transactional_id is not None else 0),
    )
    buffer = io.BytesIO()
    write_new_batch(buffer, made)
    return buffer.getvalue()


async def produce(
    connection: Connection,
    topic: str,
    partition: int,
    values: Sequence[bytes],
    *,
    acks: int = -1,
    writer: Writer | None = None,
    base_sequence: int = -1,
    version: int = 9,
    timeout: float,
) -> Produced:
    """Send one batch to a broker and return what it says. acks: -1 (all) or 1.

    timeout: seconds that the broker may wait for followers; the answer may take as much again, then Unreachable is raised.
    """
    if acks == 0:
        raise ValueError("a Produce with acks=0 has no answer, so nothing could be told about it; send acks=1")
    schema: Any = importlib.import_module(f"kio.schema.produce.v{version}.request")
    expect: Any = importlib.import_module(f"kio.schema.produce.v{version}.response").ProduceResponse
    content = Records(batch(values, writer=writer, base_sequence=base_sequence))
    data = schema.PartitionProduceData(index=i32(partition), records=content)
    transactional = writer.transactional_id if writer else None
    request = schema.ProduceRequest(
        transactional_id=None if transactional is None else TransactionalId(transactional),
        acks=i16(acks),
        timeout=milliseconds(timeout),
        topic_data=(schema.TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
    )
    for told in (await connection.ask(request, expect, timeout=2 * timeout)).responses:
        for one in told.partition_responses:
            return Produced(
                error=error_name(one.error_code), base_offset=int(one.base_offset), message=one.error_message
            )
    return Produced(error=_TOLD_NOTHING, base_offset=-1, message=None)


async def fetch(
    connection: Connection,
    topic: str,
    partition: int,
    offset: int,
    *,
    committed: bool = False,
    max_bytes: int = 1 << 20,
    wait: float = 0.0,
    timeout: float,
) -> Fetched:
    """Read from an offset on, as a consumer would; a follower answers too, from its own log up to its own high watermark.

    committed: up to the last stable offset only. wait: seconds the broker may wait for a first record.
    """
    wanted = FetchPartition(partition=i32(partition), fetch_offset=i64(offset), partition_max_bytes=i32(max_bytes))
    request = FetchRequest(
        max_wait=milliseconds(wait),
        min_bytes=i32(1),
        max_bytes=i32(max_bytes),
        isolation_level=i8(1 if committed else 0),
        topics=(FetchTopic(topic=TopicName(topic), partitions=(wanted,)),),
        forgotten_topics_data=(),
    )
    answer = await connection.ask(request, FetchResponse, timeout=timeout)
    for told in answer.responses:
        for one in told.partitions:
            return Fetched(
                error=error_name(one.error_code),
                high_watermark=int(one.high_watermark),
                last_stable_offset=int(one.last_stable_offset),
                log_start_offset=int(one.log_start_offset),
                records=tuple(record for record in read(one.records or b"") if record.offset >= offset),
                aborted=tuple(
                    (int(gone.producer_id), int(gone.first_offset)) for gone in one.aborted_transactions or ()
                ),
            )
    error = error_name(answer.error_code) if answer.error_code else _TOLD_NOTHING
    return Fetched(error=error, high_watermark=-1, last_stable_offset=-1, log_start_offset=-1, records=(), aborted=())


def read(content: bytes) -> list[FetchedRecord]:
    """Records of whole batches in order; the last one may be cut off. BadFrame says what does not decode."""
    found: list[FetchedRecord] = []
    at = 0
    while at + 12 <= len(content):
        (length,) = struct.unpack_from(">i", content, at + 8)
        if length <= 0 or at + 12 + length > len(content):
            break
        try:
            (attributes,) = struct.unpack_from(">h", content, at + 21)
            if attributes & COMPRESSION:
                raise BadFrame(f"the batch at byte {at} is compressed, which krash's raw reader does not undo")
            one, _ = read_batch(content[at : at + 12 + length], 0)
        except (SerialError, ValueError, TypeError, OverflowError, struct.error) as error:
            raise BadFrame(f"record batch at byte {at}: {error}") from error
        found += [
            FetchedRecord(
                offset=int(record.offset),
                key=record.key,
                value=record.value,
                producer_id=int(one.producer_id),
                epoch=int(one.producer_epoch),
                transactional=bool(attributes & TRANSACTIONAL),
                control=bool(attributes & CONTROL),
            )
            for record in one.records
        ]
        at += 12 + length
    return found
