"""What a spec can say about the workloads. Every setting has a default that suits three brokers on a small machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Milliseconds = Annotated[int, Field(gt=0)]
Acks = Annotated[
    Literal["all", "1", "0"], BeforeValidator(lambda given: {-1: "all", "-1": "all", 1: "1", 0: "0"}.get(given, given))
]

_DECIDED_ELSEWHERE = {
    "bootstrap.servers": "the run sets it",
    "client.id": "the run sets it",
    "acks": "use `acks`",
    "request.required.acks": "use `acks`",
    "enable.idempotence": "use `idempotence`",
    "max.in.flight": "use `requests_in_flight`",
    "max.in.flight.requests.per.connection": "use `requests_in_flight`",
    "retries": "use `retries`",
    "message.send.max.retries": "use `retries`",
    "retry.backoff.ms": "use `retry_backoff_ms`",
    "retry.backoff.max.ms": "outcomes depend on it",
    "transactional.id": "the `transactions` workload has some",
    "enable.auto.offset.store": "positions are recorded",
    "enable.partition.eof": "the final read needs it",
    "auto.offset.reset": "positions never move silently",
    "partition.assignment.strategy": "only the `groups` workload has a choice: use `assignor`",
    "transaction.timeout.ms": "use `transaction_timeout_ms` of the `transactions` workload",
    "group.id": "use `group`",
    "isolation.level": "use `isolation`",
}


class ClientSettings(BaseModel):
    """What every workload says of its clients and of the final read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    retries: int = Field(
        2_147_483_647, ge=0, le=2_147_483_647, description="How often the client sends a batch again by itself."
    )
    retry_backoff_ms: Milliseconds = Field(
        100, description="Wait before a retry. A refusal that comes within half of it is known to be a failure."
    )
    requests_in_flight: int = Field(5, ge=1, le=1_000_000, description="max.in.flight.requests.per.connection.")
    linger_ms: int | None = Field(
        None, ge=0, description="How long a batch waits for more records; by default 5, or 0 with in_flight: 1."
    )
    batch_bytes: int = Field(262_144, ge=1, description="Largest batch (batch.size).")
    value_bytes: int = Field(
        0, ge=0, le=1_000_000, description="Pad values to this size; the padding is verified when they are read."
    )
    delivery_timeout_ms: Milliseconds = Field(
        120_000,
        description="When the client gives up on a record, with all its retries. If faults last longer than this, "
        "duplicates appear in spite of idempotence: after giving up on a record librdkafka starts a new producer epoch, "
        "and sends other batches under it again whose fate it does not know.",
    )
    request_timeout_ms: Milliseconds = Field(
        5_000, description="How long the broker may wait for followers before it answers."
    )
    socket_timeout_ms: Milliseconds = Field(6_000, ge=10, description="How long the client waits for an answer.")
    connect_timeout_ms: Milliseconds = Field(2_000, ge=1000, description="How long a connection may take to come up.")
    finish_ms: Milliseconds = Field(
        12_000, description="At the end of the fault phase: how long to wait for what is still in flight."
    )
    isolation: Literal["read_uncommitted", "read_committed"] = Field(
        "read_uncommitted", description="What consumers and the final read may see."
    )
    group: str = Field("krash", min_length=1, description="Consumer group of the subscribing consumers.")
    session_timeout_ms: Milliseconds = Field(
        6_000, description="When the group gives a silent consumer's partitions away (broker's minimum: 6000)."
    )
    poll_records: int = Field(1000, ge=1, le=100_000, description="Most records of one poll.")
    poll_timeout_ms: Milliseconds = Field(100, description="How long a poll waits for records.")
    stable_wait_ms: int = Field(
        10_000, ge=0, description="read_committed: how long the final read waits for open transactions to be ended."
    )
    drain_readers: int = Field(4, ge=1, le=64, description="Partitions read at the same time by the final read.")
    producer_config: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Any other librdkafka producer property, by its name."
    )
    consumer_config: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Any other librdkafka consumer property, by its name."
    )

    @model_validator(mode="after")
    def _make_sense_together(self) -> Self:
        for complaint in self.complaints():
            raise ValueError(complaint)
        return self

    def complaints(self) -> Iterator[str]:
        """What does not fit together, in sentences that say what to do."""
        if (self.linger_ms or 0) >= self.delivery_timeout_ms:
            yield (
                f"records would time out while they linger: linger_ms is {self.linger_ms}, "
                f"delivery_timeout_ms {self.delivery_timeout_ms}"
            )
        if self.request_timeout_ms >= self.socket_timeout_ms:
            yield (
                "the client would hang up before the broker's time is over: "
                f"request_timeout_ms ({self.request_timeout_ms}) has to be less than "
                f"socket_timeout_ms ({self.socket_timeout_ms})"
            )
        if self.socket_timeout_ms < 1200:
            yield f"a fetch waits at the broker: socket_timeout_ms has to be 1200 or more, not {self.socket_timeout_ms}"
        for setting in ("producer_config", "consumer_config"):
            for name in getattr(self, setting):
                if name in _DECIDED_ELSEWHERE:
                    yield f"{setting} may not set {name}: {_DECIDED_ELSEWHERE[name]}"


