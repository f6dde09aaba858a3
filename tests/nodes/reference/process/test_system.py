"""The reference cluster as a plug-in: what it refuses, what it writes for a node."""

from __future__ import annotations

import pytest

from nodes.reference.process.system import VERSION, ReferenceSystem
from nodes.system import SystemUnavailable
from nodes.topology import NodePlan, QuorumKind, ServerRole, Topology

SYSTEM = ReferenceSystem()


def topology(version: str = VERSION, quorum: QuorumKind = QuorumKind.STATIC, level: str | None = None) -> Topology:
    plan = NodePlan(name="b1", id=1, roles=frozenset({ServerRole.BROKER}), version=version)
    return Topology(system="reference", nodes=(plan,), quorum=quorum, metadata_version=level)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (topology("3.9.1"), "b1 wants version 3.9.1 of the reference cluster, there is only 1"),
        (topology(quorum=QuorumKind.DYNAMIC), "write `quorum: static`"),
        (topology(level="4.0"), "metadata.version '4.0' is not known to the reference cluster"),
    ],
)
def test_what_it_cannot_do_is_said_before_anything_starts(asked: Topology, said: str) -> None:
    with pytest.raises(SystemUnavailable) as refused:
        SYSTEM.check(asked)
    assert said in str(refused.value)


def test_levels_by_name() -> None:
    SYSTEM.check(topology(level="3.5-IV1"))
    assert [SYSTEM.metadata_level(name) for name in ("3.5-IV1", "3.5", "3.0-IV1", "3.3")] == [10, 11, 1, 7]
    with pytest.raises(ValueError, match="is not known"):
        SYSTEM.metadata_level("9.9")
