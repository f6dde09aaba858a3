"""A client process: `python -m harness.client CONFIG.json`, started by the driver in a client node.

It loads a workload by name, hands it a recorder, random streams and a stop event, and runs it. One process per client
node and phase. SIGTERM means: finish what is in flight, then return. Standard output is JSON lines for the driver:

    {"started": {"client": "w1", "phase": "main", "at_ns": 81237123}}
    {"progress": {"attempted": 1000, "acknowledged": 990}, "at_ns": 81737123}
    {"done": {"at_ns": 99123123}}                                               exit code 0
    {"error": {"type": "KafkaException", "message": "...", "trace": "..."}}     exit code 3

The config is `ClientConfig` as JSON. Imports stay light: this process shares two cores with what it measures.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from random import Random
from typing import Any

from harness.choices import Choices
from harness.history.arrow import spare_pandas
from harness.history.plan import CLIENT, client_actor, recorded_choices
from harness.history.recorder import JournalRecorder
from harness.plugins import Group, load
from workloads.op import Phase
from workloads.workload import ClientContext, TopicFacts, Workload

HARNESS_ERROR = 3


class ConfigError(Exception):
    """The config file of a client process is not what it should be; the message names the field."""


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    run: str
    clock: str
    writer: int  # unique in the run
    client: str  # name of the client node
    index: int
    clients: int
    bootstrap: str
    topics: list[dict[str, Any]]  # TopicFacts: {"name": "log", "partitions": 4}
    workload: str  # a krash.workloads entry point
    seed: int
    journal: str  # directory, as this process sees it
    phase: str = Phase.MAIN
    settings: dict[str, Any] = field(default_factory=dict)
    rate: float | None = None
    deadline_s: float | None = None  # main: stop by itself after so long; final: the drain's deadline, needed
    life: int = 0  # how many processes of this client were killed before in this phase
    replay: str | None = None  # run directory whose choices to take again

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> ClientConfig:
        """ConfigError on unknown, missing or impossible fields."""
        if not isinstance(data, dict):
            raise ConfigError("expected a JSON object")
        known = {item.name for item in fields(cls)}
        needed = {item.name for item in fields(cls) if item.default is MISSING and item.default_factory is MISSING}
        if unknown := sorted(data.keys() - known):
            raise ConfigError(f"unknown fields: {', '.join(unknown)}")
        if missing := sorted(needed - data.keys()):
            raise ConfigError(f"missing fields: {', '.join(missing)}")
        config = cls(**data)
        if config.phase not in list(Phase):
            raise ConfigError(f"phase is {config.phase!r}; expected one of {', '.join(Phase)}")
        if config.phase == Phase.FINAL and config.deadline_s is None:
            raise ConfigError("deadline_s is needed in phase final")
        return config


def run_client(config: ClientConfig, stop: threading.Event) -> None:
    """Run one phase of the workload of one client, recording into the journal."""
    workload: Workload = load(Group.WORKLOADS, config.workload)()
    journal = Path(config.journal)
    with ExitStack() as stack:
        recorder = stack.enter_context(
            JournalRecorder(journal, run=config.run, clock=config.clock, writer=config.writer, client=config.client)
        )
        recorded = recorded_choices(Path(config.replay), f"{CLIENT}{config.client}/") if config.replay else None
        choices = Choices(config.seed, recorded, file=journal / f"{config.writer}.choices")
        stack.callback(choices.close)

        # A later life is another client to all who count its sequences or take its choices again.
        name, phase = (f"{text}r{config.life}" if config.life else text for text in (config.client, config.phase))

        def stream(actor: str, index: int) -> Random:
            return choices.stream(client_actor(config.client, phase, actor), index)

        def progress(counts: Mapping[str, int]) -> None:
            _say({"progress": dict(counts), "at_ns": recorder.now_ns()})

        context = ClientContext(
            client=name,
            index=config.index,
            clients=config.clients,
            bootstrap=config.bootstrap,
            topics=tuple(TopicFacts(**topic) for topic in config.topics),
            settings=config.settings,
            rate=config.rate,
            recorder=recorder,
            stream=stream,
            stop=stop,
            progress=progress,
        )
        _say({"started": {"client": config.client, "phase": config.phase, "at_ns": recorder.now_ns()}})
        _run_phase(workload, context, config)
        recorder.flush()
        _say({"done": {"at_ns": recorder.now_ns()}})


def _run_phase(workload: Workload, context: ClientContext, config: ClientConfig) -> None:
    if config.phase == Phase.FINAL:
        assert config.deadline_s is not None
        workload.drain(context, config.deadline_s)
        return
    alarm = None
    if config.deadline_s is not None:
        alarm = threading.Timer(config.deadline_s, context.stop.set)
        alarm.daemon = True
        alarm.start()
    try:
        workload.run(context)
    finally:
        if alarm is not None:
            alarm.cancel()


def _say(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(argv: list[str]) -> int:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    spare_pandas()
    try:
        if len(argv) != 1:
            raise ConfigError("usage: python -m harness.client CONFIG.json")
        path = Path(argv[0])
        try:
            config = ClientConfig.from_json(json.loads(path.read_bytes()))
        except (OSError, ValueError, ConfigError) as error:
            raise ConfigError(f"{path}: {error}") from error
        run_client(config, stop)
    except Exception as error:  # noqa: BLE001  the last line tells the driver whatever went wrong
        _say({"error": {"type": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}})
        return HARNESS_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
