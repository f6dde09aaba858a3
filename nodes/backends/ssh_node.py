"""A node on a host reached over SSH: every verb is one shell command there (`ssh_node.sh`), sent with what it needs.

    <directory>/<run>/<node>/home/   the node's home
                             pid     of the main process       } written by the shell
                             exit    its exit code, when it ended } that waits for it
    <directory>/<run>/<node>/mounts/NAME/   copies of what the harness wants it to read

The main process and all that it started carry a mark in their environment, so that they are found wherever they went;
a program that clears its children's environment hides them. Exit codes above 128 are taken for signals: a shell cannot
tell them apart.
"""

from __future__ import annotations

import asyncio
import io
import secrets
import shlex
import tarfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from nodes.backends.homes import home_relative
from nodes.backends.ssh_host import Remote
from nodes.node import Command, Completed, Gone, Mark, NodeError, Paused, ProcessState, Running, Tail

SCRIPT = Path(__file__).with_suffix(".sh").read_text()
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_VERB_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_OUTSIDE, _REFUSED = 95, 97  # exit codes of the script


class SshNode:
    """Implements `nodes.node.Node`."""

    def __init__(
        self, name: str, remote: Remote, place: str, *, run: str, mounts: Sequence[str], with_python: bool
    ) -> None:
        self.name = name
        self.address = remote.host.address
        self.clock = f"ssh:{remote.host.host}"
        self.python = remote.host.python if with_python else ()
        self.remote = remote
        self._home = f"{place}/home"
        self._mounts = {mount: f"{place}/mounts/{mount}" for mount in mounts}
        self._env = {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", "HOME": self._home, "KRASH_RUN": run, "KRASH_NODE": name}
        self._mark = f"KRASH_MAIN={secrets.token_hex(8)}"

    def absolute(self, path: str) -> str:
        return str(PurePosixPath(self._home) / home_relative(self.name, path))

    def mounted(self, name: str) -> str:
        try:
            return self._mounts[name]
        except KeyError:
            raise NodeError(f"{self.name}: no mount {name!r}; there are {sorted(self._mounts)}") from None

    async def start(self, command: Command) -> None:
        busy = (await self._verb("busy")).decode()
        if busy.strip() or not isinstance(await self.state(), Gone):
            raise NodeError(f"{self.name}: still runs processes {busy.strip()}; kill it first")
        environment = self._environment({**command.env, **_pair(self._mark)})
        await self._verb("start", self._path(command.log), *environment, *command.argv, program=command.argv[0])

    async def kill(self) -> None:
        await self._verb("kill")

    async def stop(self, *, timeout: float) -> int | None:
        if await self.state() == Gone(None):
            return None
        await self._verb("term")
        try:
            async with asyncio.timeout(timeout):
                gone = await self.exited()
        except TimeoutError:
            raise NodeError(f"{self.name}: SIGTERM did not end the main process in {timeout:g} s") from None
        await self.kill()
        return gone.code

    async def pause(self) -> None:
        await self._verb("pause")

    async def resume(self) -> None:
        await self._verb("resume")

    async def state(self) -> ProcessState:
        word, _, code = (await self._verb("state")).decode().strip().partition(" ")
        known: dict[str, ProcessState] = {"running": Running(), "paused": Paused(), "never": Gone(None)}
        return known.get(word) or Gone(_code(int(code)))

    async def exited(self) -> Gone:
        while True:
            state = await self.state()
            if isinstance(state, Gone):
                return state
            await asyncio.sleep(_LOOK_SECONDS)

    async def resident_bytes(self) -> int:
        return int(await self._verb("resident"))

    async def run(self, argv: tuple[str, ...], *, timeout: float, stdin: bytes = b"") -> Completed:
        mark = f"KRASH_BESIDE={secrets.token_hex(8)}"
        command = [*self._environment(_pair(mark)), *argv]
        try:
            done = await self._execute("run", command, stdin=stdin, timeout=timeout, program=argv[0])
        except TimeoutError:
            await self._verb("kill", mark=mark, home="/nonexistent/home")
            raise NodeError(f"{self.name}: {' '.join(argv)} took longer than {timeout:g} s and was killed") from None
        if done.code == _REFUSED and done.stderr == f"{argv[0]}: not found\n".encode():
            raise NodeError(f"{self.name}: cannot run {argv[0]}: it is not there")
        return done

    def attach(self, argv: Sequence[str]) -> list[str]:
        return self.remote.host.command(argv)

    async def write(self, path: str, content: bytes) -> None:
        await self._verb("write", self._path(path), stdin=content)

    async def read(self, path: str) -> bytes:
        return await self._verb("read", self._path(path))

    async def tail(self, path: str, since: Mark = Mark(), *, limit: int = 1 << 20) -> Tail:  # noqa: B008 - frozen
        asked = (self._path(path), str(since.identity or 0), str(since.position), str(limit))
        head, _, content = (await self._verb("tail", *asked)).partition(b"\n")
        inode, start = (int(word) for word in head.split())
        mark = Mark(identity=inode, position=start + len(content)) if inode else Mark()
        return Tail(mark=mark, start=start, content=content)

    async def exists(self, path: str) -> bool:
        return bool(await self._verb("exists", self._path(path)))

    async def list(self, path: str) -> list[str]:
        found = await self._verb("list", self._path(path))
        return sorted(name.decode(errors="surrogateescape") for name in found.split(b"\0") if name)

    async def wipe(self, path: str, *, keep: tuple[str, ...] = ()) -> None:
        kept = [word for name in keep for word in ("!", "-name", _literal(name))]
        await self._verb("wipe", self._path(path), *kept)

    async def copy(self, source: str, destination: str) -> None:
        origin, target = (home_relative(self.name, path) for path in (source, destination))
        if target.is_relative_to(origin) or origin.is_relative_to(target):
            raise NodeError(f"{self.name}: cannot copy {source} to {destination}: one lies inside the other")
        await self._verb("copy", str(origin), str(target))

    async def truncate(self, path: str, size: int) -> None:
        await self._verb("truncate", self._path(path), str(size))

    async def fetch(self, path: str, to: Path) -> None:
        packed = await self._verb("fetch", self._path(path))
        if packed:
            await asyncio.to_thread(_unpack, packed, to)

    async def lines(self, path: str) -> AsyncIterator[str]:
        mark, rest = Mark(), b""
        while True:
            tail = await self.tail(path, mark)
            mark = tail.mark
            if tail.start == 0:
                rest = b""  # a new file, or the first look
            *whole, rest = (rest + tail.content).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace").removesuffix("\r")
            if not tail.content:
                await asyncio.sleep(_LOOK_SECONDS)

    async def prepare(self, mounts: Mapping[str, Path]) -> None:
        """Make the home, and copy what is to be readable there."""
        await self._plain(f"mkdir -p -- {shlex.quote(self._home)}")
        for name, path in mounts.items():
            target = shlex.quote(self.mounted(name))
            packed = await asyncio.to_thread(_packed, path)
            await self._plain(f"mkdir -p -- {target} && tar -C {target} -xf -", packed)

    async def _plain(self, command: str, stdin: bytes = b"") -> None:
        done = await asyncio.to_thread(self.remote.execute, command, stdin=stdin, timeout=_VERB_SECONDS)
        if done.code != 0:
            raise NodeError(f"{self.name}: {command} failed: {done.stderr.decode(errors='replace').strip()}")

    def _path(self, path: str) -> str:
        return str(home_relative(self.name, path))

    def _environment(self, more: Mapping[str, str]) -> Sequence[str]:
        return ["env", "-i", *(f"{name}={value}" for name, value in {**self._env, **more}.items())]

    async def _verb(
        self,
        verb: str,
        *words: str,
        stdin: bytes = b"",
        mark: str | None = None,
        home: str | None = None,
        program: str = "",
    ) -> bytes:
        try:
            done = await self._execute(
                verb, words, stdin=stdin, timeout=_VERB_SECONDS, mark=mark, home=home, program=program
            )
        except TimeoutError:
            raise NodeError(
                f"{self.name}: {verb} took longer than {_VERB_SECONDS:g} s on {self.remote.host.host}"
            ) from None
        if done.code == _OUTSIDE:
            raise NodeError(f"{self.name}: path {words[0]!r} leads out of the node's home through a symbolic link")
        if done.code != 0:
            said = done.stderr.decode(errors="replace").strip()
            raise NodeError(f"{self.name}: cannot {verb} {' '.join(words)}: {said or f'code {done.code}'}")
        return done.stdout

    async def _execute(
        self,
        verb: str,
        words: Sequence[str],
        *,
        stdin: bytes,
        timeout: float,
        mark: str | None = None,
        home: str | None = None,
        program: str = "",
    ) -> Completed:
        settings = {"home": home or self._home, "mark": mark or self._mark, "program": program}
        given = "\n".join(f"{name}={shlex.quote(value)}" for name, value in settings.items())
        script = f"{SCRIPT}\n{given}\nverb_{verb} {shlex.join(words)}"
        return await asyncio.to_thread(
            self.remote.execute, f"exec sh -c {shlex.quote(script)}", stdin=stdin, timeout=timeout
        )


def _pair(mark: str) -> dict[str, str]:
    name, _, value = mark.partition("=")
    return {name: value}


def _code(code: int) -> int:
    return code if code <= 128 else 128 - code


def _literal(name: str) -> str:
    """A name as find's -name pattern."""
    return "".join(f"\\{letter}" if letter in "*?[]\\" else letter for letter in name)


def _packed(path: Path) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.add(path, arcname="." if path.is_dir() else path.name)
    return made.getvalue()


def _unpack(packed: bytes, to: Path) -> None:
    """Extract the files and directories of a tar, whose top is named "it", as `to`. Links and devices are left out: the
    other machine chose them."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for member in tar:
            path = PurePosixPath(member.name)
            if path.parts[:1] != ("it",) or ".." in path.parts:
                raise NodeError(f"cannot fetch {to}: the other side sent a file named {member.name!r}")
            target = to.joinpath(*path.parts[1:])
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif content := tar.extractfile(member):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
