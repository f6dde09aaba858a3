"""A race's client process: `python -m harness.race_client`, started by the stage in a client node with pipes.

First line of standard input: {"run", "clock", "writer", "client", "bootstrap", "journal"}; then commands (nemesis/races/client.py).
Standard output has one JSON line per command. It ends with code 0 when its input closes, and records until then.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from harness.history.arrow import spare_pandas
from harness.history.recorder import JournalRecorder
from nemesis.races.scripted import ScriptedClient
from workloads.outcomes import error_name

LINE_LIMIT = 16 << 20  # bytes of one command


async def main() -> int:
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    config = json.loads(await reader.readline())
    with JournalRecorder(
        Path(config["journal"]),
        run=config["run"],
        clock=config["clock"],
        writer=config["writer"],
        client=config["client"],
    ) as recorder:
        client = ScriptedClient(client=config["client"], bootstrap=config["bootstrap"], recorder=recorder)
        working: set[asyncio.Task[None]] = set()
        while line := await reader.readline():
            task = asyncio.create_task(_answer(client, json.loads(line)))
            working.add(task)
            task.add_done_callback(working.discard)
        for task in working:
            task.cancel()
        await client.close()
        recorder.flush()
    return 0


async def _answer(client: ScriptedClient, command: Mapping[str, Any]) -> None:
    try:
        answer: dict[str, Any] = {"result": await client.do(command)}
    except Exception as error:  # noqa: BLE001 - the script is told whatever went wrong, by its name
        kafka = isinstance(error, KafkaException)
        if not kafka:
            traceback.print_exc()
        name = error_name(error.args[0]) if kafka else type(error).__name__
        answer = {"error": {"what": f"{command.get('do')}", "name": name, "message": str(error)}}
    sys.stdout.write(json.dumps({"id": command.get("id"), **answer}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    spare_pandas()
    sys.exit(asyncio.run(main()))
