"""Starts one process inside a running container: in all of its namespaces and cgroups, with no more rights than it has.

Why not the engine's own `exec`: it costs 55-90 ms, hands exit codes out only when asked, cannot tell "killed by
signal 9" from "exit code 137", and gives standard output as a stream to be copied. A process started here is an
ordinary child of krash, with its real pid, exit status and log file, although it lives in the container: the engine's
limits count for it, and it dies when the engine removes the container.

    krash -- runs --> this program (python -I -S, standard library only, on the machine itself)
                        `- clone3(CLONE_PARENT): the new process, a child of *krash*; pid namespace of the container
                             joins the cgroups, leads a session, enters the other namespaces, drops what the
                             container's first process may not do, executes

Order (JSON, on a descriptor): {"init": 4711, "argv": [...], "env": {...}, "cwd": "/run/home"}.
Report (on another): "started PID", then end of file; or "failed ERRNO WHAT" when it cannot be executed.

The capabilities are cut down to those of the container's first process, and no_new_privs is set. The engine's seccomp
filter is not applied: only the engine knows it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any, NoReturn

_libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock, so that both sides of clone3 hold it

_NAMESPACES = ("cgroup", "ipc", "uts", "net", "mnt")  # mnt last: the others are opened through this machine's /proc
_CLONE_NEWPID = 0x20000000
_CLONE_PARENT = 0x00008000
_CLONE3 = 435  # the same number on all architectures
_CLONE_ARGS_WORDS = 8  # the first version of struct clone_args; flags come first
_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 23, 24, 38
_CAPABILITIES = 64


def main(order_from: int, report_to: int) -> None:
    with os.fdopen(order_from) as file:
        order = json.load(file)
    os.set_inheritable(report_to, False)
    try:
        _start(order, report_to)
    except OSError as error:
        _report(report_to, f"failed {error.errno} {error.filename or order['argv'][0]}")


def _start(order: dict[str, Any], report_to: int) -> None:
    proc = f"/proc/{order['init']}"
    groups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in cgroup_files(int(order["init"]))]
    namespaces = [os.open(f"{proc}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in _NAMESPACES]
    allowed = _allowed_capabilities(proc)
    pids = os.open(f"{proc}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    _checked(_libc.setns(pids, _CLONE_NEWPID), "enter the pid namespace")
    arguments = (ctypes.c_uint64 * _CLONE_ARGS_WORDS)(_CLONE_PARENT)
    pid = _libc.syscall(_CLONE3, arguments, ctypes.sizeof(arguments))
    _checked(pid, "start a process")
    if pid == 0:
        _become(order, groups, namespaces, allowed, report_to)
    _report(report_to, f"started {pid}")


def _become(order: dict[str, Any], groups: list[int], namespaces: list[int], allowed: int, report_to: int) -> NoReturn:
    try:
        for group in groups:
            os.write(group, b"0")  # 0 is whoever writes
        os.setsid()
        for namespace in namespaces:
            _checked(_libc.setns(namespace, 0), "enter a namespace")
        os.umask(0o022)
        os.chdir(order["cwd"])
        _drop_capabilities(allowed)
        for name in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # those that Python changes
            signal.signal(name, signal.SIG_DFL)
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - no shell is the point
    except OSError as error:
        _report(report_to, f"failed {error.errno} {error.filename or error.strerror}")
    os._exit(127)


def cgroup_files(pid: int) -> list[str]:
    """The cgroup.procs files of a process's cgroups, of version 1 hierarchies and of version 2."""
    mounted = _cgroup_mounts()
    found = []
    with open(f"/proc/{pid}/cgroup") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            key = frozenset(controllers.split(",")) if controllers else frozenset()
            if key in mounted:
                root, point = mounted[key]
                inside = path if root == "/" else path.removeprefix(root)
                found.append(f"{point}/{inside.lstrip('/')}/cgroup.procs")
    return found


def _cgroup_mounts() -> dict[frozenset[str], tuple[str, str]]:
    """Controllers (none: version 2) -> root of the mount inside the hierarchy, and where it is mounted."""
    found = {}
    with open("/proc/self/mountinfo") as lines:
        for line in lines:
            first, _, second = line.rstrip("\n").partition(" - ")
            root, point = first.split()[3:5]
            kind, _, options = second.split(" ", 2)
            if kind == "cgroup2":
                found[frozenset[str]()] = (root, point)
            elif kind == "cgroup":
                ignored = {"rw", "ro", "xattr", "noprefix", "clone_children"}
                found[frozenset(options.split(",")) - ignored] = (root, point)
    return found


def _allowed_capabilities(proc: str) -> int:
    with open(f"{proc}/status") as lines:
        (bounding,) = [int(line.split()[1], 16) for line in lines if line.startswith("CapBnd:")]
    return bounding


def _drop_capabilities(allowed: int) -> None:
    for number in range(_CAPABILITIES):
        known = _libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) == 1
        if known and not allowed >> number & 1:
            _checked(_libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0), f"drop capability {number}")
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "set no_new_privs")


def _report(to: int, text: str) -> None:
    os.write(to, f"{text}\n".encode(errors="surrogateescape"))


def _checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"cannot {what}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
