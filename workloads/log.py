"""The `log` workload: producers append unique records, consumers read them back, and a final read sees what is left.

A Kafka topic is a set of logs, so the workload is the simplest that can show that an acknowledged record is gone,
doubled, moved or out of order: append values that nobody else appends, read by offset, and read everything once more at
the end.
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
