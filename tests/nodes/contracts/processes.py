"""Contracts of a node's processes."""

from __future__ import annotations

import asyncio
import sys

import pytest

from nodes.node import Command, Gone, Node, NodeError, NodeRequest, Paused, Running
from tests.nodes.contracts.stage import LOG, QUIET, SOON, TICK, Stage, grows, shell, until


async def a_process_logs_and_its_exit_code_is_known(on: Stage) -> None:
    await on.b1.write(LOG, b"before\n")
    await on.b1.start(shell("echo out; echo err >&2; exit 7"))
    assert await on.b1.exited() == Gone(7)
    assert await on.b1.state() == Gone(7)
    assert (await on.b1.read(LOG)).splitlines() == [b"before", b"out", b"err"]


async def a_process_gets_a_small_environment(on: Stage) -> None:
    await on.b1.start(shell('echo "$MINE|$KRASH_SECRET|$(command -v sleep)"; echo > "$HOME/was-here"', MINE="yes"))
    assert await on.b1.exited() == Gone(0)
    assert (await on.b1.read(LOG)).decode().splitlines()[-1].startswith("yes||/")
    assert await on.b1.exists("was-here")


async def an_absolute_path_is_what_processes_call_it(on: Stage) -> None:
    await on.b1.start(shell(f"mkdir -p data; echo hello > {on.b1.absolute('data/file')}"))
    assert await on.b1.exited() == Gone(0)
    assert await on.b1.read("data/file") == b"hello\n"


async def a_missing_program_is_an_error(on: Stage) -> None:
    with pytest.raises(NodeError, match="no-such-program"):
        await on.b1.start(Command(argv=("no-such-program",)))
    assert isinstance(await on.b1.state(), Gone)


async def there_is_one_main_process_at_a_time(on: Stage) -> None:
    await on.b1.start(shell(TICK))
    with pytest.raises(NodeError, match="b1"):
        await on.b1.start(shell(TICK))
    await on.b1.kill()
    await on.b1.start(shell("exit 0"))
    assert await on.b1.exited() == Gone(0)


async def kill_takes_the_children_too(on: Stage) -> None:
    await on.b1.start(shell(f"setsid sh -c '{TICK}' > away & ({TICK}) > child & {TICK}"))
    for path in ("away", "child", LOG):
        await until(on.b1, "tick", path)
    await on.b1.kill()
    assert await on.b1.state() == Gone(-9)
    for path in ("away", "child", LOG):
        assert not await grows(on.b1, path), f"{path} still grows"


async def kill_takes_children_that_outlived_the_main_process(on: Stage) -> None:
    await on.b1.start(shell(f"({TICK}) > child & exit 3"))
    assert await on.b1.exited() == Gone(3)
    await until(on.b1, "tick", "child")
    await on.b1.kill()
    assert not await grows(on.b1, "child")
    assert await on.b1.state() == Gone(3)


async def kill_is_fine_when_nothing_runs_and_takes_what_is_paused(on: Stage) -> None:
    await on.b1.kill()
    await on.b1.start(shell(TICK))
    await on.b1.pause()
    await on.b1.kill()
    assert await on.b1.state() == Gone(-9)
    assert await on.b1.exited() == Gone(-9)
    await on.b1.kill()


async def kill_leaves_a_command_beside_the_main_process_alone(on: Stage) -> None:
    script = "echo began > began; while ! [ -e go ]; do sleep 0.03; done; echo end"
    await on.b1.start(shell(TICK))
    async with asyncio.TaskGroup() as group:
        beside = group.create_task(on.b1.run(("sh", "-c", script), timeout=2 * SOON))
        await until(on.b1, "began", "began")
        await on.b1.kill()
        await on.b1.write("go", b"")
    assert beside.result().stdout == b"end\n"


async def stop_lets_a_process_end_itself(on: Stage) -> None:
    await on.b1.start(shell(f"trap 'echo bye; exit 5' TERM; echo ready; {TICK}"))
    await until(on.b1, "ready")
    assert await on.b1.stop(timeout=SOON) == 5
    assert await on.b1.state() == Gone(5)
    assert b"bye" in await on.b1.read(LOG)


async def stop_tells_when_it_is_ignored(on: Stage) -> None:
    await on.b1.start(shell(f"trap '' TERM; echo ready; {TICK}"))
    await until(on.b1, "ready")
    with pytest.raises(NodeError, match="b1"):
        await on.b1.stop(timeout=QUIET)
    assert await on.b1.state() == Running()


