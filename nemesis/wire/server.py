"""The gate process: a listening socket in every node's network namespace, and the driver's line.

    {"do": "arm", "call": 1, "rule": {...}}                           -> {"call": 1}  or  {"call": 1, "bad": "no api ..."}
    {"do": "release", "call": 2, "rule": "stale", "which": "all", "order": "as held"}
    {"do": "disarm", "call": 3, "rule": "stale"}      {"do": "open", "call": 4}  (release and disarm everything)

One JSON object per line; what the gate says by itself is in `engine.py`, after a first {"ready": true}. The end of the line is the end
of the process: what is still held is written down, and connections end with it. A socket belongs to the namespace in which it was
made, so one process, and one thread, serves all of them; only the making happens inside (nodes/backends/namespaces.py).
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nemesis.wire import apis
from nemesis.wire.connection import CallerSide, Connection, ServerSide
from nemesis.wire.engine import TICK, Engine, Recorder, Say
from nemesis.wire.rule import BadRule, from_json
from nemesis.wire.rulebook import Names, Rulebook
from nodes.backends.namespaces import within

CONNECT_WITHIN: Final = 10.0  # seconds; Kafka's socket.connection.setup.timeout.ms
_BACKLOG: Final = 512


@dataclass(frozen=True, kw_only=True)
class Place:
    """A node as the gate needs it."""

    name: str
    address: str  # IPv4
    namespace: int | None  # descriptor; None: its own connections are not intercepted
    client: bool = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    places: Sequence[Place]
    port: int
    mark: int
    with_clients: bool


async def serve(settings: Settings, recorder: Recorder, control: socket.socket) -> None:
    """Until the driver's end of the line closes."""
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection(sock=control, limit=1 << 24)

    def say(line: Mapping[str, Any]) -> None:
        writer.write(json.dumps(line).encode() + b"\n")

    places = settings.places
    dialling: set[asyncio.Task[None]] = set()

    def dial(connection: Connection, address: tuple[str, int]) -> None:
        task = loop.create_task(_dial(connection, address, namespaces[connection.source], settings.mark))
        dialling.add(task)
        task.add_done_callback(dialling.discard)

    namespaces = {place.name: place.namespace for place in places if place.namespace is not None}
    names = Names(
        servers=frozenset(place.name for place in places if not place.client),
        clients=frozenset(place.name for place in places if place.client),
        with_clients=settings.with_clients,
    )
    engine = Engine(
        rulebook=Rulebook(names),
        recorder=recorder,
        say=say,
        loop=loop,
        dial=dial,
        names={place.address: place.name for place in places},
    )
    for name, namespace in namespaces.items():
        listening = await within(namespace, lambda: _listening(settings.port))
        await loop.create_server(lambda name=name: CallerSide(engine, name), sock=listening, backlog=_BACKLOG)  # type: ignore[misc]
    apis.warm_up()
    failed: asyncio.Future[None] = loop.create_future()
    loop.set_exception_handler(lambda _, context: _fail(failed, context))
    say({"ready": True})
    jobs = [loop.create_task(_listen(reader, engine, say)), loop.create_task(_tick(engine, recorder))]
    try:
        done, _ = await asyncio.wait([*jobs, failed], return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for job in jobs:
            job.cancel()
        engine.finish()


def _fail(failed: asyncio.Future[None], context: Mapping[str, Any]) -> None:
    """A gate that is wrong about one connection is to be trusted with none: whatever a callback raises ends it."""
    if not failed.done():
        error = context.get("exception")
        failed.set_exception(error if isinstance(error, Exception) else RuntimeError(context["message"]))


async def _listen(reader: asyncio.StreamReader, engine: Engine, say: Say) -> None:
    while line := await reader.readline():
        order = json.loads(line)
        answer = _obey(engine, order)
        engine.loop.call_soon(say, {"call": order["call"], **answer})  # after what was written has reached the kernel


async def _tick(engine: Engine, recorder: Recorder) -> None:
    while True:
        await asyncio.sleep(TICK)
        recorder.flush()
        engine.tick()


def _obey(engine: Engine, order: Mapping[str, Any]) -> dict[str, Any]:
    match order["do"]:
        case "arm":
            try:
                engine.rulebook.arm(from_json(order["rule"]))
            except BadRule as bad:
                return {"bad": str(bad)}
        case "release":
            try:
                released = engine.release(order["rule"], order["which"], order["order"])
            except KeyError:
                return {"bad": f"rule {order['rule']} is not armed"}
            return {"released": released, "counts": _counts(engine, order["rule"])}
        case "disarm":
            counts = _counts(engine, order["rule"])
            engine.disarm(order["rule"])
            return {"counts": counts}
        case "open":
            for rule in list(engine.rulebook.rules):
                engine.disarm(rule.rule.id)
        case other:
            return {"bad": f"{other} is nothing that the gate does"}
    return {}


def _counts(engine: Engine, id: str) -> dict[str, int] | None:
    rule = engine.rulebook.find(id)
    return rule.counts_as_json() if rule else None


def _listening(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def _marked(mark: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


async def _dial(connection: Connection, address: tuple[str, int], namespace: int, mark: int) -> None:
    """Connect the server's side, or let the caller see that it cannot be reached."""
    loop = asyncio.get_running_loop()
    made = await within(namespace, lambda: _marked(mark))
    try:
        async with asyncio.timeout(CONNECT_WITHIN):
            await loop.sock_connect(made, address)
    except (OSError, TimeoutError):
        made.close()
        connection.unreachable()
        return
    except BaseException:
        made.close()
        raise
    await loop.create_connection(lambda: ServerSide(connection), sock=made)
