"""`krash up`: a cluster to point any client, tool or test suite at, gone without a trace when it ends.

The command runs in the first client's namespaces with KRASH_BOOTSTRAP=host:port,... in its environment and the user's
terminal; its exit code
is handed through. Without a command the cluster stays up until Ctrl-C, and how to get at it is printed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from harness import terminal
from harness.errors import UsageError
from harness.exits import ERROR, INTERRUPTED
from harness.history.rundir import update_run_info
from harness.run import DEPLOY_LIMIT, Flags, prepare
from harness.spec_file import load_spec
from harness.supervisor import Ending, Supervisor, stage_command

DAYS = 30 * 24 * 3600.0  # seconds; a cluster that somebody works with has no time limit worth the name


def up_spec(
    arguments: Sequence[str], *, system: str | None, backend: str | None, settings: tuple[str, ...], out: Path
) -> int:
    """Deploy, run the command (or wait), take down; returns the command's exit code, 0 after Ctrl-C without one."""
    spec_file, command = split_command(arguments, sys.argv)
    console = Console(stderr=True, highlight=False)
    spec = load_spec(spec_file, settings=Flags(system=system, backend=backend, settings=settings).overrides())
    prepared = prepare(spec, console, out=out, quiet=False, replayed=None, purpose="up")
    update_run_info(prepared.directory, up_command=command)
    display = terminal.PhaseDisplay(console)
    listener = _Listener(display, console, stays=not command)
    supervisor = Supervisor(
        stage=stage_command(prepared.directory),
        enclose=prepared.backend.enclose,
        log=prepared.directory / "stage.log",
        listener=listener,
        limit=DEPLOY_LIMIT + DAYS,
        inherit_terminal=bool(command),
    )
    listener.supervisor = supervisor
    ending = asyncio.run(supervisor.run())
    display.end()
    update_run_info(prepared.directory, status=ending.status, reason=ending.reason)
    return _code(ending, command, console)


def split_command(arguments: Sequence[str], argv: Sequence[str]) -> tuple[Path | None, list[str]]:
    """([SPEC], COMMAND) of the positional arguments; everything after `--` in `argv` is the command."""
    length = len(argv) - list(argv).index("--") - 1 if "--" in argv else 0
    before = list(arguments[: len(arguments) - length])
    if len(before) > 1:
        raise UsageError(f"put -- before the command: krash up [SPEC] -- {' '.join(before[-1:])} ...")
    return (Path(before[0]) if before else None), list(arguments[len(arguments) - length :])


def _code(ending: Ending, command: list[str], console: Console) -> int:
    if ending.status == "interrupted":
        return INTERRUPTED if command else 0
    if ending.status != "completed":
        console.print(f"krash: {ending.reason}", style="red", soft_wrap=True)
        return ERROR
    return ending.code


class _Listener:
    """Shows the deployment; says how to attach once the cluster is ready."""

    def __init__(self, display: terminal.PhaseDisplay, console: Console, *, stays: bool) -> None:
        self._display = display
        self._console = console
        self._stays = stays
        self.supervisor: Supervisor | None = None

    def heard(self, message: dict[str, Any]) -> None:
        if message["type"] == "phase":
            self._display.begin(message["name"], message.get("text", ""))
        elif message["type"] == "say":
            self._display.say(message["text"])
        elif message["type"] == "note":
            self._display.note(message["text"])
        elif message["type"] == "ready":
            self._display.end()
            if self._stays:
                self._console.print(f" ready     KRASH_BOOTSTRAP={message['bootstrap']}", soft_wrap=True)
                for line in attach_lines(message, self.supervisor.holder_pid if self.supervisor else None):
                    self._console.print(f"           {line}", soft_wrap=True)

    def interrupted(self, times: int) -> None:
        self._console.print(" stopping" if times == 1 else " stopping at once")


def attach_lines(message: dict[str, Any], holder: int | None) -> list[str]:
    """How to run a command where the brokers can be reached: from any terminal of the same user."""
    prefix = message.get("attach") or (f"nsenter -t {holder} -U --preserve-credentials -n --" if holder else None)
    if prefix is None:
        return ["the brokers can be reached from this machine directly", "Ctrl-C takes the cluster down"]
    return [
        "attach from another terminal:",
        f"  {prefix} env KRASH_BOOTSTRAP={message['bootstrap']} COMMAND",
        "Ctrl-C takes the cluster down",
    ]
