"""The middle of `krash up`: the cluster is deployed; run the user's command beside it, or wait for Ctrl-C.

The command inherits this process's terminal and runs in the first client's network, with KRASH_BOOTSTRAP set. A holder process in the same
namespaces connects to the supervisor, which so learns a process id that people can `nsenter`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from nodes.node import Node

if TYPE_CHECKING:
    from harness.stage import Stage

HOLDER = (
    "import json, socket, sys\n"
    "line = socket.socket(socket.AF_UNIX)\n"
    "line.connect(sys.argv[1])\n"
    "line.sendall(json.dumps({'type': 'holder'}).encode() + b'\\n')\n"
    "line.recv(1)\n"
)
STOP_DEADLINE = 10.0  # seconds for a user's command to end after SIGTERM


async def keep_up(stage: Stage) -> int:
    """Exit code of the command, 0 without one."""
    deployment = stage.deployment
    client = next(iter(deployment.cluster.clients.values()))
    command = list(deployment.info.more.get("up_command") or [])
    holder = await asyncio.create_subprocess_exec(*client.attach((sys.executable, "-c", HOLDER, str(stage.control))))
    try:
        stage.line.send(type="ready", bootstrap=deployment.cluster.bootstrap)
        if not command:
            await stage.interrupt.wait()
            stage.status, stage.reason = "interrupted", "ended by Ctrl-C"
            return 0
        return await _run_command(stage, client, command)
    finally:
        holder.kill()
        await holder.wait()


async def _run_command(stage: Stage, client: Node, command: list[str]) -> int:
    environment = {**os.environ, "KRASH_BOOTSTRAP": stage.deployment.cluster.bootstrap}
    try:
        process = await asyncio.create_subprocess_exec(*client.attach(command), env=environment)
    except OSError as error:
        stage.spoil(f"cannot run {command[0]}: {error}")
        return 0
    ended = asyncio.create_task(process.wait())
    interrupted = asyncio.create_task(stage.interrupt.wait())
    await asyncio.wait([ended, interrupted], return_when=asyncio.FIRST_COMPLETED)
    interrupted.cancel()
    if not ended.done():
        stage.status, stage.reason = "interrupted", "ended by Ctrl-C"
        process.terminate()
        try:
            async with asyncio.timeout(STOP_DEADLINE):
                await asyncio.shield(ended)
        except TimeoutError:
            process.kill()
    code = await ended
    return code if code >= 0 else 128 - code
