"""The enclosure: exit codes, signals, what is inside, who can make one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.backends import enclosure
from nodes.backends.local import LocalBackend
from tests.nodes import traces

pytestmark = pytest.mark.namespaces

SECONDS = 60.0
REPOSITORY = Path(__file__).resolve().parents[2]


def enclosed(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        LocalBackend.enclose(argv), capture_output=True, text=True, timeout=SECONDS, check=False, cwd=REPOSITORY
    )


def in_python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return enclosed(sys.executable, "-c", script, *arguments)


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[str]]:
    """An enclosed shell that says "ready", answers TERM and INT, and waits for them."""
    script = "trap 'exit 41' TERM; trap 'exit 42' INT; echo ready; while :; do sleep 0.02; done"
    with subprocess.Popen(LocalBackend.enclose(["sh", "-c", script]), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 128 + 9), ("kill -TERM $$", 128 + 15)]
)
def test_the_exit_code_is_handed_through(script: str, code: int) -> None:
    assert enclosed("sh", "-c", script).returncode == code


def test_a_missing_program_is_named() -> None:
    done = enclosed("no-such-program")
    assert done.returncode == enclosure.CANNOT_EXECUTE
    assert done.stderr.startswith("krash: cannot run no-such-program: ")


def test_input_and_output_pass_through() -> None:
    argv = LocalBackend.enclose(["sh", "-c", "cat; echo err >&2"])
    done = subprocess.run(argv, input=b"hello", capture_output=True, timeout=SECONDS, check=True)
    assert (done.stdout, done.stderr) == (b"hello", b"err\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 41), (signal.SIGINT, 42)])
def test_signals_sent_to_the_keeper_reach_the_command(
    waiting: subprocess.Popen[str], number: signal.Signals, code: int
) -> None:
    waiting.send_signal(number)
    assert waiting.wait(SECONDS) == code


def test_the_terminal_reaches_only_the_supervisor(waiting: subprocess.Popen[str]) -> None:
    assert os.getsid(waiting.pid) == waiting.pid != os.getsid(0)
    done = in_python("import os; print(os.getsid(0) == os.getpid(), os.getpid() != 1)")
    assert done.stdout == "True True\n"


@pytest.mark.parametrize("changed", [(), (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM)])
def test_the_command_finds_default_signal_handling(changed: tuple[signal.Signals, ...]) -> None:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, changed)
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in changed}
    try:
        done = enclosed("grep", "-E", "SigBlk|SigIgn", "/proc/self/status")
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    assert done.stdout.split() == ["SigBlk:", "0" * 16, "SigIgn:", "0" * 16]


def test_orphans_are_reaped_and_end_with_the_command() -> None:
    script = """
import os, subprocess, sys
for _ in range(20):
    subprocess.run(["sh", "-c", "sleep 0 & setsid -f sleep 1000"])
subprocess.run(["sh", "-c", "while grep -qs '(sleep) Z' /proc/[0-9]*/stat; do sleep 0.02; done"], timeout=60)
"""
    run = f"reaped-{os.getpid()}"
    assert in_python(script, run).returncode == 0
    assert traces.left(lambda: traces.processes(run), within=SECONDS) == {}


def test_the_network_and_processes_inside_are_its_own() -> None:
    script = "import os, socket; print(socket.if_nameindex(), sorted(n for n in os.listdir('/proc') if n.isdigit()))"
    done = in_python(script + "; print(os.listdir('/run'), os.geteuid())")
    assert done.stdout == "[(1, 'lo')] ['1', '2']\n[] 0\n"


def test_nothing_runs_when_the_supervisor_is_not_the_parent(tmp_path: Path) -> None:
    argv = LocalBackend.enclose(["touch", str(tmp_path / "ran")])
    argv[argv.index(str(os.getpid()))] = "1"
    assert subprocess.run(argv, timeout=SECONDS, check=False).returncode == enclosure.CANNOT_ENCLOSE
    assert not (tmp_path / "ran").exists()


def test_nothing_runs_when_the_keeper_died_before_init_asked_for_its_death_signal(tmp_path: Path) -> None:
    script = """
import os, sys
from nodes.backends import enclosure
held, alive = os.pipe()
os.close(alive)
enclosure._init(held, ["touch", sys.argv[1]])
"""
    argv = [sys.executable, "-c", script, str(tmp_path / "ran")]
    done = subprocess.run(argv, cwd=REPOSITORY, timeout=SECONDS, check=False)
    assert done.returncode == enclosure.CANNOT_ENCLOSE
    assert not (tmp_path / "ran").exists()


NO_USER_NAMESPACES = """
import os, subprocess, sys
from nodes.backends.local import LocalBackend
with open("/proc/sys/user/max_user_namespaces", "w") as limit:
    limit.write("0")
"""


def test_root_does_without_user_namespaces() -> None:
    """Root of an enclosure that forbids further user namespaces makes the other kinds in its own."""
    inner = "subprocess.run(LocalBackend.enclose(['readlink', '/proc/self/ns/user', '/proc/self/ns/net']), check=True)"
    show = "print(os.readlink('/proc/self/ns/user'), os.readlink('/proc/self/ns/net'), flush=True)"
    user, net, inner_user, inner_net = in_python(f"{NO_USER_NAMESPACES}\n{show}\n{inner}").stdout.split()
    assert user == inner_user
    assert net != inner_net


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's enclosure has a second user")
def test_an_ordinary_user_is_told_what_forbids_user_namespaces() -> None:
    script = f"""{NO_USER_NAMESPACES}
os.setgid(65534), os.setuid(65534)
done = subprocess.run(LocalBackend.enclose(["true"]), capture_output=True, text=True)
print(done.returncode, done.stderr.strip())
lines = [line for line in LocalBackend.probe() if not line.present]
print(*[(line.name, line.found, line.remedy) for line in lines], sep="\\n")
"""
    code, *rest = in_python(script).stdout.splitlines()
    assert code.startswith("3 krash: cannot make user namespaces: ")
    remedy = "sudo sysctl -w user.max_user_namespaces=15000  # or run krash as root, or with --backend docker"
    assert rest == [str(("user namespaces", "forbidden by user.max_user_namespaces = 0", remedy))]


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has one id")
def test_root_can_still_read_what_belongs_to_others(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.write_text("secret")
    os.chown(private, 12345, 12345)
    private.chmod(0o600)
    assert enclosed("cat", str(private)).stdout == "secret"
