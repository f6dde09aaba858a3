"""The enclosure of a run: fresh user, network, mount and pid namespaces that die with the process that asked for them.

A run must leave nothing behind, whatever is killed and when. So nobody cleans up: the kernel does. Two processes are
made here, by one interpreter that imports nothing but the standard library (`python -I -S enclosure.py PARENT
ARGV...`, about 30 ms):

    supervisor (PARENT)
      `- keeper   made by the supervisor; waits for pid 1, passes signals on, hands the exit code back
           `- init   pid 1 of the new pid namespace; own /proc and /run; reaps; starts ARGV in its own session
                `- ARGV and everything it starts

Each link is a death signal: the keeper gets SIGKILL when the supervisor's thread that made it ends, init when the
keeper ends, and when pid 1 is gone the kernel kills the rest; processes, links, rules and mounts go with their
namespaces. A death signal that is set after the parent died never comes; that is why the keeper then looks at its
parent's pid, and init at a pipe that only the keeper holds open.

Why not setpriv and unshare of util-linux: unshare blocks SIGTERM and passes nothing on, and neither closes the gap
just described.

Ids: an ordinary user becomes root inside (one id mapped). Root keeps all ids, so that files of others stay reachable;
where user namespaces are forbidden root does without one. SIGTERM and SIGINT sent to the keeper reach ARGV; the
terminal's Ctrl-C reaches only the supervisor, because the keeper leaves its session. Exit codes: ARGV's, 128+N after
signal N, 127 when ARGV cannot be run, 3 when the enclosure cannot be made.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

CANNOT_ENCLOSE = 3
CANNOT_EXECUTE = 127

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x8, 0x4000, 0x40000
_PASSED_ON = frozenset({signal.SIGTERM, signal.SIGINT})
_WATCHED = _PASSED_ON | {signal.SIGCHLD}
_CHANGEABLE = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}

_libc = ctypes.CDLL(None, use_errno=True)


def inside() -> bool:
    """Is this process in an enclosure?"""
    with open("/proc/1/cmdline", "rb") as words:
        return os.path.basename(__file__).encode() in words.read()


def main(parent: int, argv: Sequence[str]) -> int:
    """The keeper. Returns the exit code of argv."""
    _die_with_parent()
    if os.getppid() != parent:
        return CANNOT_ENCLOSE  # it is dead already and its death signal will never come
    with suppress(PermissionError):  # leads a session or group already
        os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        _unshare_all()
        _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    except OSError as error:
        return _complain(error)
    held, alive = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(alive)
        _init(held, argv)
    os.close(held)
    return _tend(child)


def _init(held: int, argv: Sequence[str]) -> NoReturn:
    """Pid 1. Ends when argv's process ends, and takes every other process of the namespace with it."""
    _die_with_parent()
    if select.select([held], [], [], 0)[0]:
        os._exit(CANNOT_ENCLOSE)  # end of file: the keeper is dead already
    os.close(held)
    try:
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        _mount("tmpfs", "/run", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    except OSError as error:
        os._exit(_complain(error))
    child = os.fork()
    if child == 0:
        _execute(argv)
    os._exit(_tend(child))


def _execute(argv: Sequence[str]) -> NoReturn:
    os.setsid()
    for number in _CHANGEABLE:  # Python ignores some, nohup and a shell's & others
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whatever the caller, or a library in it, had blocked
    try:
        os.execvp(argv[0], list(argv))  # noqa: S606 - no shell is the point
    except OSError as error:
        print(f"krash: cannot run {argv[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(CANNOT_EXECUTE)


def _tend(child: int) -> int:
    """Pass signals to a child and reap all children until it ends; its exit code."""
    while True:
        number = signal.sigwaitinfo(_WATCHED).si_signo
        if number != signal.SIGCHLD:
            os.kill(child, number)
            continue
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code


def _unshare_all() -> None:
    rest = _CLONE_NEWNET | _CLONE_NEWNS | _CLONE_NEWPID
    user, group = os.geteuid(), os.getegid()
    mapper = _Mapper() if user == 0 else None
    try:
        _checked(_libc.unshare(_CLONE_NEWUSER | rest), "make user namespaces")
    except OSError:
        if user != 0:
            raise
        _checked(_libc.unshare(rest), "make namespaces")
        return
    finally:
        mapped = mapper.map() if mapper else False
    if not mapped:
        _put("/proc/self/setgroups", "deny")
        _put("/proc/self/uid_map", f"0 {user} 1")
        _put("/proc/self/gid_map", f"0 {group} 1")
    _die_with_parent()  # in case a change of credentials cleared it


class _Mapper:
    """A process that stays outside the new user namespace, because only such a one may map more than one id."""

    def __init__(self) -> None:
        self._maps = {kind: _identity(f"/proc/self/{kind}") for kind in ("uid_map", "gid_map")}
        mine, self._go = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._go)
            os._exit(self._write(os.getppid()) if os.read(mine, 1) else 1)
        os.close(mine)

    def map(self) -> bool:
        """Let it write the maps of this process; whether it could."""
        os.write(self._go, b"!")
        os.close(self._go)
        return os.waitpid(self._pid, 0)[1] == 0

    def _write(self, pid: int) -> int:
        try:
            for kind, text in self._maps.items():
                _put(f"/proc/{pid}/{kind}", text)
        except OSError:
            return 1
        return 0


def _identity(path: str) -> str:
    with open(path) as lines:
        ranges = [line.split() for line in lines]
    return "".join(f"{start} {start} {count}\n" for start, _, count in ranges)


def _put(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _die_with_parent() -> None:
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "set a death signal")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind, data)]
    _checked(_libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3]), f"mount {kind or 'privately'} at {target}")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")


def _complain(error: OSError) -> int:
    print(f"krash: {error.strerror} (see `krash doctor`, or use root or --backend docker)", file=sys.stderr, flush=True)
    return CANNOT_ENCLOSE


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), sys.argv[2:]))
