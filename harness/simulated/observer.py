"""What a simulated run tells of its controllers: who claims to be the active one, and the metadata log as they agreed on it.

The rows of nodes/observer.py and of nodes/kafka/metadata_follower.py, without their questions: a controller that runs and is not paused
would answer, so it is looked at instead, somewhat more often than a real one is asked. Of the metadata log each committed batch is told
when the first controller applies it: one copy, that of the node `quorum`.

    observer = Observer(cluster, rows)
    observer.begin()
    ...
    observer.end()                # claims that are still made end here
"""

from __future__ import annotations

from typing import Final

from harness.simulated.cluster import SimulatedCluster
from harness.simulated.recording import CLOCK, Rows
from nodes.claims import Claims
from nodes.kafka.metadata_log import rows as rows_of
from nodes.kafka.metadata_rows import Story
from nodes.reference.environment import MILLISECOND
from nodes.reference.raft.log import Batch
from nodes.reference.raft.records import encode
from nodes.reference.raft.roles import Leader

LOOK: Final = 50 * MILLISECOND
QUORUM: Final = "quorum"  # whose copy of the metadata log it is


class Observer:
    def __init__(self, cluster: SimulatedCluster, rows: Rows) -> None:
        self._cluster, self._rows = cluster, rows
        self._claims = Claims(run=rows.run, clock=CLOCK)
        self._story = Story(rows.run, CLOCK, QUORUM)
        self._told = 0  # the offset after what was told
        cluster.committed = self._committed

    def begin(self) -> None:
        self._look()

    def end(self) -> None:
        self._rows.events += self._claims.ended()

    def _look(self) -> None:
        now = self._cluster.world.loop.now
        for name, node in self._cluster.controllers.items():
            process = self._cluster.machine(name).process
            reached = process is not None and not process.paused
            leads = (node.node_id, node.replica.raft.epoch) if isinstance(node.replica.raft.role, Leader) else None
            heard = self._claims.heard(
                name, node.node_id, leads=leads if reached else None, reached=reached, asked_ns=now, answered_ns=now
            )
            self._rows.events += heard
        self._cluster.world.after(LOOK, self._look)

    def _committed(self, batch: Batch) -> None:
        if batch.base_offset < self._told:
            return
        self._told = batch.next_offset
        now = self._cluster.world.loop.now
        self._rows.metadata += (self._story.tell(row, at_ns=now) for row in rows_of(encode(batch, "")))
