"""What must always hold of a quorum, checked after every step of every node by someone who sees all of them.

    one leader in an epoch            two nodes that lead epoch 4
    epochs and high watermarks grow   within one run of a node
    committed entries never change    whatever any node ever held to be committed stays what it was (and leaders have all of it)
    log matching                      two logs with the same offset and epoch are the same up to there
    same offset, same state           state machines agree after the same number of records, by records or by snapshot
    no zombie leader                  who leads has heard from a majority lately

`violations` has sentences; the first is the one to read.
"""

from __future__ import annotations

from dataclasses import dataclass

from nodes.reference.environment import SECOND
from nodes.reference.raft.core import Raft
from nodes.reference.raft.log import Batch
from nodes.reference.raft.roles import Leader


@dataclass
class Seen:
    """One run of one node, up to where it has been checked."""

    epoch: int = -1
    high_watermark: int = -1
    log_end: int = 0


class Invariants:
    def __init__(self) -> None:
        self.violations: list[str] = []
        self.committed: dict[int, Batch] = {}  # by base offset
        self.committed_end = (0, 0)  # offset, epoch of the record before it
        self.leaders: dict[int, int] = {}
        self._written: dict[tuple[int, int], tuple[Batch, int]] = {}  # by offset and epoch; epoch of the one before
        self._states: dict[int, tuple[int, object]] = {}

    def started(self, raft: Raft) -> Seen:
        """Of a node that has just recovered: its log is checked from its start."""
        return Seen(log_end=raft.log.start_offset)

    def check(self, raft: Raft, seen: Seen, now: int) -> None:
        self._check_growth(raft, seen)
        self._check_log(raft, seen)
        self._check_committed(raft, seen)
        if isinstance(raft.role, Leader):
            self._check_leader(raft, raft.role, now)

    def applied(self, node_id: int, offset: int, state: object) -> None:
        """A state machine has been given everything before an offset."""
        other = self._states.setdefault(offset, (node_id, state))
        if other[1] != state:
            self.violations.append(
                f"same offset, same state: at {offset} node {node_id} has {state}, node {other[0]} had {other[1]}"
            )

    def _check_growth(self, raft: Raft, seen: Seen) -> None:
        if raft.epoch < seen.epoch:
            self.violations.append(f"monotone epoch: node {raft.node_id} goes from {seen.epoch} to {raft.epoch}")
        if raft.high_watermark < seen.high_watermark:
            self.violations.append(
                f"monotone high watermark: node {raft.node_id} goes from {seen.high_watermark} to {raft.high_watermark}"
            )
        seen.epoch = raft.epoch

    def _check_log(self, raft: Raft, seen: Seen) -> None:
        log = raft.log
        if log.end_offset == seen.log_end:
            return
        for batch in log.read(max(seen.log_end, log.start_offset)):
            before = log.epoch_before(batch.base_offset)
            known = self._written.setdefault((batch.base_offset, batch.epoch), (batch, before))
            if known != (batch, before):
                self.violations.append(
                    f"log matching: node {raft.node_id} has {batch} after epoch {before}, not {known}"
                )
        seen.log_end = log.end_offset

    def _check_committed(self, raft: Raft, seen: Seen) -> None:
        if raft.high_watermark == seen.high_watermark:
            return
        for batch in raft.log.read(max(seen.high_watermark, 0), up_to=raft.high_watermark):
            known = self.committed.setdefault(batch.base_offset, batch)
            if known != batch:
                self.violations.append(
                    f"committed entries never change: node {raft.node_id} has {batch}, it was {known}"
                )
            if batch.next_offset > self.committed_end[0]:
                self.committed_end = (batch.next_offset, batch.epoch)
        seen.high_watermark = raft.high_watermark

    def _check_leader(self, raft: Raft, role: Leader, now: int) -> None:
        other = self.leaders.get(raft.epoch)
        if other is None:
            self.leaders[raft.epoch] = raft.node_id
            end, epoch = self.committed_end
            if raft.epoch > epoch and raft.log.epoch_before(end) != epoch:
                self.violations.append(
                    f"leader completeness: node {raft.node_id} leads epoch {raft.epoch} without what was committed"
                    f" up to {end} in epoch {epoch}; its log ends at {raft.log.end}"
                )
        elif other != raft.node_id:
            self.violations.append(f"one leader in an epoch: {other} and {raft.node_id} lead epoch {raft.epoch}")
        self._check_zombie(raft, role, now)

    def _check_zombie(self, raft: Raft, role: Leader, now: int) -> None:
        """Each of a majority has fetched in one of the last two periods, or the leader is that young."""
        voters = raft.log.voters.current
        heard = sorted((role.progress[voter].last_fetch for voter in voters if voter != raft.node_id), reverse=True)
        needed = len(voters) // 2
        longest = 2 * raft.config.check_quorum_timeout + SECOND // 10
        if needed and now - max(heard[needed - 1], role.began) > longest:
            self.violations.append(
                f"no zombie leader: node {raft.node_id} leads epoch {raft.epoch}"
                f" without a majority for {(now - max(heard[needed - 1], role.began)) / SECOND:.1f} s"
            )
