"""Nothing of a local run outlives a SIGKILL of its top process, at whatever moment, root or not."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nodes.backends.local import LocalBackend
from tests.nodes import traces

pytestmark = [pytest.mark.namespaces, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).resolve().parents[2]
SEED = 20261121
GONE_SECONDS = 30.0  # the kernel needs milliseconds; a loaded machine more
READY_SECONDS = 120.0


@dataclass(frozen=True)
class User:
    """Who starts the doomed runs."""

    python: str = sys.executable
    source: Path = REPOSITORY
    popen: dict[str, object] = field(default_factory=dict)


def start(user: User, run: str, home: Path, *, through: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    process: subprocess.Popen[bytes] = subprocess.Popen(
        [*through, user.python, "-m", "tests.nodes.doomed", run, str(home)],
        cwd=user.source,
        env={**os.environ, "PYTHONPATH": str(user.source), "HOME": str(home), "KRASH_TEST_RUN": run},
        **user.popen,  # type: ignore[call-overload]
    )
    return process


def doom(user: User, base: Path, moment: float | None) -> float:
    """Start a run, SIGKILL its top process after `moment` seconds (None: when all is there); nothing may be left.

    Returns the seconds until the kill.
    """
    run = f"doomed-{secrets.token_hex(6)}"
    home = Path(tempfile.mkdtemp(dir=base))
    if "user" in user.popen:
        shutil.chown(home, str(user.popen["user"]))
    try:
        took = kill_top(user, run, home, moment)
        assert left(lambda: traces.processes(run)) == {}, f"killed after {moment} s (seed {SEED})"
        facts = (home / "facts").read_text().split() if (home / "facts").exists() else []
        inodes = {int(fact) for fact in facts if fact.isdigit()}
        assert left(lambda: traces.namespaces_held(inodes)) == [], f"killed after {moment} s (seed {SEED})"
    finally:
        for pid in traces.processes(run):
            os.kill(pid, signal.SIGKILL)
    return took


def kill_top(user: User, run: str, home: Path, moment: float | None) -> float:
    began = time.monotonic()
    with start(user, run, home) as top:
        if moment is None:
            until_made(home, top)
        else:
            with suppress(subprocess.TimeoutExpired):
                top.wait(moment)
        ended = top.poll()
        took = time.monotonic() - began
        top.kill()
    assert ended is None, f"the run ended by itself with code {ended}"
    return took


def left(find: Callable[[], traces.Found]) -> traces.Found:
    return traces.left(find, within=GONE_SECONDS)


def until_made(home: Path, top: subprocess.Popen[bytes]) -> None:
    """Wait until a run says that everything is there."""
    script = 'while ! grep -qs made "$0"; do sleep 0.02; done'
    subprocess.run(["sh", "-c", script, str(home / "facts")], check=True, timeout=READY_SECONDS)
    assert top.poll() is None


def moments(user: User, base: Path, count: int) -> list[float]:
    """Random moments between the start and a little after everything is made, on this machine as loaded as it is."""
    made = doom(user, base, None)
    chance = random.Random(SEED)
    return [round(chance.uniform(0, 1.2 * made), 3) for _ in range(count)]


@pytest.fixture
def ordinary() -> Iterator[User]:
    """An ordinary user: whoever runs the tests, or for root one made for this test, with a copy of the sources it can
    read."""
    if os.geteuid() != 0:
        yield User()
        return
    if shutil.which("useradd") is None:
        pytest.skip("root without useradd: cannot make an ordinary user")
    name = f"krash-{secrets.token_hex(4)}"
    subprocess.run(["useradd", "--system", "--no-create-home", "--shell", "/bin/sh", name], check=True)
    try:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            yield user_named(name, Path(folder))
    finally:
        subprocess.run(["userdel", name], check=True, capture_output=True)


def user_named(name: str, folder: Path) -> User:
    folder.chmod(0o755)
    for part in ("nodes", "tests/nodes"):
        shutil.copytree(REPOSITORY / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests/__init__.py").touch()
    popen: dict[str, object] = {"user": name, "group": name, "extra_groups": []}
    for python in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError):
            attempt = [python, "-c", "import nodes.backends.local, sys; sys.exit(sys.version_info < (3, 11))"]
            if subprocess.run(attempt, cwd=folder, capture_output=True, **popen).returncode == 0:  # type: ignore[call-overload]
                return User(python, folder, popen)
    pytest.skip("no Python 3.11 that an ordinary user can run: this one and its packages lie in a private directory")


def test_nothing_is_left_after_sigkill_at_twenty_moments(tmp_path: Path) -> None:
    before = traces.mounts(), traces.links(), traces.rules()
    for moment in moments(User(), tmp_path, 20):
        doom(User(), tmp_path, moment)
    for old, new in zip(before, (traces.mounts(), traces.links(), traces.rules()), strict=True):
        assert [line for line in new if line not in old and ("krash" in line or "10.77.0." in line)] == []


def test_nothing_is_left_of_an_ordinary_users_run(ordinary: User) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        for moment in moments(ordinary, Path(folder), 5):
            doom(ordinary, Path(folder), moment)


def test_the_machine_is_exactly_as_before(tmp_path: Path) -> None:
    """In an enclosure of its own, where nobody else changes links, rules and mounts meanwhile."""
    argv = [sys.executable, "-m", "tests.nodes.test_leaks", str(tmp_path)]
    done = subprocess.run(LocalBackend.enclose(argv), cwd=REPOSITORY, capture_output=True, text=True, check=False)
    # What a run says while it dies is its own affair: a namespace that has lost its pid 1 refuses forks before it kills.
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr


def test_a_survivor_is_noticed(tmp_path: Path) -> None:
    """The same checks, when what is killed is not what the death signals hang on."""
    run = f"doomed-{secrets.token_hex(6)}"
    through = (sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])")
    with start(User(), run, tmp_path, through=through) as top:
        until_made(tmp_path, top)
        top.kill()
    survivors = traces.left(lambda: traces.processes(run), within=0.5)
    facts = (tmp_path / "facts").read_text().split()
    held = traces.namespaces_held({int(fact) for fact in facts if fact.isdigit()})
    doomed = ["-m", "tests.nodes.doomed", run]
    (supervisor,) = [pid for pid, words in survivors.items() if words.split()[1:4] == doomed]
    os.kill(supervisor, signal.SIGKILL)
    assert left(lambda: traces.processes(run)) == {}
    assert len(survivors) >= 4 + 3 * 3, survivors  # supervisor, keeper, init, stage; three processes in each node
    assert len(held) >= 3


def same_machine(base: Path) -> None:
    def facts() -> set[str]:
        pids = {f"pid {entry.name}" for entry in Path("/proc").glob("[0-9]*")}
        return {*pids, *traces.mounts(), *traces.links(), *traces.rules()}

    before = facts()
    for moment in (None, *moments(User(), base, 4)):
        doom(User(), base, moment)
        assert left(lambda: facts() ^ before) == set()
    print("same")


if __name__ == "__main__":
    same_machine(Path(sys.argv[1]))
