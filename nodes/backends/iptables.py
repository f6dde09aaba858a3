"""Cuts as iptables rules, as text: what to feed iptables-restore, and what iptables-save says. Pure; whoever runs the
commands is elsewhere.

Each run has one chain per node, entered from INPUT of the filter table; every rule carries its cut's id as a comment,
so that what is installed can always be read back and nobody else's rules are touched:

    -A INPUT -m comment --comment "krash run 2026-11-21-chaos" -j krash-5f0c1e1b7a90
    -A krash-5f0c1e1b7a90 -s 10.77.0.12/32 -m comment --comment cut-7 -j DROP

- DROP is one rule. RESET answers TCP with RST and drops the rest; RST packets themselves pass, because otherwise a
  cut in both directions would
  swallow the other side's answer and turn a fast failure into a timeout.
- `established_only`: one rule per connection that exists when the cut is made, found with `ss`. (Connection tracking
  cannot tell them from
  later ones, which are established too after their first answer.) A rule for port 0, which no packet has, marks the
  cut when there are none.

One iptables-restore call per node applies everything or nothing (`--noflush` keeps all other rules).
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodes.network import Action, Cut

SAVE = ("iptables-save", "-c", "-t", "filter")
RESTORE = ("iptables-restore", "-w", "--noflush")
SOCKETS = ("ss", "--no-header", "--tcp", "--numeric", "state", "established")

_ID = re.compile(r"[A-Za-z0-9._-]{1,40}")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_COUNTED = re.compile(r"\[(\d+):\d+\] -A (\S+) (.*)")


@dataclass(frozen=True)
class Connection:
    """A TCP connection as the node with the cut sees it."""

    peer: str  # IPv4
    peer_port: int
    port: int


@dataclass(frozen=True, kw_only=True)
class Rule:
    """An installed rule."""

    cut: str  # the id in its comment
    source: str  # IPv4
    packets: int
    body: str  # what follows "-A CHAIN "


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What a node's filter table says about a run."""

    chain: bool
    entered: bool  # INPUT jumps to it
    rules: tuple[Rule, ...]

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(rule.cut for rule in self.rules)


def chain_of(run: str) -> str:
    """Name of a run's chain; iptables allows 28 characters, so the run's own name is in the comment of the jump.
    ValueError for odd names."""
    if not _RUN.fullmatch(run):
        raise ValueError(f"run {run!r}: expected 1-100 letters, digits, '.', '_' or '-'")
    return f"krash-{hashlib.sha256(run.encode()).hexdigest()[:12]}"


def rules_for(cut: Cut, addresses: Mapping[str, str], connections: Iterable[Connection] = ()) -> list[str]:
    """Bodies of the rules that make a cut; `connections` of the node it is at matter for `established_only`.
    ValueError for a bad cut."""
    _check(cut, addresses)
    comment = f'-m comment --comment "{cut.id}"'
    bodies = []
    for source in dict.fromkeys(cut.sources):
        peer = addresses[source]
        if cut.established_only:
            matches = [f"-s {peer}/32 -p tcp -m tcp --sport 0 --dport 0"]
            matches += [
                f"-s {peer}/32 -p tcp -m tcp --sport {known.peer_port} --dport {known.port}"
                for known in connections
                if known.peer == peer
            ]
        elif cut.action is Action.RESET:
            bodies.append(f"-s {peer}/32 ! -p tcp {comment} -j DROP")
            matches = [f"-s {peer}/32 -p tcp -m tcp"]
        else:
            matches = [f"-s {peer}/32"]
        for match in matches:
            if cut.action is Action.RESET:
                bodies.append(f"{match} ! --tcp-flags RST RST {comment} -j REJECT --reject-with tcp-reset")
            else:
                bodies.append(f"{match} {comment} -j DROP")
    return bodies


def installation(run: str, bodies: Sequence[str], installed: Installed) -> bytes:
    """Input for RESTORE that adds rules, and the chain and its jump where they are missing."""
    chain = chain_of(run)
    lines = [] if installed.chain else [f":{chain} - [0:0]"]
    lines += [] if installed.entered else [f"-I INPUT 1 {_jump(run)}"]
    return _table(lines + [f"-A {chain} {body}" for body in bodies])


def removal(run: str, ids: Collection[str], installed: Installed) -> bytes:
    """Input for RESTORE that deletes the rules of some cuts."""
    return _table([f"-D {chain_of(run)} {rule.body}" for rule in installed.rules if rule.cut in ids])


def uninstallation(run: str, installed: Installed) -> bytes:
    """Input for RESTORE that deletes everything of a run: the jump, the rules and the chain."""
    chain = chain_of(run)
    lines = [f"-D INPUT {_jump(run)}"] if installed.entered else []
    lines += [f"-F {chain}", f"-X {chain}"] if installed.chain else []
    return _table(lines)


def parse_saved(saved: bytes, run: str) -> Installed:
    """Read the output of SAVE."""
    chain = chain_of(run)
    lines = saved.decode(errors="replace").splitlines()
    rules, entered = [], False
    for counted in filter(None, map(_COUNTED.fullmatch, lines)):
        packets, where, body = counted.groups()
        words = shlex.split(body)
        if where == chain:
            source = words[words.index("-s") + 1].partition("/")[0]
            comment = words[words.index("--comment") + 1]
            rules.append(Rule(cut=comment, source=source, packets=int(packets), body=body))
        entered = entered or (where == "INPUT" and words[-2:] == ["-j", chain])
    declared = any(line.startswith(f":{chain} ") for line in lines)
    return Installed(chain=declared, entered=entered, rules=tuple(rules))


def parse_sockets(listing: bytes) -> list[Connection]:
    """Read the output of SOCKETS: "0 0 10.77.0.11:9092 10.77.0.12:41234", IPv4-mapped addresses in brackets."""
    found = []
    for line in listing.decode(errors="replace").splitlines():
        local, peer = line.split()[2:4]
        address, _, peer_port = peer.rpartition(":")
        address = address.strip("[]").removeprefix("::ffff:").partition("%")[0]
        found.append(Connection(peer=address, peer_port=int(peer_port), port=int(local.rpartition(":")[2])))
    return found


def _check(cut: Cut, addresses: Mapping[str, str]) -> None:
    if not _ID.fullmatch(cut.id):
        raise ValueError(f"cut id {cut.id!r}: expected 1-40 letters, digits, '.', '_' or '-'")
    unknown = [name for name in (cut.at, *cut.sources) if name not in addresses]
    if unknown:
        raise ValueError(f"cut {cut.id}: no node {', '.join(unknown)}; there are {', '.join(sorted(addresses))}")
    if not cut.sources or cut.at in cut.sources:
        raise ValueError(f"cut {cut.id}: needs sources, and {cut.at} cannot be cut from itself")


def _jump(run: str) -> str:
    return f'-m comment --comment "krash run {run}" -j {chain_of(run)}'


def _table(lines: Sequence[str]) -> bytes:
    return "\n".join(["*filter", *lines, "COMMIT", ""]).encode() if lines else b""
