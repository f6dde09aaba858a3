"""Versions side by side, and metadata.version."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodes.kafka.version import METADATA_LEVELS
from nodes.protocol.connection import Connection
from nodes.system import SystemUnavailable
from nodes.topology import BROKER_PORT, separate
from tests.kafka.conftest import Lab, combined, topic


async def level(address: str) -> int:
    async with await Connection.open(address, BROKER_PORT, timeout=10) as connection:
        return connection.features["metadata.version"]


async def test_a_rolling_upgrade_from_a_mixed_cluster_and_a_higher_metadata_version(lab: Lab) -> None:
    plan = separate(
        system="kafka", version="3.9.2", controllers=1, brokers=2, topics=(topic(),), metadata_version="3.4"
    )
    c1, b1, b2 = plan.nodes
    cluster = await lab.deploy(replace(plan, nodes=(c1, replace(b1, version="3.4.1"), replace(b2, version="4.3.1"))))
    assert cluster.versions == {"c1": "3.9.2", "b1": "3.4.1", "b2": "4.3.1"}
    assert await level(cluster.nodes["b2"].address) == METADATA_LEVELS["3.4-IV0"]

    for name in ("c1", "b1"):
        await cluster.restart(name, version="4.3.1")
        await cluster.recovered(90)
    assert set(cluster.versions.values()) == {"4.3.1"}
    assert await level(cluster.nodes["b1"].address) == METADATA_LEVELS["3.4-IV0"]

    await cluster.raise_metadata_version("3.9")
    for name in ("b1", "b2"):
        assert await level(cluster.nodes[name].address) == METADATA_LEVELS["3.9-IV0"]
    await cluster.recovered(60)


async def test_an_unknown_metadata_version_is_refused_before_anything_starts(lab: Lab) -> None:
    with pytest.raises(SystemUnavailable, match=r"cannot format a disk at metadata.version 9\.9"):
        await lab.deploy(combined("4.3.1", 1, metadata_version="9.9"))
    assert lab.events == []
