"""Who claimed to be the active controller, and when: two at a time, and healthy ones that were deposed.

A claim is a controller's own DescribeQuorum answer that it is the leader, in an epoch. The observer asks every controller
four times a second and writes two events per claim (nodes/claims.py), so that its span is proven from inside: it begins
when the first answer had come, and ends when the last one was asked for.

    c1, epoch 4   |---------------------------|
    c2, epoch 7                |--------------------------
                               |<- overlap -->|   c1 still claimed when c2 had claimed a higher epoch

Where a controller was silent in between (paused, dead) it made no claim: its silence is never counted.

An epoch has one leader (Raft, election safety; KIP-595, Vote Request Handling): two nodes that claim the same one are found however short
their claims are, and whether they overlap or not.

Source: KAFKA-15489 and KIP-835/check-quorum (fixed in 3.7) for two controllers; KIP-996 (pre-vote, 4.0) for deposed ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from harness.checker.anomalies import EPOCH_INFLATION, TWO_ACTIVE_CONTROLLERS
from harness.checker.check import Check, Need, Row, plain_finding
from nodes.event import EventKind

if TYPE_CHECKING:
    from harness.checker.history import History

RECENT_NS = 5_000_000_000  # what happened to a controller so shortly before it was deposed may explain it
_DOWN = (
    "kill",
    "stop",
    "restart",
    "pause",
    "wipe",
    "roll",
    "power",
    "upgrade",
)  # faults and steps that take a node away


@dataclass(frozen=True, kw_only=True)
class Claim:
    node: str
    epoch: int
    begun_ns: int
    ended_ns: int | None  # None: nobody noted the end
    silent: bool  # it ended in silence, not in another answer


def claims(events: Iterable[Mapping[str, Any]]) -> list[Claim]:
    """Of one run, by their beginning. `events`: EVENTS rows."""
    begun: dict[tuple[str, int], int] = {}
    found = []
    kinds = (EventKind.CONTROLLER_CLAIMS, EventKind.CONTROLLER_CLAIM_ENDS)
    told = [event for event in events if event["kind"] in kinds and event["node"] and event["leader_epoch"] is not None]
    # an end is dated back to the last question, which may be before the first answer: pair them by node and epoch
    for event in sorted(told, key=lambda event: (event["at_ns"], event["kind"] == kinds[1])):
        key = (event["node"], event["leader_epoch"])
        if event["kind"] == kinds[0]:
            begun[key] = event["at_ns"]
        elif key in begun:
            silent = "silent" in (event["detail"] or "")
            found.append(
                Claim(node=key[0], epoch=key[1], begun_ns=begun.pop(key), ended_ns=event["at_ns"], silent=silent)
            )
    found += [
        Claim(node=node, epoch=epoch, begun_ns=begun_ns, ended_ns=None, silent=False)
        for (node, epoch), begun_ns in begun.items()
    ]
    return sorted(found, key=lambda claim: (claim.begun_ns, claim.epoch))


def overlaps(made: Iterable[Claim]) -> Iterator[tuple[Claim, Claim, int]]:
    """(stale, newer, ns for which the stale one is proven to have claimed after the newer had): the longest per pair of epochs."""
    made = list(made)
    longest: dict[tuple[str, int, str, int], tuple[Claim, Claim, int]] = {}
    for stale in made:
        for newer in made:
            if newer.node == stale.node or newer.epoch <= stale.epoch or stale.ended_ns is None:
                continue
            overlap = stale.ended_ns - max(stale.begun_ns, newer.begun_ns)
            key = (stale.node, stale.epoch, newer.node, newer.epoch)
            if overlap > 0 and (key not in longest or overlap > longest[key][2]):
                longest[key] = (stale, newer, overlap)
    yield from longest.values()


def rivals(made: Iterable[Claim]) -> Iterator[tuple[Claim, Claim]]:
    """Two nodes that claimed one epoch, at whatever times (Raft, election safety): the first claims of both."""
    first: dict[tuple[int, str], Claim] = {}
    for claim in made:
        first.setdefault((claim.epoch, claim.node), claim)
    of_epoch: dict[int, Claim] = {}
    for (epoch, _), claim in first.items():
        if epoch in of_epoch:
            yield of_epoch[epoch], claim
        of_epoch.setdefault(epoch, claim)


def two_controllers(history: History) -> Iterator[Row]:
    """Overlaps longer than the run's bound, and epochs that two claimed, however shortly."""
    for run, made in history.claims.items():
        origin, bound = history.origins[run], history.runs[run].settings.two_controllers_bound
        for one, other in rivals(made):
            yield plain_finding(
                TWO_ACTIVE_CONTROLLERS,
                run=run,
                sentence=f"{one.node} claimed to be the active controller in epoch {one.epoch} "
                f"(from {(one.begun_ns - origin) / 1e9:.3f} s), "
                f"and so did {other.node} (from {(other.begun_ns - origin) / 1e9:.3f} s): an epoch has one leader.",
                since=other.begun_ns,
                until=other.ended_ns,
                detail={"stale": one.node, "newer": other.node, "epochs": [one.epoch, other.epoch], "seconds": None},
            )
        for stale, newer, overlap in overlaps(made):
            seconds = overlap / 1e9
            if seconds <= bound:
                continue
            assert stale.ended_ns is not None
            since, until = stale.ended_ns - overlap, stale.ended_ns
            yield plain_finding(
                TWO_ACTIVE_CONTROLLERS,
                run=run,
                sentence=f"{stale.node} went on claiming to be the active controller, in epoch {stale.epoch}, for {seconds:.1f} s "
                f"(from {(since - origin) / 1e9:.3f} s to {(until - origin) / 1e9:.3f} s) after {newer.node} had claimed it in "
                f"epoch {newer.epoch}; {bound:g} s are allowed.",
                since=since,
                until=until,
                detail={
                    "stale": stale.node,
                    "newer": newer.node,
                    "epochs": [stale.epoch, newer.epoch],
                    "seconds": seconds,
                },
            )


