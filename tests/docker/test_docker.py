"""What only the docker backend promises: limits, few rights, images of one's own, and a way back after a crash."""

from __future__ import annotations

import asyncio
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nodes.backends import container_entry, docker_engine, docker_image
from nodes.backends.containers import ServerNode
from nodes.backends.docker import DockerBackend
from nodes.network import Cut
from nodes.node import Command, Gone, NodeError, NodeRequest, Running
from tests.harness.krash import krash
from tests.nodes import traces

pytestmark = pytest.mark.timeout(900)

SOON = 60.0
HUNGRY = "head -c 300000000 /dev/zero | tail -c 300000000 > /dev/null"  # tail keeps it all in memory


@asynccontextmanager
async def opened(home: Path, **rest: Any) -> AsyncIterator[DockerBackend]:
    backend = DockerBackend()
    try:
        await backend.open(run=f"test-{secrets.token_hex(4)}", home=home, **rest)
        yield backend
    finally:
        await backend.close()


async def server(backend: DockerBackend, request: NodeRequest) -> ServerNode:
    node = await backend.add(request)
    assert isinstance(node, ServerNode)
    return node


def inspected(node: ServerNode) -> dict[str, Any]:
    """What the engine says about a node's container."""
    with docker_engine.connected() as engine:
        found = engine.containers.list(filters={"label": f"{docker_engine.NODE}={node.name}"})
        (attributes,) = [each.attrs for each in found if each.attrs["State"]["Pid"] == node.init]
        return dict(attributes)


def things(run: str) -> list[str]:
    """Containers and networks with a run's label, in use or not."""
    with docker_engine.connected() as engine:
        label = {"label": f"{docker_engine.RUN}={run}"}
        found = [*engine.containers.list(all=True, filters=label), *engine.networks.list(filters=label)]
        return sorted(str(each.name) for each in found)


async def test_a_process_beyond_its_memory_limit_dies(tmp_path: Path) -> None:
    async with opened(tmp_path) as backend:
        small = await server(backend, NodeRequest(name="small", memory_mib=64))
        large = await server(backend, NodeRequest(name="large", memory_mib=1024))
        for node in (small, large):
            await node.start(Command(argv=("sh", "-c", HUNGRY)))
        async with asyncio.timeout(SOON):
            assert await small.exited() == Gone(128 + signal.SIGKILL)  # the shell tells how its child ended
            assert await large.exited() == Gone(0)


async def test_the_main_process_is_in_the_cgroups_with_the_limits(tmp_path: Path) -> None:
    async with opened(tmp_path) as backend:
        node = await server(backend, NodeRequest(name="b1", memory_mib=64, cpus=0.5))
        await node.start(Command(argv=("sleep", "1000")))
        (pid,) = node._pids()
        mine = [Path(file).parent for file in container_entry.cgroup_files(pid)]
        assert mine == [Path(file).parent for file in container_entry.cgroup_files(node.init)]
        memory = [text(group, "memory.max", "memory.limit_in_bytes") for group in mine]
        assert str(64 << 20) in memory
        quotas = [text(group, "cpu.max", "cpu.cfs_quota_us") for group in mine]
        assert {"50000 100000", "50000"} & set(quotas)


def text(group: Path, *names: str) -> str:
    """The first of these files that is there."""
    return next(((group / name).read_text().strip() for name in names if (group / name).exists()), "")


def status(text: str) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in text.strip().splitlines())


async def test_nodes_have_few_rights(tmp_path: Path) -> None:
    async with opened(tmp_path) as backend:
        node = await server(backend, NodeRequest(name="b1"))
        host = inspected(node)["HostConfig"]
        assert (host["Privileged"], host["CapAdd"]) == (False, ["NET_ADMIN"])
        done = await node.run(("cat", "/proc/self/status"), timeout=SOON)
        said = status(done.stdout.decode())
        first = status(text(Path(f"/proc/{node.init}"), "status"))
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert said[kind] == first[kind]
        assert said["NoNewPrivs"] == "1"
        assert (await node.run(("mount", "-t", "tmpfs", "none", "/mnt"), timeout=SOON)).code != 0
        spaces = [await node.run(("sh", "-c", f"readlink /proc/{who}/ns/*"), timeout=SOON) for who in ("1", "self")]
        assert spaces[0].stdout == spaces[1].stdout != b"", "it is in all namespaces of the container's first process"


