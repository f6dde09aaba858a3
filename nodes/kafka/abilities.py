"""What releases of Apache Kafka cannot do, refused before anything is fetched or started. Pure, but for unpacked distributions."""

from __future__ import annotations

from nodes.kafka.distribution import locate
from nodes.kafka.version import (
    FIRST_DYNAMIC_QUORUM,
    FIRST_FEATURES,
    FIRST_METADATA_VERSION,
    LATEST,
    is_path,
    release,
)
from nodes.system import SystemUnavailable
from nodes.topology import QuorumKind, Topology


def check(topology: Topology) -> None:
    """SystemUnavailable names the node that is too old for what the topology asks for."""
    if topology.quorum is QuorumKind.DYNAMIC:
        _all_from(topology, FIRST_DYNAMIC_QUORUM, "a dynamic quorum (KIP-853)", "write `quorum: static`")
    if topology.features:
        _all_from(topology, FIRST_FEATURES, "features at format time", "leave `features` out")
    if topology.metadata_version is not None:
        _all_from(topology, FIRST_METADATA_VERSION, "a metadata.version", "leave `metadata_version` out")


def _all_from(topology: Topology, first: tuple[int, int, int], what: str, otherwise: str) -> None:
    for plan in topology.nodes:
        version = _version(plan.version)
        if release(version) < first:
            since = ".".join(map(str, first[:2]))
            raise SystemUnavailable(f"{plan.name} runs Kafka {version}, but {what} needs {since} or newer: {otherwise}")


def _version(written: str) -> str:
    if is_path(written):
        return locate(written).version
    return LATEST if written == "latest" else written
