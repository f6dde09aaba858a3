"""The supervisor against stages that behave, die, fall silent and are interrupted.

Stages are small scripts that speak the control protocol.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import supervisor as module
from harness.supervisor import Ending, Supervisor

PRELUDE = """
import json, os, signal, socket, sys, threading
line = socket.socket(socket.AF_UNIX); line.connect(sys.argv[-1]); incoming = line.makefile()
def say(**message): line.sendall(json.dumps(message).encode() + b"\\n")
"""


class Heard:
    """Collects what the stage says; `react` is called with every message."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.interrupts: list[int] = []
        self.react: Any = None

    def heard(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
        if self.react is not None:
            self.react(message)

    def interrupted(self, times: int) -> None:
        self.interrupts.append(times)


def supervise(
    tmp_path: Path,
    script: str,
    heard: Heard | None = None,
    limit: float = 60.0,
    enclose: Callable[[Sequence[str]], list[str]] = list,
) -> Ending:
    file = tmp_path / "stage.py"
    file.write_text(PRELUDE + script)
    supervisor = Supervisor(
        stage=[sys.executable, str(file)],
        enclose=enclose,
        log=tmp_path / "stage.log",
        listener=heard or Heard(),
        limit=limit,
    )

    async def run() -> Ending:
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        ending = await supervisor.run()
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        return ending

    return asyncio.run(run())


def test_the_stages_own_word_is_the_ending(tmp_path: Path) -> None:
    heard = Heard()
    ending = supervise(
        tmp_path, 'say(type="phase", name="deploy"); say(type="done", status="completed", reason=None, code=7)', heard
    )
    assert ending == Ending(status="completed", reason=None, code=7)
    assert heard.messages == [{"type": "phase", "name": "deploy"}]


def test_a_stage_that_dies_is_a_harness_error_with_its_last_words(tmp_path: Path) -> None:
    ending = supervise(tmp_path, 'sys.exit("out of luck")')
    assert ending.status == "harness-error"
    assert ending.reason is not None
    assert "out of luck" in ending.reason


def test_a_stage_that_falls_silent_is_a_hang_and_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENCE_LIMIT", 1.0)
    heard = Heard()
    ending = supervise(tmp_path, 'say(type="pid", pid=os.getpid()); signal.pause()', heard)
    assert ending.status == "hang"
    (message,) = heard.messages
    with pytest.raises(ProcessLookupError):
        os.kill(message["pid"], 0)


def test_a_stage_that_never_ends_is_a_hang(tmp_path: Path) -> None:
    script = 'import time\nwhile True:\n    say(type="alive"); threading.Event().wait(0.1)'
    ending = supervise(tmp_path, script, limit=1.0)
    assert ending.status == "hang"
    assert "not over" in (ending.reason or "")


def test_the_first_interrupt_asks_the_second_kills(tmp_path: Path) -> None:
    heard = Heard()
    heard.react = lambda message: os.kill(os.getpid(), signal.SIGINT)
    script = (
        'say(type="ready")\nasked = json.loads(incoming.readline())\nsay(type="asked", message=asked)\nsignal.pause()'
    )
    ending = supervise(tmp_path, script, heard)
    assert heard.messages[1] == {"type": "asked", "message": {"type": "interrupt"}}
    assert heard.interrupts == [1, 2]
    assert ending.status == "interrupted"


def test_a_stage_may_end_well_after_an_interrupt(tmp_path: Path) -> None:
    heard = Heard()
    heard.react = lambda message: os.kill(os.getpid(), signal.SIGINT)
    script = 'say(type="ready"); incoming.readline(); say(type="done", status="interrupted", reason="as asked")'
    assert supervise(tmp_path, script, heard) == Ending(status="interrupted", reason="as asked", interrupted=True)


def test_an_interrupt_that_comes_too_late_for_this_stage_is_not_forgotten(tmp_path: Path) -> None:
    heard = Heard()
    heard.react = lambda message: os.kill(os.getpid(), signal.SIGINT)
    script = 'say(type="phase", name="collect"); incoming.readline(); say(type="done", status="completed")'
    assert supervise(tmp_path, script, heard) == Ending(status="completed", interrupted=True)


def test_an_interrupt_before_there_is_a_stage_ends_it_at_once(tmp_path: Path) -> None:
    def interrupts(argv: Sequence[str]) -> list[str]:
        os.kill(os.getpid(), signal.SIGINT)
        return list(argv)

    ending = supervise(tmp_path, "signal.pause()", enclose=interrupts)
    assert (ending.status, ending.interrupted) == ("interrupted", True)
