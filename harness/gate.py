"""The wire gate's process: `python -m harness.gate CONFIG`, started by the driver beside the nodes (nemesis/wire/driver.py).

CONFIG is JSON: what `nemesis/wire/server.py` needs, and where to record. Descriptors of namespaces and of the driver's line
are inherited. It ends when the line does; exit code 0, or 3 with the reason as the last line of standard error.
"""

from __future__ import annotations

import gc
import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop

from harness.history.arrow import spare_pandas
from harness.history.messages import MessageRecorder
from nemesis.wire.server import Place, Settings, serve

HARNESS_ERROR = 3


def main(config: Mapping[str, Any]) -> None:
    recorder = MessageRecorder(
        Path(config["journal"]), run=config["run"], clock=config["clock"], writer=config["writer"]
    )
    settings = Settings(
        places=[Place(**place) for place in config["places"]],
        port=config["port"],
        mark=config["mark"],
        with_clients=config["with_clients"],
    )
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)  # frames in flight are many and short-lived; they make no cycles
    try:
        uvloop.run(serve(settings, recorder, socket.socket(fileno=config["control"])))
    finally:
        recorder.close()


if __name__ == "__main__":
    spare_pandas()
    try:
        main(json.loads(sys.argv[1]))
    except Exception as error:  # noqa: BLE001 - the last line tells the driver whatever went wrong
        import traceback

        traceback.print_exc()
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(HARNESS_ERROR)
