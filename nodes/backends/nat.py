"""Connections led to a port of their own node, as iptables rules, as text: the wire gate listens there. Pure.

Each run has one chain in the nat table too, entered from OUTPUT. Cuts live in the filter table (`iptables.py`), so healing them
never touches these rules; they go with the node's network namespace.

    -A OUTPUT -m comment --comment "krash run 2026-11-21-chaos" -j krash-5f0c1e1b7a90
    -A krash-5f0c1e1b7a90 -d 10.77.0.12/32 -p tcp -m tcp --dport 9093 -m mark ! --mark 0x7 -m comment --comment gate -j REDIRECT
        --to-ports 7000

The nat table sees only the first packet of a connection: what exists already is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nodes.backends.iptables import chain_of

SAVE = ("iptables-save", "-t", "nat")


def rules_for(to: Mapping[str, Sequence[int]], *, port: int, mark: int) -> list[str]:
    """Bodies of the rules for destinations (IPv4 -> ports)."""
    return [
        f"-d {address}/32 -p tcp -m tcp --dport {each} -m mark ! --mark {mark:#x}"
        f" -m comment --comment gate -j REDIRECT --to-ports {port}"
        for address, ports in to.items()
        for each in ports
    ]


def installation(run: str, bodies: Sequence[str], saved: bytes) -> bytes:
    """Input for iptables-restore that makes these the run's rules, whatever was there; `saved` is the output of SAVE."""
    chain = chain_of(run)
    entered = any(
        line.startswith("-A OUTPUT ") and line.endswith(f"-j {chain}") for line in saved.decode().splitlines()
    )
    jump = [] if entered else [f'-I OUTPUT 1 -m comment --comment "krash run {run}" -j {chain}']
    return "\n".join(
        ["*nat", f":{chain} - [0:0]", *jump, *(f"-A {chain} {body}" for body in bodies), "COMMIT", ""]
    ).encode()
