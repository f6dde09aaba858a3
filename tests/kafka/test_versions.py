"""Versions side by side, and metadata.version."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from nodes.cluster import Cluster
from nodes.kafka.version import METADATA_LEVELS
from nodes.protocol import requests
from nodes.protocol.connection import Connection
from nodes.system import SystemUnavailable
from nodes.topology import BROKER_PORT, QuorumKind, separate
from tests.kafka.conftest import Lab, combined, topic


async def level(address: str) -> int:
    async with await Connection.open(address, BROKER_PORT, timeout=10) as connection:
        return connection.features["metadata.version"]


async def test_a_rolling_upgrade_of_a_mixed_cluster_keeps_its_metadata_version_until_it_is_raised(lab: Lab) -> None:
    plan = separate(system="kafka", version="3.4.1", controllers=1, brokers=2, topics=(topic(),))
    c1, b1, b2 = plan.nodes
    cluster = await lab.deploy(replace(plan, nodes=(c1, b1, replace(b2, version="4.3.1"))))
    assert cluster.versions == {"c1": "3.4.1", "b1": "3.4.1", "b2": "4.3.1"}
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


async def voters(cluster: Cluster, active: str) -> tuple[set[int], set[int]]:
    """Ids of the voters that keep up, and of the observers, as the active controller tells them."""
    async with await cluster.connect(active, timeout=20) as connection:
        told = (await requests.quorum(connection, timeout=20)).topics[0].partitions[0]
    end = max(int(one.log_end_offset) for one in told.current_voters)
    keeping_up = {int(one.replica_id) for one in told.current_voters if int(one.log_end_offset) >= end - 3}
    return keeping_up, {int(one.replica_id) for one in told.observers}


async def test_a_wiped_controller_of_a_dynamic_quorum_votes_again_only_under_its_old_directory_id(lab: Lab) -> None:
    plan = separate(
        system="kafka",
        version="4.3.1",
        controllers=3,
        brokers=1,
        quorum=QuorumKind.DYNAMIC,
        features={"eligible.leader.replicas.version": 0},
    )
    cluster = await lab.deploy(plan)
    async with await cluster.connect("b1", timeout=20) as connection:
        assert connection.features["kraft.version"] == 1
        assert "eligible.leader.replicas.version" not in connection.features
    active = await cluster.active_controller()
    assert active is not None
    wiped = next(plan for plan in cluster.topology.controllers if plan.name != active)
    for keep in (True, False):
        before = await cluster.meta(wiped.name)
        await cluster.kill(wiped.name)
        await cluster.wipe(wiped.name, keep_directory_id=keep)
        assert ((await cluster.meta(wiped.name)) == before) is keep
        await cluster.start(wiped.name, deadline=60)
        async with asyncio.timeout(60):
            while True:
                voting, observing = await voters(cluster, active)
                # a voter that is gone stays in the list for a while, with the offset that it had
                if (wiped.id in voting) is keep and (wiped.id in observing) is not keep:
                    break


async def test_an_unknown_metadata_version_is_refused_before_anything_starts(lab: Lab) -> None:
    with pytest.raises(SystemUnavailable, match=r"cannot format a disk at metadata.version 9\.9"):
        await lab.deploy(combined("4.3.1", 1, metadata_version="9.9"))
    assert lab.events == []
