"""Triggers on a real cluster: each is told by its own source, in the order in which things happen."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from nemesis.triggers import Scene, wait_for
from nemesis.when import When
from nodes.protocol import logs
from nodes.topology import Topic, separate
from tests.kafka.conftest import Lab

TOPIC = Topic(name="t", partitions=1, replication=2, assignment={0: (1, 2)}, config={"min.insync.replicas": "1"})
SHRINK = {"isr_of": "t-0", "is": ["b1"]}
RETURN = {
    "all": [
        {"unfenced": "b2"},
        {"message": {"source": "b1", "destination": "c1", "api": "AlterPartition", "where": "newIsr contains 2"}},
        {"log": {"node": "b1", "matches": r"PendingExpandIsr\(newInSyncReplicaId=2"}},
    ],
    "then": [{"isr_of": "t-0", "contains": "b2"}, {"high_watermark": {"of": "t-0", "passes": 1}}],
}


async def test_a_follower_that_leaves_and_comes_back_is_told_step_by_step(lab: Lab) -> None:
    plan = separate(system="kafka", version="4.3.1", controllers=1, brokers=2, topics=(TOPIC,))
    cluster = await lab.deploy(replace(plan, debug=("kafka.cluster.Partition",)), wire=True)
    scene = Scene(on=cluster)
    leader = await cluster.connect("b1")
    assert (await logs.produce(leader, "t", 0, [b"a"], timeout=20)).base_offset == 0

    gone = asyncio.create_task(wait_for(When.model_validate({"fenced": "b2", **SHRINK}).plain(), scene))
    await cluster.kill("b2")
    await asyncio.wait_for(gone, 60)
    assert {row.isr for row in lab.metadata if row.kind == "partition-change"} == {(1,)}

    back = asyncio.create_task(wait_for(When.model_validate(RETURN).plain(), scene))
    await cluster.start("b2", deadline=60)
    await cluster.recovered(60)
    assert not back.done(), "the high watermark has not passed"
    assert (await logs.produce(leader, "t", 0, [b"b"], timeout=20)).base_offset == 1
    await asyncio.wait_for(back, 30)