class ProducerSettings(ClientSettings):
    """And of producers that send one record after the other (sender.py)."""

    producers: int = Field(2, ge=0, description="Producers per client node.")
    in_flight: int = Field(
        1000, ge=1, le=100_000, description="Records in flight per producer, each a process; 1: wait for every answer."
    )
    acks: Acks = Field("all", description="all, 1 or 0. With 0 nothing is ever known to have happened.")
    idempotence: bool = Field(True, description="enable.idempotence: a retry is not a second record. Needs acks: all.")

    def complaints(self) -> Iterator[str]:
        if self.idempotence and self.acks != "all":
            yield f"idempotence needs acks: all, and acks is {self.acks}: set idempotence: false, or acks: all"
        if self.idempotence and self.retries == 0:
            yield "idempotence is about retries, and retries is 0: set idempotence: false, or leave retries out"
        if self.idempotence and self.requests_in_flight > 5:
            yield f"idempotence allows at most 5 requests in flight: requests_in_flight is {self.requests_in_flight}"
        yield from super().complaints()


class ReaderSettings(ClientSettings):
    """And of consumers that read on their own (poller.py)."""

    consumers: int = Field(2, ge=0, description="Consumers per client node.")
    consumer_mode: Literal["assign", "subscribe", "both"] = Field(
        "both", description="How consumers get partitions: by hand, from their group, or every other one each way."
    )


class Settings(ReaderSettings, ProducerSettings):
    """Of the `log` workload."""

    def complaints(self) -> Iterator[str]:
        if not self.producers and not self.consumers:
            yield "nothing to do: producers and consumers are both 0"
        yield from super().complaints()


def _commits_by_itself(consumer_config: Mapping[str, object]) -> Iterator[str]:
    if "enable.auto.commit" in consumer_config:
        yield "consumer_config may not set enable.auto.commit: this workload records what it commits"


class GroupSettings(ProducerSettings):
    """Of the `groups` workload."""

    producers: int = Field(1, ge=0, description="Producers per client node.")
    isolation: Literal["read_uncommitted", "read_committed"] = Field(
        "read_uncommitted", description="What members and the final read may see."
    )
    group: str = Field("krash", min_length=1, description="Name of the group; of several: krash-0, krash-1, ...")
    groups: int = Field(1, ge=1, le=100, description="Groups; the members of all client nodes take turns in them.")
    members: int = Field(2, ge=1, le=100, description="Consumers per client node, each a member of one group.")
    assignor: Literal["range", "roundrobin", "cooperative-sticky"] = Field(
        "range", description="How a group shares partitions out (partition.assignment.strategy)."
    )
    poll_records: int = Field(200, ge=1, le=100_000, description="Most records that are processed before a commit.")
    process_ms: int = Field(0, ge=0, description="How long it takes to process what one poll brought.")
    stay_ms: tuple[Milliseconds, Milliseconds] | None = Field(
        (4_000, 10_000),
        description="Members leave their group and come back as new ones after so long, drawn anew each time; null: they stay.",
    )

    def complaints(self) -> Iterator[str]:
        if self.stay_ms and self.stay_ms[0] > self.stay_ms[1]:
            yield f"stay_ms is the shortest and the longest stay, and {self.stay_ms[0]} is more than {self.stay_ms[1]}"
        yield from _commits_by_itself(self.consumer_config)
        yield from super().complaints()


class TransactionSettings(ReaderSettings):
    """Of the `transactions` workload."""

    acks: Literal["all"] = Field("all", description="Transactions need it.")
    idempotence: Literal[True] = Field(True, description="Transactions need it.")
    isolation: Literal["read_uncommitted", "read_committed"] = Field(
        "read_committed", description="What consumers and the final read may see."
    )
    producers: int = Field(
        2, ge=1, le=100, description="Transactional producers per client node, each with an id of its own."
    )
    consumers: int = Field(1, ge=0, description="Readers per client node, beside the members of the group.")
    consumer_mode: Literal["assign"] = Field("assign", description="Readers take partitions by hand.")
    group: str = Field("krash", min_length=1, description="Group whose offsets are committed in transactions.")
    records: int = Field(100, ge=1, le=10_000, description="Most records of one transaction; how many is drawn.")
    mixed: float = Field(
        0.5, ge=0, le=1, description="Share of producers that read what they were given by the group, too."
    )
    aborts: float = Field(0.1, ge=0, le=1, description="Share of transactions that are aborted on purpose.")
    zombies: float = Field(
        0.02, ge=0, le=1, description="Share of transactions in the middle of which a new producer takes the id over."
    )
    transaction_timeout_ms: Milliseconds = Field(
        10_000, description="When the coordinator aborts a transaction whose producer is silent."
    )
    poll_records: int = Field(100, ge=1, le=100_000, description="Most records of one poll.")
    delivery_timeout_ms: Milliseconds = Field(
        10_000, description="When the client gives up on a record; at most transaction_timeout_ms."
    )

    def complaints(self) -> Iterator[str]:
        if self.delivery_timeout_ms > self.transaction_timeout_ms:
            yield (
                f"delivery_timeout_ms ({self.delivery_timeout_ms}) may not be more than "
                f"transaction_timeout_ms ({self.transaction_timeout_ms}): librdkafka refuses it"
            )
        if self.requests_in_flight > 5:
            yield f"idempotence allows at most 5 requests in flight: requests_in_flight is {self.requests_in_flight}"
        yield from _commits_by_itself(self.consumer_config)
        yield from super().complaints()
