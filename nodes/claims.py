"""What each controller claims for itself: that it is the active one, in an epoch. Pure.

A claim is a DescribeQuorum answer without error that names the one who answers as the leader. Two events per claim, dated
so that its span is proven from inside: it begins when the first such answer had come, and ends when the last one was asked
for. Two claims that overlap by these times did overlap.

    controller-claims      node=c1 leader=101 leader_epoch=4
    controller-claim-ends  node=c1 leader=101 leader_epoch=4 detail="silent" (or "it says otherwise", "the run ended")
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nodes.event import Event, EventKind

SILENT = "silent"
OTHERWISE = "it says otherwise"
RUN_ENDED = "the run ended"


@dataclass(frozen=True, kw_only=True)
class _Claim:
    node: str
    leader: int
    epoch: int
    asked_ns: int  # when the last answer that says so was asked for


class Claims:
    """Follows the controllers' answers, one by one."""

    def __init__(self, *, run: str, clock: str) -> None:
        self._run, self._clock = run, clock
        self._open: dict[str, _Claim] = {}

    def heard(
        self, node: str, id: int, *, leads: tuple[int, int] | None, reached: bool, asked_ns: int, answered_ns: int
    ) -> Iterator[Event]:
        """One look at a controller. `leads`: (leader, epoch) as it says, if it answers as an active one; `reached`: it answered."""
        epoch = leads[1] if leads is not None and leads[0] == id else None
        known = self._open.get(node)
        if known is not None and epoch == known.epoch:
            self._open[node] = replace(known, asked_ns=asked_ns)
            return
        if known is not None:
            yield self._end(known, OTHERWISE if reached else SILENT)
        if epoch is not None:
            self._open[node] = _Claim(node=node, leader=id, epoch=epoch, asked_ns=asked_ns)
            yield self._event(self._open[node], EventKind.CONTROLLER_CLAIMS, answered_ns, None)

    def ended(self) -> Iterator[Event]:
        """Nobody will be asked any more."""
        for claim in list(self._open.values()):
            yield self._end(claim, RUN_ENDED)

    def _end(self, claim: _Claim, detail: str) -> Event:
        del self._open[claim.node]
        return self._event(claim, EventKind.CONTROLLER_CLAIM_ENDS, claim.asked_ns, detail)

    def _event(self, claim: _Claim, kind: EventKind, at_ns: int, detail: str | None) -> Event:
        return Event(
            run=self._run,
            clock=self._clock,
            at_ns=at_ns,
            node=claim.node,
            kind=kind,
            leader=claim.leader,
            leader_epoch=claim.epoch,
            detail=detail,
        )
