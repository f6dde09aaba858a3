"""Consumer groups: who owns what, and how far the group says it has come.

All from the positions of members (workloads/group.py), in plain Python: there is a row per commit and partition, not per
record. What was handed out is coverage.py's.

    a commit or an answer is below what had been committed before it was asked for     committed-offset-backwards
    the group has committed more than anybody asked it to                              committed-past-processed
    a partition is taken up beyond what the group has committed                        group-skip
    two members act as owners of a partition in one generation                         two-owners
    a member commits with success after another was given the partition                two-owners

A commit counts from when it succeeded; one in a transaction when that was committed, and not at all if it was aborted. To
act as an owner is to be given the partition, or to commit it with success: what a member merely believes, after it was
paused, is no violation. A static member that comes back takes its own place in the generation that there is (KIP-345): both
incarnations act in it, and only if they do so in turns, each with success, is it a violation. With the
protocol of KIP-848 generations are epochs of members, and only the last line is asked.

Sources: KAFKA-5600 and KAFKA-9835 (offsets of groups that go back), KIP-345, KIP-447 and KIP-848 (fencing by generation
and by epoch), kafkatest's consumer_test (no two owners).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.checker.anomalies import (
    COMMITTED_BACKWARDS,
    COMMITTED_PAST,
    GROUP_SKIP,
    TWO_OWNERS,
    AnomalyType,
)
from harness.checker.check import Check, Need, Row, plain_finding
from harness.checker.history import History
from harness.checker.transactions import Fate, Transaction
from workloads.group import GroupProtocol
from workloads.op import OpKind, Outcome

Position = Mapping[str, Any]  # a POSITIONS row
Acted = dict[int, dict[str, list[Position]]]  # generation -> instance -> what only an owner can do, as it was asked for
_UNIQUE = re.compile(r"-[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$")
_NOTHING = -1  # offset of a group that has committed nothing


class Place(NamedTuple):
    """A partition as a group sees it."""

    run: str
    group: str
    topic: str
    partition: int

    @property
    def log(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, kw_only=True)
class Said:
    """That a group has come to an offset: by a commit that counts, or by an answer."""

    offset: int
    since_ns: int
    until_ns: int | None  # None: unknown whether it happened
    row: Position

    @property
    def told(self) -> str:
        if self.row["kind"] == OpKind.COMMIT_OFFSETS:
            return f"{self.row['client']} committed {self.offset}"
        return (
            f"{self.row['client']} was told {'that nothing is committed' if self.offset == _NOTHING else self.offset}"
        )


@dataclass(kw_only=True)
class Partition:
    """What is known of one place, each by time."""

    rows: list[Position]
    commits: list[Said]  # that may have happened
    answers: list[Said]


def partitions(history: History) -> dict[Place, Partition]:
    """Of all runs."""
    return history.once(_partitions)


def _partitions(history: History) -> dict[Place, Partition]:
    ends = {(one.run, one.transaction): one for one in history.transactions}
    grouped: dict[Place, list[Position]] = defaultdict(list)
    for rows in history.positions.values():
        for row in sorted(rows, key=lambda row: (row["invoked_ns"], row["op"])):
            grouped[Place(row["run"], row["group"], row["topic"], row["partition"])].append(row)
    return {
        place: Partition(
            rows=rows,
            commits=[said for row in rows if (said := commit(row, ends)) is not None],
            answers=[said for row in rows if (said := _answer(row)) is not None],
        )
        for place, rows in sorted(grouped.items())
    }


def commit(row: Position, ends: Mapping[tuple[str, int], Transaction]) -> Said | None:
    """What a row says if it is a commit that happened, or may have."""
    if row["kind"] != OpKind.COMMIT_OFFSETS or row["outcome"] == Outcome.FAIL or row["offset"] is None:
        return None
    since, until = row["invoked_ns"], row["completed_ns"] if row["outcome"] == Outcome.OK else None
    if row["transaction"] is not None:
        end = ends.get((row["run"], row["transaction"]))
        if end is None or end.fate is Fate.ABORTED:
            return None
        since, until = end.committing_ns or since, None if until is None else end.ended_ns
    return Said(offset=row["offset"], since_ns=since, until_ns=until, row=row)


def _answer(row: Position) -> Said | None:
    if row["kind"] != OpKind.FETCH_OFFSETS or row["outcome"] != Outcome.OK:
        return None
    offset = _NOTHING if row["offset"] is None else row["offset"]
    return Said(offset=offset, since_ns=row["invoked_ns"], until_ns=row["completed_ns"], row=row)


def backwards(place: Place, one: Partition) -> Iterator[tuple[str, list[Position]]]:
    """What is below the highest that was over before it was asked for."""
    asked = sorted([*one.commits, *one.answers], key=lambda said: said.since_ns)
    over = sorted((said for said in asked if said.until_ns is not None), key=lambda said: said.until_ns or 0)
    best, following = None, 0
    for said in asked:
        while following < len(over) and (over[following].until_ns or 0) < said.since_ns:
            if best is None or over[following].offset > best.offset:
                best = over[following]
            following += 1
        if best is not None and said.until_ns is not None and said.offset < best.offset:
            yield (
                f"{said.told} for group {place.group} in {place.log}, after {best.told}.",
                [said.row, best.row],
            )


def never_asked(place: Place, one: Partition) -> Iterator[tuple[str, list[Position]]]:
    """Answers above all that anybody had asked to commit by then."""
    asked_by = _most_by(one.commits)
    for said in one.answers:
        most = asked_by(said.until_ns or said.since_ns)
        if said.offset > (_NOTHING if most is None else most.offset):
            asked = "anything" if most is None else f"more than {most.offset}"
            yield (
                f"{said.told} for group {place.group} in {place.log}, when nobody had asked to commit {asked}.",
                [said.row],
            )


def taken_up_late(place: Place, one: Partition) -> Iterator[tuple[str, list[Position]]]:
    """Assignments that begin above all that anybody had asked to commit. A member that has the partition may go on where it is."""
    asked_by = _most_by(one.commits)
    owners: set[str] = set()
    for row in one.rows:
        match row["kind"]:
            case OpKind.REVOKE | OpKind.LOST:
                owners.discard(row["client"])
            case OpKind.ASSIGN if row["outcome"] == Outcome.OK:
                most = asked_by(row["completed_ns"] or row["invoked_ns"])
                mine = row["client"] in owners
                owners.add(row["client"])
                if not mine and most is not None and row["offset"] is not None and row["offset"] > most.offset:
                    yield (
                        f"{row['client']} took {place.log} up for group {place.group} at offset {row['offset']}, although the "
                        f"group had committed no more than {most.offset}: what is between was never processed.",
                        [row, most.row],
                    )


def _most_by(commits: Sequence[Said]) -> Callable[[int], Said | None]:
    """The commit with the highest offset among those that were asked for by some time."""
    ordered = sorted(commits, key=lambda said: said.since_ns)
    times = [said.since_ns for said in ordered]
    most: list[Said] = []
    for said in ordered:
        most.append(most[-1] if most and most[-1].offset >= said.offset else said)

    def by(time: int) -> Said | None:
        place = bisect_right(times, time)
        return most[place - 1] if place else None

    return by


def owners(place: Place, one: Partition) -> Iterator[tuple[str, list[Position]]]:
    acted = _by_generation(one)
    yield from _in_one_generation(place, acted)
    yield from _in_turns(place, acted)
    yield from _after_another(place, one)


def _by_generation(one: Partition) -> Acted:
    acted: Acted = defaultdict(lambda: defaultdict(list))
    for row in one.rows:
        if _acts(row) and row["protocol"] != GroupProtocol.CONSUMER and row["generation"] is not None:
            acted[row["generation"]][instance(row["member"])].append(row)
    return acted


def _in_one_generation(place: Place, acted: Acted) -> Iterator[tuple[str, list[Position]]]:
    for generation, members in sorted(acted.items()):
        if len(members) > 1:
            (first, *_), (second, *_), *_ = members.values()
            yield (
                f"In generation {generation} of group {place.group}, {first['client']} {_did(first)} {place.log}, and "
                f"{second['client']} {_did(second)} it too.",
                [second, first],
            )


def _in_turns(place: Place, acted: Acted) -> Iterator[tuple[str, list[Position]]]:
    """Incarnations of a static member in one generation.

    Which of them replaced the other, and when, nobody tells: a member acts on an assignment long after the coordinator gave it. But
    whoever was replaced is fenced for good, so that one that acted, another that committed then, and the first that commits after
    that cannot all have had success.
    """
    for members in acted.values():
        for rows in members.values():
            if len({row["member"] for row in rows}) > 1:
                yield from _turns(place, rows)


def _turns(place: Place, rows: Sequence[Position]) -> Iterator[tuple[str, list[Position]]]:
    commits = sorted((row for row in rows if row["kind"] == OpKind.COMMIT_OFFSETS), key=_ended)
    first: dict[str, Position] = {}  # member -> the act of its that was over first
    over: dict[str, Position] = {}  # member -> of its commits that are over, the one that was asked for last
    told: set[str] = set()
    following = 0
    for row in rows:
        while following < len(commits) and _ended(commits[following]) < row["invoked_ns"]:
            done = commits[following]
            over[done["member"]] = max(over.get(done["member"], done), done, key=lambda one: one["invoked_ns"])
            following += 1
        member, mine = row["member"], first.get(row["member"])
        if row["kind"] == OpKind.COMMIT_OFFSETS and mine is not None and member not in told:
            others = [other for other in over.values() if other["member"] != member]
            between = next((other for other in others if other["invoked_ns"] > _ended(mine)), None)
            if between is not None:
                told.add(member)
                yield (
                    f"{row['client']} committed {place.log} for group {place.group} with success, after {between['client']} had, "
                    "the other incarnation of one static member; one of them had been replaced by then.",
                    [row, between, mine],
                )
        if mine is None or _ended(row) < _ended(mine):
            first[member] = row


def _after_another(place: Place, one: Partition) -> Iterator[tuple[str, list[Position]]]:
    """Commits with success of members that were given the partition before another was; those of one generation are told above."""
    given: dict[str, Position] = {}  # member -> its last assignment
    told: set[str] = set()
    rows = [row for row in one.rows if _acts(row)]
    assigned = sorted((row for row in rows if row["kind"] == OpKind.ASSIGN), key=_ended)
    later, following = None, 0
    for row in rows:
        while following < len(assigned) and _ended(assigned[following]) < row["invoked_ns"]:
            if later is None or not _is_stale(assigned[following], later):
                later = assigned[following]
            following += 1
        if row["kind"] == OpKind.ASSIGN:
            given[row["member"]] = row
            continue
        mine = given.get(row["member"])
        if mine is None or later is None or later["member"] == row["member"] or row["member"] in told:
            continue
        if _is_stale(later, row):
            continue
        one_generation = row["generation"] == later["generation"] and row["protocol"] != GroupProtocol.CONSUMER
        if mine["completed_ns"] is not None and mine["completed_ns"] < later["invoked_ns"] and not one_generation:
            told.add(row["member"])
            yield (
                f"{row['client']} committed {place.log} for group {place.group} with success, after {later['client']} had been "
                "given it.",
                [row, later, mine],
            )


def _is_stale(row: Position, other: Position) -> bool:
    """Is it of an earlier generation? A member that was paused may hear of an assignment long after others were given the partition."""
    if GroupProtocol.CONSUMER in (row["protocol"], other["protocol"]):
        return False
    return (row["generation"] or 0) < (other["generation"] or 0)


def instance(member: str) -> str:
    """Of whom a member id is an incarnation: coordinators make ids of group.instance.id, or else client.id, and a UUID.

    `instance("w1.m0-00112233445566778899aabbccddeeff")` -> `"w1.m0"`. No two of our dynamic members share a client.id.
    """
    return _UNIQUE.sub("", member)


def _ended(row: Position) -> int:
    return int(row["completed_ns"] or row["invoked_ns"])


def _acts(row: Position) -> bool:
    """Whether it is what only an owner can do: be given the partition, or commit it with success."""
    acts = row["kind"] in (OpKind.ASSIGN, OpKind.COMMIT_OFFSETS)
    return acts and row["outcome"] == Outcome.OK and row["member"] is not None


def _did(row: Position) -> str:
    return "was given" if row["kind"] == OpKind.ASSIGN else "committed"


Rule = Callable[[Place, Partition], Iterator[tuple[str, list[Position]]]]


def _tell(kind: AnomalyType, rule: Rule) -> Callable[[History], Iterator[Row]]:
    def tell(history: History) -> Iterator[Row]:
        reasons = {
            (row["run"], row["topic"], row["partition"]): row["loss_reason"] for row in history.log_table.to_pylist()
        }
        for place, one in partitions(history).items():
            for sentence, rows in rule(place, one):
                yield _finding(kind, place, sentence, rows, reasons.get((place.run, place.topic, place.partition)))

    return tell


def _finding(kind: AnomalyType, place: Place, sentence: str, rows: Sequence[Position], loss_reason: str | None) -> Row:
    return plain_finding(
        kind,
        run=place.run,
        sentence=sentence,
        topic=place.topic,
        partition=place.partition,
        offset=rows[0]["offset"],
        ops=[row["op"] for row in rows],
        since=min(row["invoked_ns"] for row in rows),
        until=rows[0]["completed_ns"],
        expected_because=loss_reason if kind.follows_loss else None,
        detail={"group": place.group, "members": sorted({row["member"] or row["client"] for row in rows})},
    )


BACKWARDS = Check(
    kind=COMMITTED_BACKWARDS,
    engine="rules",
    needs=Need.GROUPS,
    tell=_tell(COMMITTED_BACKWARDS, backwards),
    optional=True,
)
OWNERS = Check(kind=TWO_OWNERS, engine="rules", needs=Need.GROUPS, tell=_tell(TWO_OWNERS, owners), optional=True)
NEVER_ASKED = _tell(COMMITTED_PAST, never_asked)
TAKEN_UP_LATE = _tell(GROUP_SKIP, taken_up_late)
