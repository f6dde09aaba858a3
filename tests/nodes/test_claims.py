"""When a controller's claim begins and ends, so that overlapping claims did overlap."""

from __future__ import annotations

from nodes.claims import OTHERWISE, RUN_ENDED, SILENT, Claims
from nodes.event import EventKind

BEGINS, ENDS = EventKind.CONTROLLER_CLAIMS, EventKind.CONTROLLER_CLAIM_ENDS


class Told:
    def __init__(self) -> None:
        self.claims = Claims(run="r", clock="host")
        self.events: list[tuple[str, str, int, int, str | None]] = []

    def look(self, node: str, asked: int, *, epoch: int | None = None, leader: int | None = None, reached: bool = True):
        id = 100 + int(node[1:])
        leads = None if epoch is None else (id if leader is None else leader, epoch)
        self.keep(self.claims.heard(node, id, leads=leads, reached=reached, asked_ns=asked, answered_ns=asked + 5))

    def keep(self, events):
        self.events += [(e.node, e.kind, e.leader_epoch, e.at_ns, e.detail) for e in events]


def test_a_claim_begins_with_its_first_answer_and_ends_with_its_last_question():
    told = Told()
    for asked in (10, 20, 30):
        told.look("c1", asked, epoch=4)
    told.look("c1", 40)
    told.look("c1", 50)
    assert told.events == [("c1", BEGINS, 4, 15, None), ("c1", ENDS, 4, 30, OTHERWISE)]


def test_silence_ends_a_claim():
    told = Told()
    told.look("c1", 10, epoch=4)
    told.look("c1", 20, reached=False)
    told.look("c1", 30, epoch=4)
    assert told.events == [
        ("c1", BEGINS, 4, 15, None),
        ("c1", ENDS, 4, 10, SILENT),
        ("c1", BEGINS, 4, 35, None),
    ]


def test_a_new_epoch_is_a_new_claim():
    told = Told()
    told.look("c1", 10, epoch=4)
    told.look("c1", 20, epoch=6)
    assert told.events == [("c1", BEGINS, 4, 15, None), ("c1", ENDS, 4, 10, OTHERWISE), ("c1", BEGINS, 6, 25, None)]


def test_who_names_another_claims_nothing():
    told = Told()
    told.look("c2", 10, epoch=4, leader=101)
    assert told.events == []


def test_two_claim_at_once_and_the_run_ends_both():
    told = Told()
    told.look("c1", 10, epoch=4)
    told.look("c2", 20, epoch=7)
    told.look("c1", 30, epoch=4)
    told.keep(told.claims.ended())
    told.keep(told.claims.ended())
    assert told.events[2:] == [("c1", ENDS, 4, 30, RUN_ENDED), ("c2", ENDS, 7, 20, RUN_ENDED)]
