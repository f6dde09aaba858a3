"""Producers and readers of a race, as its script sees them. What they do is recorded in the client's own process.

p = await on.producer("p", transactional_id="tx-1", settings={"delivery_timeout_ms": 8000})
await p.begin()
await p.send("t", 0, 5)                   # acknowledged, or the race is not reached
await p.send("t", 0, 5, need="any")       # takes what comes: Produced(sent=5, offsets=(), errors={"...": 5})
await p.send("t", 0, 5, need="nothing")   # does not wait; p.flush() does
error = await p.commit()                  # None, or what the client was told; also p.abort()
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from nemesis.races.books import NotReached, StepBook
from nemesis.races.client import Client, Produced, Read

if TYPE_CHECKING:
    from nemesis.races.raw import RawClient

USUAL = "p"
TRANSACTION_S = 30  # seconds after which a record of a transaction is given up; librdkafka wants less than its 60 s
ENDS_WITHIN = 30.0  # seconds for a commit or an abort
Need = Literal["all", "any", "nothing"]


class Producer:
    """One producer. `client_id` is what the brokers and the wire gate see."""

    def __init__(self, name: str, client: Client, steps: StepBook) -> None:
        self.name, self.client_id = name, f"{client.name}.{name}"
        self._client, self._steps = client, steps

    async def send(
        self, topic: str, partition: int, count: int, *, within: float = 30.0, need: Need = "all"
    ) -> Produced:
        """Send records. need: "all" must be acknowledged within so many seconds, "any" outcome is fine, "nothing" is waited for."""
        text = f"{self.client_id} sends {count} records to {topic}-{partition}"
        async with self._steps.step("produce", text, (self._client.name,)) as now:
            told = await self._client.tell(
                "send",
                producer=self.name,
                topic=topic,
                partition=partition,
                count=count,
                within=0 if need == "nothing" else within,
            )
            return _judge(Produced.of(told), need, text, within, now)

    async def flush(self, *, within: float = 30.0, need: Need = "all") -> Produced:
        """Wait for everything that was sent and not waited for."""
        text = f"{self.client_id} waits for what it sent"
        async with self._steps.step("flush", text, (self._client.name,)) as now:
            produced = Produced.of(await self._client.tell("flush", producer=self.name, within=within))
            return _judge(produced, need, text, within, now)

    async def begin(self) -> None:
        async with self._steps.step("begin", f"{self.client_id} begins a transaction", (self._client.name,)):
            await self._client.tell("begin", producer=self.name)

    async def commit(self, *, within: float = ENDS_WITHIN) -> str | None:
        """The error that the client was told, None for success."""
        return await self._end("commit", within)

    async def abort(self, *, within: float = ENDS_WITHIN) -> str | None:
        return await self._end("abort", within)

    async def _end(self, verb: str, within: float) -> str | None:
        async with self._steps.step(verb, f"{self.client_id} {verb}s its transaction", (self._client.name,)) as now:
            told = await self._client.tell("end", producer=self.name, commit=verb == "commit", within=within)
            error: str | None = told["error"]
            now.seen = f"the client was told: {error or 'success'}"
            return error


def _judge(produced: Produced, need: Need, text: str, within: float, now: Any) -> Produced:
    now.seen = produced.told
    if need == "all" and produced.acknowledged < produced.sent:
        raise NotReached(f"{text}, acknowledged within {within:g} s", produced.told)
    return produced


class Actors:
    """All clients of one race. `raw` makes a client of raw requests in a client node."""

    def __init__(
        self,
        steps: StepBook,
        clients: Mapping[str, Client],
        raw: Callable[[str, str], Awaitable[RawClient]] | None,
    ) -> None:
        self._steps, self._clients, self._raw = steps, clients, raw
        self._usual: Producer | None = None

    async def usual(self) -> Producer:
        """The producer that is meant when a script names none."""
        if self._usual is None:
            self._usual = await self._make(USUAL, next(iter(self._clients.values())))
        return self._usual

    async def producer(
        self,
        name: str,
        *,
        client: str | None = None,
        transactional_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
        within: float = 30.0,
    ) -> Producer:
        """Make one and have it connected, a transactional one with its producer id (fencing earlier ones of that id).

        client: its node, the first by default. settings: as in a spec's `workload` section: acks, idempotence,
        delivery_timeout_ms, request_timeout_ms, socket_timeout_ms, linger_ms, producer_config, ...
        """
        node = self._find(client)
        what = f"transactional producer {transactional_id!r}" if transactional_id else "producer"
        async with self._steps.step("producer", f"{node.name}.{name} is a new {what}", (node.name,)):
            return await self._make(name, node, transactional_id, settings or {}, within)

    async def _make(
        self,
        name: str,
        client: Client,
        transactional_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
        within: float = 30.0,
    ) -> Producer:
        made: dict[str, Any] = {"acks": "all", "linger_ms": 0, "producers": 1}
        made |= {"delivery_timeout_ms": TRANSACTION_S * 1000} if transactional_id else {}
        made |= settings or {}
        await client.tell("producer", name=name, settings=made, transactional_id=transactional_id, within=within)
        return Producer(name, client, self._steps)

    async def read(
        self,
        topic: str,
        partition: int,
        *,
        client: str | None = None,
        isolation: str = "read_uncommitted",
        within: float = 10.0,
        to: int | None = None,
    ) -> Read:
        """Read from the log's start to its end (or to offset `to`), for at most `within` seconds; what came is recorded as polls."""
        node = self._find(client)
        text = f"{node.name} reads {topic}-{partition} ({isolation})"
        async with self._steps.step("read", text, (node.name,)) as now:
            told = await node.tell("read", topic=topic, partition=partition, isolation=isolation, within=within, to=to)
            now.seen = f"{len(told['offsets'])} records, up to offset {told['reached']} of {told['end']}"
            return Read(offsets=tuple(told["offsets"]), values=tuple(told["values"]))

    async def ask_end(
        self, topic: str, partition: int, *, client: str | None = None, within: float = 10.0
    ) -> int | None:
        """The offset at which a consumer is told that a partition ends, recorded; None: it was not told within so many seconds."""
        node = self._find(client)
        async with self._steps.step("ask-end", f"{node.name} asks where {topic}-{partition} ends", (node.name,)) as now:
            told = await node.tell("ask_end", topic=topic, partition=partition, within=within)
            now.seen = f"not told: {told['error']}" if told["error"] else f"at offset {told['end']}"
            end: int | None = told["end"]
            return end

    async def raw(self, name: str, client: str) -> RawClient:
        if self._raw is None:
            raise RuntimeError("raw requests need a client node")
        return await self._raw(name, client)

    async def warm_up(self) -> None:
        await self.usual()

    def _find(self, client: str | None) -> Client:
        name = client or next(iter(self._clients))
        if name not in self._clients:
            raise KeyError(f"no client {name!r}; there are {', '.join(self._clients)}")
        return self._clients[name]
