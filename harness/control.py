"""The line between a run's two processes: the supervisor outside, the stage inside the backend's enclosure.

JSON objects, one per line, over a Unix socket whose path both see (file system sockets cross network namespaces; standard input and
output stay free for a user's own command). Stage -> supervisor, by `type`:

    {"type": "phase", "name": "deploy"}                 a phase began
    {"type": "note", "text": "b2 is ready"}             one line for people
    {"type": "progress", "acknowledged": 1200, ...}     counters so far
    {"type": "fault", "name": "kill", "targets": ["b1"], "status": "active", "sentence": "..."}
    {"type": "alive"}                                   at least once a second: silence means a hang
    {"type": "ready", "bootstrap": "..."}               `krash up`: clients can come
    {"type": "done", "status": "completed", "reason": null, "code": 0}

Supervisor -> stage: {"type": "interrupt"} (stop early, heal, drain, end).
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

LINE_LIMIT = 1 << 20  # bytes


class Line:
    """One end of the connection. `send` never blocks the caller for long: lines are small and the other end always reads."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, **message: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """What the other end sent, until it closes."""
        while True:
            try:
                line = await self._reader.readline()
            except ConnectionError:
                return
            if not line.endswith(b"\n"):
                return
            yield json.loads(line)

    def peer_pid(self) -> int:
        """Process id of the other end, as this process's pid namespace numbers it."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        return int(pid)

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return  # the other end is gone already, which is what closing wants


async def connect(path: Path) -> Line:
    reader, writer = await asyncio.open_unix_connection(str(path), limit=LINE_LIMIT)
    return Line(reader, writer)
