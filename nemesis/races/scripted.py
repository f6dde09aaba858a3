"""What a race's client does inside its node: commands in, answers out, every op recorded before it is sent.

Long-lived, so that a script can interleave steps inside one producer (begin, send, hold something, commit) and so that
connections and producer ids are there before the race begins. Underneath are the same librdkafka, recorder and table of
outcomes as in workloads. Commands are the public coroutines of `ScriptedClient`; each runs beside the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from nemesis.races.scripted_producer import ScriptedProducer
from workloads import clients
from workloads.op import OpKind, Outcome, Phase
from workloads.outcomes import error_name
from workloads.poller import columns, sorted_out
from workloads.settings import Settings
from workloads.workload import Recorder


class Unknown(Exception):
    """A command or a producer that is not there."""


class ScriptedClient:
    """`client`: name of the client node; Kafka clients are named "w1.p" after it."""

    def __init__(self, *, client: str, bootstrap: str, recorder: Recorder) -> None:
        self._client, self._bootstrap, self._recorder = client, bootstrap, recorder
        self._producers: dict[str, ScriptedProducer] = {}
        self._readers: Counter[str] = Counter()

    async def do(self, command: Mapping[str, Any]) -> Any:
        """Carry out one command; returns its answer as plain JSON data."""
        arguments = {key: value for key, value in command.items() if key not in ("id", "do")}
        verbs: Mapping[str, Callable[..., Awaitable[Any]]] = {
            "producer": self.producer,
            "send": self.send,
            "flush": self.flush,
            "begin": self.begin,
            "end": self.end,
            "read": self.read,
            "ask_end": self.ask_end,
        }
        if command["do"] not in verbs:
            raise Unknown(f"no command {command['do']!r}; there are {', '.join(verbs)}")
        return await verbs[command["do"]](**arguments)

    async def producer(
        self, name: str, settings: Mapping[str, Any], transactional_id: str | None, within: float
    ) -> dict[str, Any]:
        """Make a producer and have it connected, with its producer id where it is transactional."""
        if name in self._producers:
            raise Unknown(f"there is a producer {name!r} already")
        made = ScriptedProducer(
            f"{self._client}.{name}",
            self._bootstrap,
            Settings.model_validate(dict(settings)),
            self._recorder,
            transactional_id=transactional_id,
        )
        await asyncio.to_thread(made.connect, within)
        self._producers[name] = made
        return {}

    async def send(self, producer: str, topic: str, partition: int, count: int, within: float) -> dict[str, Any]:
        """Send records; answers when all have landed, or after `within` seconds (0: at once)."""
        return await asyncio.to_thread(self._find(producer).send, topic, partition, count, within)

    async def flush(self, producer: str, within: float) -> dict[str, Any]:
        """Wait for everything this producer has sent so far."""
        return await asyncio.to_thread(self._find(producer).flush, within)

    async def begin(self, producer: str) -> dict[str, Any]:
        await asyncio.to_thread(self._find(producer).begin)
        return {}

    async def end(self, producer: str, commit: bool, within: float) -> dict[str, Any]:
        """Commit or abort; answers with the error that the client was told, None when it succeeded."""
        return {"error": await asyncio.to_thread(self._find(producer).end, commit, within)}

    async def read(
        self, topic: str, partition: int, isolation: str, within: float, to: int | None = None
    ) -> dict[str, Any]:
        """Read a partition from its start to its end (or to offset `to`), as a consumer of its own."""
        self._readers[""] += 1
        name = f"{self._client}.r{self._readers['']}"
        return await asyncio.to_thread(self._read, name, topic, partition, isolation, within, to)

    async def ask_end(self, topic: str, partition: int, within: float) -> dict[str, Any]:
        """Ask where a partition ends, as consumers do (ListOffsets), and record what was told: `end`, or an `error`."""
        self._readers[""] += 1
        name = f"{self._client}.r{self._readers['']}"
        return await asyncio.to_thread(self._ask_end, name, TopicPartition(topic, partition), within)

    def _ask_end(self, name: str, place: TopicPartition, within: float) -> dict[str, Any]:
        consumer = clients.new_consumer(clients.drain_config(self._bootstrap, name, Settings()))
        start: int | None = None
        end: int | None = None
        error: str | None = None
        about: dict[str, Any] = {"phase": Phase.MAIN, "topic": place.topic, "partition": place.partition}
        process = self._recorder.new_process()
        op = self._recorder.invoke(client=name, kind=OpKind.BOUNDS, process=process, **about)
        try:
            start, end = consumer.get_watermark_offsets(place, timeout=within, cached=False)
        except KafkaException as raised:
            error = error_name(raised.args[0])
        finally:
            clients.close(consumer)
        self._recorder.bounds(op, log_start=start, log_end=end, read_to=None, error=error, **about)
        self._recorder.complete(op, Outcome.FAIL if error else Outcome.OK, error=error)
        return {"end": end, "error": error}

    def _read(
        self, name: str, topic: str, partition: int, isolation: str, within: float, to: int | None
    ) -> dict[str, Any]:
        settings = Settings.model_validate({"isolation": isolation})
        consumer = clients.new_consumer(clients.drain_config(self._bootstrap, name, settings))
        try:
            return self._read_with(consumer, name, TopicPartition(topic, partition), settings, within, to)
        finally:
            clients.close(consumer)

    def _read_with(
        self,
        consumer: Consumer,
        name: str,
        place: TopicPartition,
        settings: Settings,
        within: float,
        to: int | None,
    ) -> dict[str, Any]:
        process, until = self._recorder.new_process(), self._recorder.now_ns() + int(within * 1e9)
        start, end = consumer.get_watermark_offsets(place, timeout=within, cached=False)
        end = end if to is None else to
        offsets: list[int] = []
        values: list[str | None] = []
        invoke = partial(
            self._recorder.invoke,
            client=name,
            phase=Phase.MAIN,
            process=process,
            topic=place.topic,
            partition=place.partition,
        )
        op = invoke(kind=OpKind.ASSIGN)
        consumer.assign([TopicPartition(place.topic, place.partition, start)])
        self._recorder.complete(op, Outcome.OK)
        position = start
        while position < end and self._recorder.now_ns() < until:
            op = invoke(kind=OpKind.POLL)
            try:
                messages, failure = consumer.consume(settings.poll_records, 0.1), None
            except KafkaException as raised:
                messages, failure = [], error_name(raised.args[0])
            good, bad = sorted_out(messages)
            ends = [message.offset() or 0 for error, message in bad if error.code() == KafkaError._PARTITION_EOF]
            reads = columns(good, settings.value_bytes)
            self._recorder.complete(
                op, Outcome.FAIL if failure and not good else Outcome.OK, error=failure, reads=reads
            )
            if reads is not None:
                offsets += reads.offsets
                values += reads.values
                position = max(position, reads.offsets[-1] + 1)
            position = max([position, *ends])
        return {"offsets": offsets, "values": [value or "" for value in values], "end": end, "reached": position}

    async def close(self) -> None:
        """What is unanswered stays open in the history."""
        await asyncio.gather(*(asyncio.to_thread(one.close) for one in self._producers.values()))

    def _find(self, producer: str) -> ScriptedProducer:
        if producer not in self._producers:
            raise Unknown(f"no producer {producer!r}; there are {', '.join(self._producers) or 'none'}")
        return self._producers[producer]
