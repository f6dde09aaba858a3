"""What the local backend needs from this machine, found out by trying it: see `krash doctor`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from nodes.backend import Requirement
from nodes.backends import iptables
from nodes.backends.requirements import SEARCH_PATH, program
from nodes.network import Action, Cut

Enclose = Callable[[Sequence[str]], list[str]]

_TRY_SECONDS = 20.0
_INSTEAD = "or run krash as root, or with --backend docker"
_FORBIDDING = {  # sysctl -> (value that forbids user namespaces, value that allows them)
    "kernel.unprivileged_userns_clone": (0, 1),
    "user.max_user_namespaces": (0, 15000),
    "kernel.apparmor_restrict_unprivileged_userns": (1, 0),
}
_LINKS = b"link add krash0 type bridge\nlink add veth0 type veth peer name veth1\nlink set veth0 master krash0\n"


def probe(enclose: Enclose) -> list[Requirement]:
    programs = [
        program("ip", package="iproute2", version=("-V",)),
        program("ss", package="iproute2", version=("-V",)),
        program("iptables-save", package="iptables", version=("-V",)),
        program("iptables-restore", package="iptables", version=("-V",)),
    ]
    namespaces = _user_namespaces(enclose)
    found = [*programs, namespaces]
    if not all(line.present for line in found):
        return found
    return [
        *found,
        _inside(enclose, "bridge and veth links", ("ip", "-batch", "-"), _LINKS, "sudo modprobe -a bridge veth"),
        _inside(
            enclose,
            "packet filter",
            iptables.RESTORE,
            _every_rule(),
            "sudo modprobe -a nf_tables nft_compat ipt_REJECT",
        ),
    ]


def _user_namespaces(enclose: Enclose) -> Requirement:
    said = _attempt(enclose(["true"]))
    if not said:
        return Requirement(name="user namespaces", present=True, found="allowed", remedy="")
    for name, (forbidding, allowed) in _FORBIDDING.items():
        if (value := _sysctl(name)) == forbidding:
            return Requirement(
                name="user namespaces",
                present=False,
                found=f"forbidden by {name} = {value}",
                remedy=f"sudo sysctl -w {name}={allowed}  # {_INSTEAD}",
            )
    return Requirement(
        name="user namespaces", present=False, found=said, remedy=f"krash run --backend docker  # {_INSTEAD}"
    )


def _inside(enclose: Enclose, name: str, argv: tuple[str, ...], stdin: bytes, remedy: str) -> Requirement:
    said = _attempt(enclose(argv), stdin)
    return Requirement(name=name, present=not said, found=said or "works", remedy=remedy if said else "")


def _attempt(argv: Sequence[str], stdin: bytes = b"") -> str:
    """What went wrong when a command was tried, empty when it worked."""
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            timeout=_TRY_SECONDS,
            check=False,
            env={**os.environ, "PATH": SEARCH_PATH},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.decode(errors="replace").strip() or f"code {done.returncode}"


def _every_rule() -> bytes:
    """One rule of each kind that cuts need."""
    nothing = iptables.Installed(chain=False, entered=False, rules=())
    cuts = [Cut(id=action, at="b1", sources=("b2",), action=action) for action in Action]
    addresses = {"b1": "10.77.0.11", "b2": "10.77.0.12"}
    return iptables.installation(
        "doctor", [body for cut in cuts for body in iptables.rules_for(cut, addresses)], nothing
    )


def _sysctl(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", *name.split(".")).read_text())
    except (OSError, ValueError):
        return None