async def pause_stops_all_progress_and_resume_continues_it(on: Stage) -> None:
    await on.b1.start(shell(f"setsid sh -c '{TICK}' > away & ({TICK}) > child & {TICK}"))
    paths = ("away", "child", LOG)
    for path in paths:
        await until(on.b1, "tick", path)
    for _ in range(2):
        await on.b1.pause()
        assert await on.b1.state() == Paused()
        for path in paths:
            assert not await grows(on.b1, path), f"{path} still grows"
        await on.b1.resume()
        assert await on.b1.state() == Running()
        for path in paths:
            assert await grows(on.b1, path), f"{path} no longer grows"


async def states_follow_the_process(on: Stage) -> None:
    await on.b2.start(Command(argv=("sleep", "1000")))
    assert await on.b2.state() == Running()
    await on.b2.pause()
    assert await on.b2.state() == Paused()
    await on.b2.resume()
    assert await on.b2.state() == Running()
    waiting = asyncio.create_task(on.b2.exited())
    await on.b2.kill()
    assert await waiting == Gone(-9)


async def resident_memory_is_that_of_main_and_children(on: Stage) -> None:
    assert await on.w1.resident_bytes() == 0
    kept = "kept = b'x' * 50_000_000"
    script = f"import os, signal; child = os.fork() == 0; {kept}; print('child' if child else 'main', flush=True)"
    await on.w1.start(Command(argv=(*on.w1.python, "-c", f"{script}; signal.pause()")))
    await until(on.w1, "main")
    await until(on.w1, "child")
    assert 100_000_000 < await on.w1.resident_bytes() < 300_000_000
    await on.w1.kill()
    assert await on.w1.resident_bytes() == 0


async def a_node_that_never_ran_is_gone(on: Stage) -> None:
    fresh = await on.backend.add(NodeRequest(name="fresh"))
    assert await fresh.state() == Gone(None)
    assert await fresh.exited() == Gone(None)
    assert await fresh.stop(timeout=SOON) is None
    assert await fresh.resident_bytes() == 0
    with pytest.raises(NodeError, match="fresh"):
        await fresh.pause()
    with pytest.raises(NodeError, match="fresh"):
        await on.backend.add(NodeRequest(name="fresh"))


async def a_bad_node_name_is_refused(on: Stage) -> None:
    for name in ("", "B1", "1b", "b_1", "../b", "a" * 16):
        with pytest.raises(NodeError, match="name"):
            await on.backend.add(NodeRequest(name=name))


async def clients_have_the_harness_python(on: Stage) -> None:
    await _has_the_harness_python(on.w1)
    assert on.b1.python == ()


async def a_server_that_asks_has_it_too(on: Stage) -> None:
    await _has_the_harness_python(await on.backend.add(NodeRequest(name="python", python=True)))


async def _has_the_harness_python(node: Node) -> None:
    script = "import confluent_kafka, ssl, uvloop, workloads.op, sys; print(*sys.version_info[:2])"
    done = await node.run((*node.python, "-c", script), timeout=SOON)
    assert done.code == 0, done.stderr.decode()
    assert done.stdout.decode().split() == [str(part) for part in sys.version_info[:2]]


async def a_mount_is_readable(on: Stage) -> None:
    done = await on.b1.run(("cat", f"{on.b1.mounted('words')}/word.txt"), timeout=SOON)
    assert (done.code, done.stdout) == (0, b"hello from outside\n")
    with pytest.raises(NodeError, match="nothing-here"):
        on.b1.mounted("nothing-here")


async def a_command_gets_input_and_gives_output(on: Stage) -> None:
    done = await on.b1.run(("sh", "-c", "cat; echo err >&2; exit 3"), timeout=SOON, stdin=b"in\0put" * 100_000)
    assert (done.code, done.stdout, done.stderr) == (3, b"in\0put" * 100_000, b"err\n")


async def a_command_that_takes_too_long_is_killed(on: Stage) -> None:
    with pytest.raises(NodeError, match=r"b1.*0\.3 s"):
        await on.b1.run(("sh", "-c", f"({TICK}) > child & {TICK}"), timeout=QUIET)
    assert not await grows(on.b1, "child")
    with pytest.raises(NodeError, match="no-such-program"):
        await on.b1.run(("no-such-program",), timeout=SOON)
