"""Contracts of a node's files."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nodes.node import Mark, NodeError, Tail
from tests.nodes.contracts.stage import SOON, Stage, closing


async def files_go_in_and_come_out(on: Stage) -> None:
    content = bytes(range(256)) * 1000
    assert not await on.b1.exists("etc/deep/file")
    await on.b1.write("etc/deep/file", content)
    await on.b1.write("etc/empty", b"")
    assert await on.b1.exists("etc/deep/file")
    assert await on.b1.exists("etc/deep")
    assert await on.b1.read("etc/deep/file") == content
    assert await on.b1.list("etc") == ["deep/file", "empty"]
    assert await on.b1.list("not/there") == []
    await on.b1.write("etc/deep/file", b"shorter")
    assert await on.b1.read("etc/deep/file") == b"shorter"
    with pytest.raises(NodeError, match="b1"):
        await on.b1.read("not/there")


async def nodes_do_not_share_homes(on: Stage) -> None:
    await on.b1.write("mine", b"1")
    assert not await on.b2.exists("mine")


async def wipe_deletes_all_but_what_is_kept(on: Stage) -> None:
    for path in ("data/meta.properties", "data/log-0/00.log", "data/log-0/00.index", "data/log-1/00.log", "etc/file"):
        await on.b1.write(path, b"x")
    await on.b1.wipe("data", keep=("meta.properties", "log-1"))
    assert await on.b1.list("data") == ["log-1/00.log", "meta.properties"]
    await on.b1.wipe("data")
    assert await on.b1.list("data") == []
    assert await on.b1.exists("data")
    assert await on.b1.exists("etc/file")
    await on.b1.wipe("not/there")


async def copy_replaces_the_destination(on: Stage) -> None:
    await on.b1.write("data/a/1", b"one")
    await on.b1.write("data/2", b"two")
    await on.b1.write("backup/old", b"old")
    await on.b1.copy("data", "backup")
    assert await on.b1.list("backup") == ["2", "a/1"]
    await on.b1.write("data/2", b"changed")
    assert await on.b1.read("backup/2") == b"two"
    await on.b1.copy("backup/2", "data/2")
    assert await on.b1.read("data/2") == b"two"
    with pytest.raises(NodeError, match="not/there"):
        await on.b1.copy("not/there", "data")
    assert await on.b1.list("data") == ["2", "a/1"]


async def truncate_cuts_a_file(on: Stage) -> None:
    await on.b1.write("data/log", b"0123456789")
    await on.b1.truncate("data/log", 4)
    assert await on.b1.read("data/log") == b"0123"
    with pytest.raises(NodeError, match="not/there"):
        await on.b1.truncate("not/there", 0)


async def fetch_copies_files_and_directories_out(on: Stage) -> None:
    await on.b1.write("log/a/server.log", b"line\n")
    await on.b1.write("log/gc.log", b"gc\n")
    await on.b1.fetch("log", on.scratch / "b1" / "log")
    await on.b1.fetch("log/gc.log", on.scratch / "single.log")
    await on.b1.fetch("not/there", on.scratch / "nothing")
    assert (on.scratch / "b1" / "log" / "a" / "server.log").read_bytes() == b"line\n"
    assert (on.scratch / "single.log").read_bytes() == b"gc\n"
    assert not (on.scratch / "nothing").exists()


async def paths_cannot_leave_the_home(on: Stage) -> None:
    await on.b1.run(("ln", "-s", "/etc", "escape"), timeout=SOON)
    for path in ("../b2/file", "/etc/passwd", "data/../../b2", "escape/passwd"):
        attempts: tuple[tuple[Callable[..., Awaitable[object]], tuple[object, ...]], ...] = (
            (on.b1.read, (path,)),
            (on.b1.write, (path, b"")),
            (on.b1.tail, (path,)),
            (on.b1.exists, (path,)),
            (on.b1.list, (path,)),
            (on.b1.wipe, (path,)),
            (on.b1.copy, (path, "inside")),
            (on.b1.copy, ("inside", path)),
            (on.b1.truncate, (path, 0)),
            (on.b1.fetch, (path, on.scratch / "stolen")),
        )
        for verb, arguments in attempts:
            with pytest.raises(NodeError, match="b1"):
                await verb(*arguments)
    with pytest.raises(NodeError, match="b1"):
        on.b1.absolute("../b2")
    assert not (on.scratch / "stolen").exists()


async def tail_tells_what_was_added_since_a_mark(on: Stage) -> None:
    assert await on.b1.tail("data/log") == Tail(mark=Mark(), start=0, content=b"")
    await on.b1.write("data/log", b"one")
    first = await on.b1.tail("data/log")
    assert (first.start, first.content, first.mark.position) == (0, b"one", 3)
    assert await on.b1.tail("data/log", first.mark) == Tail(mark=first.mark, start=3, content=b"")
    await on.b1.run(("sh", "-c", "printf 'two\\0\\n' >> data/log"), timeout=SOON)
    second = await on.b1.tail("data/log", first.mark, limit=4)
    assert (second.start, second.content) == (3, b"two\0")
    assert (await on.b1.tail("data/log", second.mark)).content == b"\n"
    await on.b1.truncate("data/log", 2)
    cut = await on.b1.tail("data/log", second.mark)
    assert (cut.start, cut.content) == (0, b"on")
    await on.b1.run(("sh", "-c", "echo other > data/new; mv data/new data/log"), timeout=SOON)
    other = await on.b1.tail("data/log", cut.mark)
    assert (other.start, other.content) == (0, b"other\n")
    await on.b1.wipe("data")
    assert await on.b1.tail("data/log", other.mark) == Tail(mark=Mark(), start=0, content=b"")


async def lines_follow_a_growing_file(on: Stage) -> None:
    async with asyncio.timeout(SOON), closing(on.b1.lines("log/grows.log")) as lines:
        first = asyncio.create_task(anext(lines))
        await on.b1.write("log/grows.log", b"one\ntwo\nthr")
        assert await first == "one"
        assert await anext(lines) == "two"
        third = asyncio.create_task(anext(lines))
        await on.b1.run(("sh", "-c", "echo ee >> log/grows.log"), timeout=SOON)
        assert await third == "three"
        fourth = asyncio.create_task(anext(lines))
        await on.b1.run(("sh", "-c", "mv log/grows.log log/old.log; echo rotated > log/grows.log"), timeout=SOON)
        assert await fourth == "rotated"
