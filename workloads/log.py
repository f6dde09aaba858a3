"""The `log` workload: producers append unique records, consumers read them back, and a final read sees what is left.

A Kafka topic is a set of logs, so the workload is the simplest that can show that an acknowledged record is gone,
doubled, moved or out of order: append values that nobody else appends, read by offset, and read everything once more at
the end.

What its history can and cannot say:

* Two acknowledged sends of one `client` to one partition are in the order of their `sequence` only where the client
  promises it: with `idempotence`, or with `requests_in_flight: 1`. A send of unknown outcome may land at any time.
* librdkafka does not tell which broker answered, nor a leader epoch for sends: those columns are empty there. Reads have
  offset, leader epoch and timestamp. An acknowledged send has no offset when librdkafka learned of its success from a
  later batch or from DUPLICATE_SEQUENCE_NUMBER.
* Duplicates in spite of `idempotence` are the client's doing when sends of that `client` ended in _MSG_TIMED_OUT (see
  `delivery_timeout_ms`). Under kills and pauses of 6 to 7 s, four runs with a timeout of 4 s had 64 to 1654 duplicates
  each, and three with 120 s had none.
"""

from __future__ import annotations

from typing import ClassVar

from workloads.drain import drain_partitions
from workloads.poller import Poller
from workloads.sender import Sender
from workloads.settings import Settings
from workloads.worker import Actor, run_actors
from workloads.workload import ClientContext


class LogWorkload:
    name: ClassVar[str] = "log"
    Settings: ClassVar[type[Settings]] = Settings

    def run(self, context: ClientContext) -> None:
        """Send and read until `context.stop`. `context.rate` is shared evenly among all producers of all clients."""
        settings = Settings.model_validate(dict(context.settings))
        actors: list[Actor] = [Sender(context, settings, index) for index in range(settings.producers)]
        actors += [Poller(context, settings, index) for index in range(settings.consumers)]
        run_actors(actors, context.stop, context.progress)
        context.recorder.flush()

    def drain(self, context: ClientContext, deadline_s: float) -> None:
        """Read this client's share of the partitions from start to end, within `deadline_s` seconds from now."""
        drain_partitions(context, Settings.model_validate(dict(context.settings)), deadline_s)
        context.recorder.flush()
