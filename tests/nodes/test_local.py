"""What only the local backend promises: it needs an enclosure, cleans up in it, and says what it lacks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nodes.backend import Capability
from nodes.backends import local_requirements, requirements
from nodes.backends.local import LocalBackend
from nodes.node import NodeError
from tests.nodes import traces

REPOSITORY = Path(__file__).resolve().parents[2]


def test_it_refuses_to_work_on_the_machine_itself(tmp_path: Path) -> None:
    links = traces.links()
    with pytest.raises(NodeError, match=r"only inside LocalBackend\.enclose"):
        asyncio.run(LocalBackend().open(run="outside", home=tmp_path))
    assert [link for link in traces.links() if link not in links and "krash" in link] == []


def test_it_does_not_promise_limits() -> None:
    assert set(Capability) - LocalBackend.capabilities == {Capability.LIMITS}


@pytest.mark.namespaces
def test_this_machine_has_what_it_needs() -> None:
    lacking = [f"{line.name}: {line.found}; {line.remedy}" for line in LocalBackend.probe() if not line.present]
    assert lacking == []


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "SEARCH_PATH", "/nowhere")
    lacking = {line.name: line.remedy for line in LocalBackend.probe() if not line.present}
    assert {name: lacking[name] for name in ("ip", "ss", "iptables-save", "iptables-restore")} == {
        "ip": "sudo apt-get install iproute2",
        "ss": "sudo apt-get install iproute2",
        "iptables-save": "sudo apt-get install iptables",
        "iptables-restore": "sudo apt-get install iptables",
    }


@pytest.mark.parametrize(
    ("sysctl", "value", "remedy"),
    [
        ("kernel.unprivileged_userns_clone", 0, "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        ("user.max_user_namespaces", 0, "sudo sysctl -w user.max_user_namespaces=15000"),
        (
            "kernel.apparmor_restrict_unprivileged_userns",
            1,
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_what_forbids_user_namespaces_is_named(
    monkeypatch: pytest.MonkeyPatch, sysctl: str, value: int, remedy: str
) -> None:
    def fails(argv: Sequence[str]) -> list[str]:
        return ["sh", "-c", "echo Operation not permitted >&2; exit 3"]

    monkeypatch.setattr(local_requirements, "_sysctl", {sysctl: value}.get)
    line = local_requirements.probe(fails)[-1]
    assert (line.name, line.present, line.found) == ("user namespaces", False, f"forbidden by {sysctl} = {value}")
    assert line.remedy == f"{remedy}  # or run krash as root, or with --backend docker"
    monkeypatch.setattr(local_requirements, "_sysctl", {}.get)
    assert local_requirements.probe(fails)[-1].found == "Operation not permitted"


LIFE = """
import asyncio, os, subprocess, sys
from pathlib import Path
from nodes.backends.local import LocalBackend
from nodes.node import Command, NodeRequest

def facts():
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout.count("\\n")
    return pids, len(os.listdir("/proc/self/fd")), links

async def life(home):
    backend = LocalBackend()
    await backend.close()
    await backend.open(run="life", home=home)
    nodes = [await backend.add(NodeRequest(name=name)) for name in ("b1", "b2")]
    print(*(node.address for node in nodes))
    for node in nodes:
        await node.start(Command(argv=("sh", "-c", "sleep 1000 & setsid -f sleep 1000; sleep 1000")))
    beside = asyncio.create_task(nodes[0].run(("sleep", "1000"), timeout=600))
    addresses = await nodes[1].run(("ip", "-o", "addr"), timeout=60)
    print("IPv6" if b"inet6" in addresses.stdout else "IPv4 only")
    await backend.close()
    await backend.close()
    print((await beside).code)

async def main():
    before = facts()
    await life(Path(sys.argv[1]))
    print("clean" if facts() == before else (before, facts()))

asyncio.run(main())
"""


@pytest.mark.namespaces
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_closing_leaves_no_process_link_or_descriptor(tmp_path: Path, loop: str) -> None:
    script = LIFE.replace("asyncio.run(main())", "import uvloop; uvloop.run(main())") if loop == "uvloop" else LIFE
    argv = LocalBackend.enclose([sys.executable, "-W", "error", "-c", script, str(tmp_path)])
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "10.77.0.11 10.77.0.12\nIPv4 only\n-9\nclean\n"
