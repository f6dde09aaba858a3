"""A function in a process of its own that inherits all that was imported, within limits of time and memory."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

GRACE = 5.0
BROKEN = "broken: "  # begins what is said when the function itself failed


@dataclass(frozen=True)
class Ended:
    said: str | None  # what the function returned; None: it was ended, see `how`
    how: str
    seconds: float  # processor time of the process and its children


def forked(work: Callable[[], str], *, processor: float, wall: float, memory: int | None, log: Path) -> Ended:
    """`processor`, `wall`: seconds; `memory`: bytes of address space. What it prints goes to `log`."""
    before = _spent()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    sys.stdout.flush()
    child = context.Process(target=_child, args=(work, sender, processor, memory, log), daemon=False)
    child.start()
    sender.close()
    deadline = time.monotonic() + wall
    said: str | None = None
    try:
        if receiver.poll(max(0.0, deadline - time.monotonic())):
            said = receiver.recv_bytes().decode()
    except EOFError:
        pass
    child.join(GRACE)
    if child.is_alive():
        _end_group(child.pid)
        child.join()
    how = (
        "in time" if said is not None else "out of wall time" if time.monotonic() >= deadline else _why(child.exitcode)
    )
    receiver.close()
    return Ended(said=said, how=how, seconds=round(_spent() - before, 2))


def _child(work: Callable[[], str], sender: Connection, processor: float, memory: int | None, log: Path) -> None:
    os.setpgid(0, 0)  # no session of its own, whose priority would not be that of the command
    gc.freeze()
    limit = int(processor) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        said = work()
    except MemoryError:
        said = "MemoryError"
    except BaseException:  # noqa: BLE001 - whatever it is, it must not be taken for an answer
        said = BROKEN + traceback.format_exc()
    sender.send_bytes(said.encode())
    sys.stdout.flush()
    os._exit(0)


def _end_group(pid: int | None) -> None:
    if pid is not None:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)


def _why(code: int | None) -> str:
    if code in (-signal.SIGXCPU, -signal.SIGPROF, -signal.SIGKILL):
        return "out of processor time"
    return "a crash" if code is not None and code < 0 else f"{BROKEN}exit code {code}"


def _spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
