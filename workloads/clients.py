"""confluent-kafka clients as a chaos run needs them: quick to notice a dead broker, quiet, quick to close.

Why not librdkafka's defaults: a broker behind a dropped link answers nothing, and the defaults wait a minute for an
answer and thirty seconds for a connection; statistics cost a callback that nobody reads; and an application that logs
to stderr from C threads spoils the run's own output. Everything that decides an outcome (acks, idempotence, retries,
timeouts) comes from the workload's settings.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

if TYPE_CHECKING:
    from workloads.settings import ClientSettings, ProducerSettings, TransactionSettings

CLOSE_S = 3.0
LOG = logging.getLogger("krash.clients")


def new_producer(
    bootstrap: str, client: str, settings: ProducerSettings, on_error: Callable[[KafkaError], None]
) -> Producer:
    config = producer_config(bootstrap, client, settings) | {"error_cb": on_error}
    return Producer(config, logger=LOG)


def producer_config(bootstrap: str, client: str, settings: ProducerSettings) -> dict[str, Any]:
    one_by_one = settings.in_flight == 1
    linger_ms = settings.linger_ms if settings.linger_ms is not None else (0 if one_by_one else 5)
    return {
        **_common(bootstrap, client, settings),
        "acks": settings.acks,
        "enable.idempotence": settings.idempotence,
        "max.in.flight.requests.per.connection": settings.requests_in_flight,
        "linger.ms": linger_ms,
        "batch.size": settings.batch_bytes,
        "retries": settings.retries,
        "delivery.timeout.ms": settings.delivery_timeout_ms,
        "request.timeout.ms": settings.request_timeout_ms,
        "queue.buffering.max.messages": max(2 * settings.in_flight, 1000),
        "queue.buffering.max.kbytes": 1 << 20,
        **settings.producer_config,
    }


def transactional_config(
    bootstrap: str, client: str, settings: TransactionSettings, transactional_id: str
) -> dict[str, Any]:
    return {
        **_common(bootstrap, client, settings),
        "transactional.id": transactional_id,
        "transaction.timeout.ms": settings.transaction_timeout_ms,
        "acks": settings.acks,
        "enable.idempotence": settings.idempotence,
        "max.in.flight.requests.per.connection": settings.requests_in_flight,
        "linger.ms": 5 if settings.linger_ms is None else settings.linger_ms,
        "batch.size": settings.batch_bytes,
        "retries": settings.retries,
        "delivery.timeout.ms": settings.delivery_timeout_ms,
        "request.timeout.ms": settings.request_timeout_ms,
        **settings.producer_config,
    }


def new_consumer(config: Mapping[str, Any], on_error: Callable[[KafkaError], None] | None = None) -> Consumer:
    return Consumer({**config, "error_cb": on_error or _log_error}, logger=LOG)


def consumer_config(bootstrap: str, client: str, settings: ClientSettings) -> dict[str, Any]:
    """Positions never move silently: an offset that is gone is an error, so that the reader can say so in the
    history."""
    return {
        **_common(bootstrap, client, settings),
        "group.id": settings.group,
        "isolation.level": settings.isolation,
        "auto.offset.reset": "error",
        "enable.auto.commit": True,
        "auto.commit.interval.ms": 1000,
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": settings.session_timeout_ms // 3,
        "partition.assignment.strategy": "roundrobin",  # eager: a rebalance takes everything away first
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 100,
        "queued.max.messages.kbytes": 16384,
        **settings.consumer_config,
    }


def drain_config(bootstrap: str, client: str, settings: ClientSettings) -> dict[str, Any]:
    return {
        **consumer_config(bootstrap, client, settings),
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
    }


def close(client: Producer | Consumer, within_s: float = CLOSE_S) -> bool:
    """Close a client, or leave it alone when that takes too long: librdkafka waits for answers of brokers that were cut
    off, for minutes. What is left behind ends with the process. What it complains of now changes nothing any more."""
    try:
        return bounded(client.close, within_s)
    except (KafkaException, SystemError) as failure:  # the latter: a fatal error, see transactional.py
        LOG.info("a client closed with %r", failure)
        return True


def bounded(end: Callable[[], object], within_s: float) -> bool:
    """Call `end` in a thread of its own; whether it was done in time. What it raises until then comes out here, what it raises later
    is nobody's business any more."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            end()
        except BaseException as failure:  # noqa: BLE001 - raised in the caller's thread
            failures.append(failure)

    ending = threading.Thread(target=run, daemon=True)
    ending.start()
    ending.join(within_s)
    if ending.is_alive():
        LOG.info("a client did not come back within %s s", within_s)
        return False
    if failures:
        raise failures[0]
    return True


def drop(client: list[Producer], within_s: float = CLOSE_S) -> None:
    """Let a producer go as a crash would, with nothing flushed and no transaction aborted, which `close` would do. The list is
    emptied: it has to hold the only reference."""
    dropping = threading.Thread(target=client.clear, daemon=True)
    dropping.start()
    dropping.join(within_s)


def _common(bootstrap: str, client: str, settings: ClientSettings) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": client,
        "statistics.interval.ms": 0,
        "log_level": 2,  # critical only: that brokers cannot be reached is what a chaos run is about
        "socket.nagle.disable": True,
        "socket.timeout.ms": settings.socket_timeout_ms,
        "socket.connection.setup.timeout.ms": settings.connect_timeout_ms,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.ms": settings.retry_backoff_ms,
        "retry.backoff.max.ms": max(1000, settings.retry_backoff_ms),
        "topic.metadata.refresh.interval.ms": 5000,
        "topic.metadata.refresh.fast.interval.ms": 100,
        "broker.address.ttl": 1000,
        "allow.auto.create.topics": False,
    }


def _log_error(error: KafkaError) -> None:
    LOG.info("%s: %s", error.name(), error.str())