def inflations(history: History) -> Iterator[Row]:
    """Active controllers that lost their place although they were healthy."""
    for run, made in history.claims.items():
        origin = history.origins[run]
        for before, after in pairwise(_reigns(made)):
            if before.ended_ns is None or not _healthy(history, run, before, after):
                continue
            yield plain_finding(
                EPOCH_INFLATION,
                run=run,
                sentence=f"{before.node} was deposed as active controller (epoch {before.epoch}) at "
                f"{(before.ended_ns - origin) / 1e9:.3f} s, although it was up and no fault cut it off from most controllers; "
                f"{after.node} leads since {(after.begun_ns - origin) / 1e9:.3f} s, in epoch {after.epoch}.",
                since=before.ended_ns,
                until=after.begun_ns,
                detail={"deposed": before.node, "epochs": [before.epoch, after.epoch], "successor": after.node},
            )


def _reigns(made: Iterable[Claim]) -> list[Claim]:
    """The last claim of each epoch with the first begin, in the order of epochs: those that nobody could contradict."""
    reigns: dict[int, Claim] = {}
    for claim in made:
        known = reigns.get(claim.epoch)
        begun_ns = claim.begun_ns if known is None else known.begun_ns
        reigns[claim.epoch] = Claim(
            node=claim.node, epoch=claim.epoch, begun_ns=begun_ns, ended_ns=claim.ended_ns, silent=claim.silent
        )
    return [reigns[epoch] for epoch in sorted(reigns)]


def _healthy(history: History, run: str, deposed: Claim, successor: Claim) -> bool:
    """Whether nothing that happened to a deposed controller explains it."""
    assert deposed.ended_ns is not None
    bound_ns = history.runs[run].settings.two_controllers_bound * 1e9
    if deposed.silent or deposed.ended_ns - successor.begun_ns > bound_ns:
        return False  # it did not go: that is two_controllers' matter
    since, until = deposed.ended_ns - RECENT_NS, max(deposed.ended_ns, successor.begun_ns)
    events, faults, steps = (rows.get(run, []) for rows in (history.events, history.faults_by_run, history.steps))
    for event in events:
        if event["node"] == deposed.node and event["kind"] == EventKind.EXITED and since <= event["at_ns"] <= until:
            return False
    for row in faults:
        lasted = (
            row["injecting_ns"] is not None and row["injecting_ns"] <= until and (row["healed_ns"] or until) >= since
        )
        if lasted and (_takes_away(row["name"], row["targets"], deposed.node) or _cuts_off(row, deposed.node)):
            return False
    if any(
        since <= row["started_ns"] <= until and _takes_away(row["verb"], row["nodes"], deposed.node) for row in steps
    ):
        return False
    return not _cut_by_steps(steps, deposed.node, since, until, len({claim.node for claim in history.claims[run]}))


def _takes_away(name: str, nodes: Iterable[str], node: str) -> bool:
    return name.startswith(_DOWN) and node in nodes


def _cuts_off(fault: Mapping[str, Any], node: str) -> bool:
    """Whether a partition may have left a controller with a minority. Halves and bridges may; a minority that it is not in cannot."""
    name, targets = fault["name"], fault["targets"]
    if not name.startswith("partition"):
        return False
    shape = name.removeprefix("partition-")
    if shape in ("isolate", "one-way", "majority-minority"):
        return node in targets
    return shape in ("halves", "bridge") or "action" not in (fault["settings"] or "{}")


def _cut_by_steps(steps: Iterable[Mapping[str, Any]], node: str, since: int, until: int, controllers: int) -> bool:
    """Whether a race's cuts ("cut c1 ↔ c2 c3") separated a controller from most others at any time in between."""
    cut: set[str] = set()
    for step in sorted(steps, key=lambda step: int(step["step"])):
        if step["started_ns"] > until:
            break
        if step["verb"] == "cut":
            cut |= _other_side(step["text"], node)
        elif step["verb"] == "heal" and step["started_ns"] < since:
            cut -= _other_side(step["text"], node)
    return 2 * sum(name.startswith(("c", "n")) for name in cut) >= max(controllers, 3)


def _other_side(text: str, node: str) -> set[str]:
    """Whom a node is cut from, by the words of the step."""
    sides = [set(side.split()) for side in re.split("[↔→]", text.partition(" ")[2])]
    return set().union(*(other for side in sides if node in side for other in sides if other is not side))


CHECKS = (
    Check(kind=TWO_ACTIVE_CONTROLLERS, engine="rules", needs=Need.CLAIMS, tell=two_controllers, optional=True),
    Check(kind=EPOCH_INFLATION, engine="rules", needs=Need.CLAIMS, tell=inflations, optional=True),
)
