"""What a formatted disk holds, written without starting a JVM: `meta.properties`, and on controllers the bootstrap metadata.

    version=1
    cluster.id=Yx0uxTgrT0q9GKB3NkFAWQ
    node.id=1
    directory.id=6Gy8m2CkSl2SV5yOvoQ5Cg      names this disk since 3.7 (KIP-858, KIP-853); older releases ignore it

Ids are derived, the first disk's from cluster and node, a replacement's from the disk before it, so that the same plan gives the same ones.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Final

from nodes.protocol.requests import text
from nodes.system import QuorumState

META: Final = "meta.properties"
_SPACE: Final = uuid.UUID("2e3e3a77-2f3e-5d5b-9c1c-6b6f2f0a7d11")


def cluster_id(addresses: Mapping[str, str]) -> str:
    """The id of a cluster of these nodes (name -> address)."""
    return _id(";".join(f"{name}={address}" for name, address in sorted(addresses.items())))


def directory_id(cluster: str, node: int) -> str:
    """The id of a node's first disk."""
    return _id(f"{cluster}/{node}")


def next_directory_id(directory: str) -> str:
    """The id of the disk that replaces this one."""
    return _id(directory)


def _id(seed: str) -> str:
    """Kafka refuses ids that begin with a dash (they look like options)."""
    written = text(uuid.uuid5(_SPACE, seed))
    return written if not written.startswith("-") else _id(seed + "'")


def meta_properties(*, cluster: str, node: int, directory: str) -> str:
    return f"version=1\ncluster.id={cluster}\nnode.id={node}\ndirectory.id={directory}\n"


def parse(properties: str) -> dict[str, str]:
    """The pairs of a .properties text without escapes or continuation lines."""
    pairs = (line.split("=", 1) for line in properties.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def quorum_state(written: str) -> QuorumState:
    """A `quorum-state` file: one line of JSON, replaced as a whole.

    `{"leaderId":101,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAA...","data_version":1}`
    """
    told = json.loads(written)
    return QuorumState(leader=told["leaderId"], epoch=told["leaderEpoch"], voted=told["votedId"])
