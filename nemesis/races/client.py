"""The driver's side of a race's clients: one process per client node, and handles for what lives in it.

    p = await on.producer("p", transactional_id="tx-1")     # in the first client node; `client="w2"` for another
    await p.begin()
    await p.send("t", 0, 5)
    await p.flush()
    await p.commit()

The process (nemesis/races/scripted.py, started as `python -m harness.race_client`) gets commands as JSON lines and answers
each with one, in any order: `{"id": 3, "do": "send", ...}` -> `{"id": 3, "result": {...}}` or `{"id": 3, "error": {...}}`. It records
every op before it is sent, as a workload does. When it dies the run is a harness error.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ANSWER_LIMIT = 16 << 20  # bytes of one answer
END_WITHIN = 20.0  # seconds


class ClientDied(Exception):
    """The process of a race's client ended by itself, or does not answer; the message holds its last words."""


class CommandFailed(Exception):
    """The client could not do what it was told; `error` is Kafka's or librdkafka's name where there is one."""

    def __init__(self, what: str, error: str, message: str) -> None:
        super().__init__(f"{what}: {error}: {message}")
        self.error = error


@dataclass(frozen=True, kw_only=True)
class Produced:
    """What became of the records of one `send`."""

    sent: int
    offsets: tuple[int, ...] = ()  # of those acknowledged with an offset
    errors: Mapping[str, int] = field(default_factory=dict)  # error name -> how many failed or are unknown with it
    pending: int = 0  # not answered yet

    @property
    def acknowledged(self) -> int:
        return len(self.offsets)

    @property
    def told(self) -> str:
        parts = [f"{self.acknowledged} of {self.sent} acknowledged"]
        if self.offsets:
            parts[0] += f", offsets {min(self.offsets)}..{max(self.offsets)}"
        parts += [f"{count} {error}" for error, count in self.errors.items()]
        return "; ".join([*parts, *([f"{self.pending} not answered"] if self.pending else [])])

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Produced:
        return cls(
            sent=result["sent"],
            offsets=tuple(result["offsets"]),
            errors=dict(result["errors"]),
            pending=result["pending"],
        )


@dataclass(frozen=True, kw_only=True)
class Read:
    """What one `read` brought: values and their offsets, in order."""

    offsets: tuple[int, ...]
    values: tuple[str, ...]


class Client:
    """One client process. `argv` starts it inside its node; `config` is its first line of input."""

    def __init__(self, name: str, argv: Sequence[str], config: Mapping[str, Any], log: Path) -> None:
        self.name = name
        self._argv, self._config, self._log = list(argv), dict(config), log
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._dead: str | None = None

    async def start(self) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=ANSWER_LIMIT,
            )
        self._listening = asyncio.create_task(self._listen(), name=f"client {self.name}")
        self._write(self._config)

    async def tell(self, do: str, **arguments: Any) -> Any:
        """One command, until it is answered. CommandFailed, ClientDied."""
        if self._dead is not None or self._process is None:
            raise ClientDied(self._dead or f"client {self.name} does not run")
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._write({"id": number, "do": do, **arguments})
            return await answer
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """End it: it completes what it can record, and leaves. ClientDied when it ended badly."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(END_WITHIN):
                code = await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
            raise ClientDied(f"client {self.name} did not end within {END_WITHIN:g} s") from None
        finally:
            if self._listening is not None:
                await asyncio.gather(self._listening, return_exceptions=True)
        if code != 0:
            raise ClientDied(f"client {self.name} ended with code {code}: {self._last_words()}")

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")

    async def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if line.startswith(b"{"):
                self._take(json.loads(line))
        code = await self._process.wait()
        self._dead = f"client {self.name} ended with code {code}: {self._last_words()}"
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ClientDied(self._dead))

    def _take(self, answer: Mapping[str, Any]) -> None:
        waiting = self._waiting.get(answer.get("id", 0))
        if waiting is None or waiting.done():
            return
        if "error" in answer:
            error = answer["error"]
            waiting.set_exception(CommandFailed(error["what"], error["name"], error["message"]))
        else:
            waiting.set_result(answer["result"])

    def _last_words(self) -> str:
        try:
            said = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            said = []
        return said[-1][:300] if said else "it said nothing"
