"""Which runs are on which SSH hosts, remembered on this machine, and how a run is removed from a host.

A host cannot be asked "what did krash leave on you" before one knows that it is a host. So each run notes its hosts
before it changes anything there, and removes the note after it removed the rest:

    $XDG_STATE_HOME/krash/ssh/<run>.json    {"owner": "PID STARTED", "hosts": [{"host": ..., "key": ..., ...}]}
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from nodes.backend import Leftover
from nodes.backends import iptables
from nodes.backends.processes import started
from nodes.backends.ssh_host import Host, Remote
from nodes.node import NodeError

_COMMAND_SECONDS = 60.0
_KILL = (
    'n=0; while p=$(grep -lzx -- {mark} /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3) && [ -n "$p" ]; do '
    "kill -KILL $p; n=$((n+1)); [ $n -lt 400 ] || exit 98; sleep 0.02; done; true"
)


def note(run: str, hosts: Sequence[Host]) -> None:
    path = _notes() / f"{run}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = f"{os.getpid()} {started(os.getpid())}"
    text = json.dumps({"owner": owner, "hosts": [host.as_json() for host in hosts]})
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.rename(path)


def forget(run: str) -> None:
    (_notes() / f"{run}.json").unlink(missing_ok=True)


def leftovers() -> list[Leftover]:
    """The hosts of runs whose process is dead."""
    return [
        Leftover(run=path.stem, what=f"ssh host {host.host}")
        for path in sorted(_notes().glob("*.json"))
        for host in _unused(path)
    ]


def remove(run: str) -> list[str]:
    """Clean all hosts of a run. NodeError when one cannot be reached; its note stays, so that it can be tried again."""
    path = _notes() / f"{run}.json"
    if not path.is_file():
        return []
    hosts = [Host.from_json(found) for found in json.loads(path.read_text())["hosts"]]
    removed = []
    for host in hosts:
        remote = Remote(host)
        try:
            clean(remote, run)
        finally:
            remote.close()
        removed.append(f"what it left on ssh host {host.host}")
    forget(run)
    return removed


def clean(remote: Remote, run: str) -> None:
    """Remove a run from a host: its processes, its iptables chain, its directory. NodeError says what could not be."""
    host = remote.host
    sudo = ["sudo", "-n"] if host.sudo else []
    _done(remote, _KILL.format(mark=shlex.quote(f"KRASH_RUN={run}")), "kill its processes")
    saved = _done(remote, shlex.join([*sudo, *iptables.SAVE]), "read its rules")
    if undo := iptables.uninstallation(run, iptables.parse_saved(saved, run)):
        _done(remote, shlex.join([*sudo, *iptables.RESTORE]), "remove its rules", undo)
    _done(remote, f"rm -rf -- {shlex.quote(f'{host.directory}/{run}')}", "remove its directory")


def _done(remote: Remote, command: str, what: str, stdin: bytes = b"") -> bytes:
    try:
        done = remote.execute(command, stdin=stdin, timeout=_COMMAND_SECONDS)
    except TimeoutError:
        raise NodeError(f"{remote.host.host}: could not {what} in {_COMMAND_SECONDS:.0f} s") from None
    if done.code != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise NodeError(f"{remote.host.host}: could not {what}: {said or f'code {done.code}'}")
    return done.stdout


def _notes() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "krash" / "ssh"


def _unused(path: Path) -> list[Host]:
    noted = json.loads(path.read_text())
    pid, _, since = noted["owner"].partition(" ")
    return [] if started(int(pid)) == since else [Host.from_json(found) for found in noted["hosts"]]