async def test_mounts_are_read_only(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    async with opened(tmp_path / "homes") as backend:
        node = await server(backend, NodeRequest(name="b1", mounts={"jars": tmp_path / "jars"}))
        done = await node.run(("touch", f"{node.mounted('jars')}/new"), timeout=SOON)
        assert (done.code, b"Read-only" in done.stderr) == (1, True)


async def test_orphans_are_reaped(tmp_path: Path) -> None:
    async with opened(tmp_path) as backend:
        node = await server(backend, NodeRequest(name="b1"))
        for _ in range(3):
            await node.run(("sh", "-c", "setsid -f true; setsid -f true"), timeout=SOON)
        await node.kill()
        await node.start(Command(argv=("sh", "-c", "setsid -f sleep 1000; sleep 1000")))
        await node.kill()
        count = ("sh", "-c", "until ! grep -l '^State:.Z' /proc/[0-9]*/status; do sleep 0.02; done")
        assert (await node.run(count, timeout=SOON)).code == 0


async def test_cuts_leave_this_network_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as backend:
        for name in ("b1", "b2"):
            await backend.add(NodeRequest(name=name))
        before = traces.rules()
        await backend.network.cut([Cut(id="cut", at="b1", sources=("b2",))])
        assert not await backend.network.reaches("b2", "b1")
        assert traces.rules() == before


async def test_one_can_name_an_image(tmp_path: Path) -> None:
    name = f"mine:{secrets.token_hex(4)}"
    async with opened(tmp_path / "first"):
        pass  # krash's own image is there now
    with docker_engine.connected() as engine:
        engine.images.get(docker_image.tag()).tag(name)
        try:
            async with opened(tmp_path, image=name) as backend:
                node = await server(backend, NodeRequest(name="b1"))
                assert inspected(node)["Config"]["Image"] == name
                sources = {mount["Source"] for mount in inspected(node)["Mounts"]}
                assert sources == {node.absolute(".")}, "Java comes with the image"
        finally:
            engine.images.remove(name)


async def test_what_fails_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"no image 127\.0\.0\.1:9/nowhere:1"):
        async with opened(tmp_path, image="127.0.0.1:9/nowhere:1"):
            pass
    missing = tmp_path / "missing"
    async with opened(tmp_path / "homes") as backend:
        run = backend._run
        with pytest.raises(NodeError, match="b1: the Docker engine could not start its container"):
            await backend.add(NodeRequest(name="b1", mounts={"missing": missing}))
        await backend.add(NodeRequest(name="b2"))
    assert things(run) == []


async def test_what_was_being_made_when_cancelled_is_removed(tmp_path: Path) -> None:
    async with opened(tmp_path) as backend:
        run = backend._run
        adding = asyncio.create_task(backend.add(NodeRequest(name="b1")))
        await asyncio.sleep(0)  # it has asked the engine now
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
    assert things(run) == []


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[tuple[str, Path, subprocess.Popen[str]]]:
    """A run with a server and a client, which is there now; its home; its process."""
    run, home = f"doomed-{secrets.token_hex(4)}", tmp_path / "work"
    argv = [sys.executable, "-m", "tests.docker.doomed", run, str(home)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield run, home, process
        finally:
            process.kill()
            docker_engine.remove(run)


def test_krash_heal_removes_what_a_killed_run_left(doomed: tuple[str, Path, subprocess.Popen[str]]) -> None:
    run, home, process = doomed
    assert process.stdout is not None
    assert process.stdout.readline() == "made\n"
    assert len(things(run)) == 3
    assert run not in {left.run for left in DockerBackend.leftovers()}, "it is in use"
    assert run not in krash("heal", "--all").stdout
    assert len(things(run)) == 3
    process.kill()
    process.wait()
    assert len([left for left in DockerBackend.leftovers() if left.run == run]) == 3
    assert len(traces.processes(run)) == 8
    healed = krash("heal", "--all")
    assert healed.code == 0
    assert healed.stdout.count("removed container krash-") == 2
    assert healed.stdout.count("removed network krash-") == 1
    assert things(run) == []
    assert traces.left(lambda: traces.processes(run), within=SOON) == {}
    assert not home.exists()
    assert DockerBackend.leftovers() == []


async def test_a_container_that_somebody_removed_is_named(tmp_path: Path) -> None:
    async with opened(tmp_path) as backend:
        node = await server(backend, NodeRequest(name="b1"))
        with docker_engine.connected() as engine:
            engine.containers.get(inspected(node)["Id"]).remove(force=True)
        with pytest.raises(NodeError, match=r"b1: cannot start sleep"):
            await node.start(Command(argv=("sleep", "1")))
        assert await node.state() != Running()
        await node.kill()


def test_a_changed_recipe_makes_another_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = docker_image.tag()
    monkeypatch.setattr(docker_image, "_PACKAGES", (*docker_image._PACKAGES, "tcpdump"))
    assert docker_image.tag() != before
    assert docker_image.tar_path().name != f"{before.partition(':')[2]}.tar"
