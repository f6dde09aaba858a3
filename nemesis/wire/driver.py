"""The driver's end of the wire gate: start its process, lead connections to it, and speak for `nemesis.wire.gate.Gate`.

    gate = await GateProcess.open(network, servers, clients, with_clients=False, command=..., about={...}, log=path)
    gate.died             a future that gets GateDied when the process ends and nobody asked for it
    await gate.end()

Rules are told as JSON lines over a socket pair (`server.py`); what the gate says in between updates what `Armed` knows.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

from nemesis.wire import rule as rules
from nemesis.wire.gate import BadRule, Counts, GateDied
from nemesis.wire.message import Message
from nemesis.wire.rule import Rule
from nodes.network import Network
from nodes.node import Node
from nodes.topology import BROKER_PORT, CONTROLLER_PORT

PORT: Final = 7000  # in every node's namespace
MARK: Final = 0x6B  # on the gate's own connections
KEPT: Final = 1000  # messages of a rule
READY_WITHIN: Final = 30.0
END_WITHIN: Final = 10.0


class ArmedRule:
    """Implements `nemesis.wire.gate.Armed`."""

    def __init__(self, gate: GateProcess, rule: Rule) -> None:
        self.rule = rule
        self._gate = gate
        self._counts = Counts()
        self._messages: OrderedDict[int, Message] = OrderedDict()
        self._order: list[int] = []  # the first matches, for `answered`
        self._answers: dict[int, Message] = {}
        self._changed = asyncio.Condition()

    @property
    def counts(self) -> Counts:
        return self._counts

    @property
    def messages(self) -> list[Message]:
        return list(self._messages.values())

    async def seen(self, count: int = 1) -> list[Message]:
        await self._until(lambda: self._counts.matched >= count)
        return self.messages

    async def release(
        self, which: Literal["all", "one"] = "all", order: Literal["as held", "reversed"] = "as held"
    ) -> None:
        await self._gate.ask({"do": "release", "rule": self.rule.id, "which": which, "order": order}, self)

    async def answered(self, nth: int = 1) -> Message:
        def there() -> bool:
            return len(self._order) >= nth and self._order[nth - 1] in self._answers

        await self._until(there)
        return self._answers[self._order[nth - 1]]

    async def disarm(self) -> None:
        await self._gate.ask({"do": "disarm", "rule": self.rule.id}, self)
        self._gate.forget(self)

    async def _until(self, there: Callable[[], bool]) -> None:
        """Wait for the gate to say so; GateDied when it cannot any more."""
        async with self._changed:
            while not there():
                self._gate.must_live()
                await self._changed.wait()

    async def heard(self, line: Mapping[str, Any], message: Message | None) -> None:
        if (counts := line.get("counts")) is not None:
            self._counts = Counts(**counts)
        if message is not None and "answered" in line:
            self._answers[line["request"]] = message
        elif message is not None:
            if "matched" in line and len(self._order) < KEPT:
                self._order.append(message.message)
            self._messages[message.message] = message
            if len(self._messages) > KEPT:
                self._messages.popitem(last=False)
        await self.wake()

    async def wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class GateProcess:
    """Implements `nemesis.wire.gate.Gate`."""

    def __init__(self, *, run: str, clock: str, log: Path) -> None:
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.opaque: list[str] = []  # connections that do not speak Kafka, in words
        self._run, self._clock, self._log = run, clock, log
        self._rules: dict[str, ArmedRule] = {}
        self._calls: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._call = 0
        self._ending = False
        self._process: asyncio.subprocess.Process
        self._writer: asyncio.StreamWriter
        self._listening: asyncio.Task[None]

    @classmethod
    async def open(
        cls,
        network: Network,
        servers: Sequence[Node],
        clients: Sequence[Node],
        *,
        with_clients: bool,
        command: Sequence[str],
        about: Mapping[str, Any],
        log: Path,
    ) -> GateProcess:
        """Start the process and lead the nodes' connections to it; call it before anything runs in them.

        command: argv to which the configuration is appended. about: run, clock, and whatever else the process needs to know.
        """
        gate = cls(run=about["run"], clock=about["clock"], log=log)
        through = [*servers, *(clients if with_clients else ())]
        places = [
            {
                "name": node.name,
                "address": node.address,
                "namespace": network.namespace(node.name) if node in through else None,
                "client": node in clients,
            }
            for node in (*servers, *clients)
        ]
        await gate._start(places, with_clients, command, about)
        to = {node.name: (BROKER_PORT, CONTROLLER_PORT) for node in servers}
        await asyncio.gather(*(network.intercept(node.name, to, port=PORT, mark=MARK) for node in through))
        return gate

    async def _start(
        self, places: list[dict[str, Any]], with_clients: bool, command: Sequence[str], about: Mapping[str, Any]
    ) -> None:
        mine, its = socket.socketpair()
        mine.setblocking(False)
        config = {
            **about,
            "places": places,
            "port": PORT,
            "mark": MARK,
            "with_clients": with_clients,
            "control": its.fileno(),
        }
        inherited = [its.fileno(), *(place["namespace"] for place in places if place["namespace"] is not None)]
        with its, self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                json.dumps(config),
                pass_fds=inherited,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        reader, self._writer = await asyncio.open_connection(sock=mine, limit=1 << 24)
        ready = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen(reader, ready))
        done, _ = await asyncio.wait(
            {ready, self._listening}, timeout=READY_WITHIN, return_when=asyncio.FIRST_COMPLETED
        )
        self.must_live()
        if not done:
            self._process.kill()
            raise GateDied(f"the wire gate was not ready within {READY_WITHIN:g} s")

    @property
    def pid(self) -> int:
        return self._process.pid

    async def arm(self, rule: Rule) -> ArmedRule:
        rules.check(rule)
        if rule.id in self._rules:
            raise BadRule(f"rule {rule.id} is armed already; disarm it first or choose another id")
        armed = self._rules[rule.id] = ArmedRule(self, rule)
        try:
            await self.ask({"do": "arm", "rule": rules.as_json(rule)}, armed)
        except BaseException:
            self.forget(armed)
            raise
        return armed

    async def close(self) -> None:
        await self.ask({"do": "open"})
        self._rules.clear()

    async def end(self) -> None:
        """Let the process write down what it still holds and end. GateDied when it had ended before."""
        self._ending = True
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        try:
            async with asyncio.timeout(END_WITHIN):
                code = await self._process.wait()
        except TimeoutError:
            self._process.kill()
            code = await self._process.wait()
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        if self.died.done():
            self.must_live()
        if code != 0:
            raise GateDied(self._obituary(code))

    # between this and the process

    async def ask(self, order: Mapping[str, Any], armed: ArmedRule | None = None) -> None:
        self.must_live()
        self._call += 1
        answered = self._calls[self._call] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps({**order, "call": self._call}).encode() + b"\n")
        answer = await answered
        if "bad" in answer:
            raise BadRule(answer["bad"])
        if armed is not None and answer.get("counts"):
            await armed.heard({"counts": answer["counts"]}, None)

    def forget(self, armed: ArmedRule) -> None:
        if self._rules.get(armed.rule.id) is armed:
            del self._rules[armed.rule.id]

    def must_live(self) -> None:
        if self.died.done() and (error := self.died.exception()):
            raise GateDied(str(error))

    async def _listen(self, reader: asyncio.StreamReader, ready: asyncio.Future[None]) -> None:
        with suppress(OSError):
            while line := await reader.readline():
                heard = json.loads(line)
                if "ready" in heard:
                    ready.set_result(None)
                else:
                    await self._heard(heard)
        code = await self._process.wait()
        if not self._ending:
            self.died.set_exception(GateDied(self._obituary(code)))
            self.died.exception()  # whoever looks later is told; nobody looking is no error
        for call in self._calls.values():
            if not call.done():
                call.set_exception(GateDied(self._obituary(code)))
                call.exception()
        for armed in self._rules.values():
            await armed.wake()

    async def _heard(self, line: Mapping[str, Any]) -> None:
        if "call" in line:
            call = self._calls.pop(line["call"])
            if not call.done():
                call.set_result(line)
        elif "opaque" in line:
            self.opaque.append(f"connection {line['opaque']}, {' to '.join(line['ends'])}: {line['why']}")
        elif "message" in line:
            message = Message(run=self._run, clock=self._clock, **line["message"])
            id = line.get("matched") or line.get("out") or line["answered"]
            if armed := self._rules.get(id):
                await armed.heard(line, message)
        else:
            for id, counts in line["counts"].items():
                if armed := self._rules.get(id):
                    await armed.heard({"counts": counts}, None)

    def _obituary(self, code: int) -> str:
        last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        return f"the wire gate ended with code {code}: {last[0] if last else 'it said nothing'}"
