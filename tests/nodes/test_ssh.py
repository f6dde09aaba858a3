"""What only the SSH backend promises: hosts are who they say, quoting holds, and what a killed run left can be removed.

Each check runs as a process of its own in an enclosure, where its sshd's are: `python -m tests.nodes.test_ssh CHECK FOLDER`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nodes.backends import ssh_leftovers
from nodes.backends.local import LocalBackend
from nodes.backends.ssh import SshBackend
from nodes.backends.ssh_host import Host, Remote
from nodes.network import Cut
from nodes.node import Command, NodeError, NodeRequest
from tests.nodes.loopback_ssh import OnLoopback, host

REPOSITORY = Path(__file__).resolve().parents[2]
SOON = 30.0
ODD = """it's "quoted" $HOME `id` \\ * ; & | > \n\té"""


def test_without_hosts_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="has no hosts: specs cannot name any yet"):
        asyncio.run(SshBackend().open(run="none", home=tmp_path))
    (line,) = SshBackend.probe()
    assert not line.present
    assert "stub" in line.found


def test_a_host_survives_json() -> None:
    known = Host(
        host="h", address="10.0.0.1", user="u", key=Path("/k"), known_hosts=Path("/n"), python=("env", "python3")
    )
    assert Host.from_json(known.as_json()) == known


@pytest.mark.namespaces
@pytest.mark.skipif(os.geteuid() != 0, reason="sshd changes user ids; an ordinary user's namespace has one")
@pytest.mark.parametrize("check", ["keys_are_verified", "words_arrive_as_they_are", "a_killed_run_is_swept"])
def test_on_loopback(check: str, tmp_path: Path) -> None:
    argv = LocalBackend.enclose([sys.executable, "-W", "error", "-m", "tests.nodes.test_ssh", check, str(tmp_path)])
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(argv, cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False, timeout=110)
    assert (done.returncode, done.stdout, done.stderr) == (0, "kept\n", "")


async def keys_are_verified(folder: Path) -> None:
    os.makedirs("/run/sshd")
    machines = LocalBackend()
    await machines.open(run="machines", home=folder)
    (first, _), (second, _) = [await host(machines, name, folder / "hosts") for name in ("h1", "h2")]
    Remote(first).close()
    theirs = second.known_hosts.read_text().split(" ", 1)[1]
    for known, expected in (
        (f"[{first.host}]:{first.port} {theirs}", "its host key has changed"),
        ("", "ssh-keyscan -p 2222"),
    ):
        first.known_hosts.write_text(known)
        with pytest.raises(NodeError, match=expected):
            Remote(first)
    stranger = Host(**{**second.__dict__, "key": first.key})
    with pytest.raises(NodeError, match="was not accepted"):
        Remote(stranger)
    await machines.close()


async def words_arrive_as_they_are(folder: Path) -> None:
    backend = OnLoopback()
    backend.count = 2
    await backend.open(run="odd", home=folder)
    node = await backend.add(NodeRequest(name="b1"))
    done = await node.run(("printf", "%s", ODD), timeout=SOON)
    assert done.stdout.decode() == ODD
    await node.write(ODD.replace("/", ""), b"content")
    assert await node.list(".") == [ODD]
    await node.start(Command(argv=("printf", "%s|%s", ODD, ""), env={"ODD": ODD}))
    await node.exited()
    assert (await node.read("log/stdout.log")).decode() == f"{ODD}|"
    await backend.close()


async def a_killed_run_is_swept(folder: Path) -> None:
    backend = OnLoopback()
    backend.count = 2
    await backend.open(run="doomed", home=folder)
    nodes = [await backend.add(NodeRequest(name=name)) for name in ("b1", "b2")]
    await backend.network.cut([Cut(id="cut", at="b1", sources=("b2",))])
    for node in nodes:
        await node.start(Command(argv=("sh", "-c", "setsid sleep 1000 & sleep 1000")))
    assert SshBackend.leftovers() == [], "it is in use"
    ssh_leftovers.forget("doomed")
    await asyncio.to_thread(noted_by_the_dead, backend._hosts)
    assert {left.run for left in SshBackend.leftovers()} == {"doomed"}
    removed = await asyncio.to_thread(SshBackend.sweep, "doomed")
    assert len(removed) == 2
    assert SshBackend.leftovers() == []
    for remote in backend._remotes:
        left = "iptables-save | grep krash; grep -lzx KRASH_RUN=doomed /proc/[0-9]*/environ; ls -d {}/doomed"
        done = remote.execute(left.format(remote.host.directory), timeout=SOON)
        assert done.stdout == b""
    await backend.close()


def noted_by_the_dead(hosts: Sequence[Host]) -> None:
    """Note hosts as those of a run whose process died."""
    argv = [sys.executable, "-m", "tests.nodes.test_ssh", "note", "."]
    subprocess.run(argv, input="\n".join(map(_text, hosts)), text=True, check=False)


def _text(known: Host) -> str:
    return "\t".join((known.host, known.address, str(known.key), str(known.known_hosts), known.directory))


async def note(folder: Path) -> None:
    """Note hosts from standard input as those of a run, and die."""
    hosts = []
    for line in sys.stdin.read().splitlines():
        name, address, key, known, directory = line.split("\t")
        here = {"key": Path(key), "known_hosts": Path(known), "directory": directory}
        hosts.append(Host(host=name, address=address, user="root", port=2222, **here))  # type: ignore[arg-type]
    ssh_leftovers.note("doomed", hosts)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](Path(sys.argv[2])))
    print("kept")
