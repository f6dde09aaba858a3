"""How differing answers become one view, and what is news between two."""

from __future__ import annotations

from dataclasses import replace

from nodes.changes import changes
from nodes.event import EventKind
from nodes.view import BrokerAnswer, ClusterView, PartitionView, QuorumAnswer, describe, merge

NAMES = {1: "b1", 2: "b2", 3: "b3", 101: "c1", 102: "c2"}
LED_BY_1 = PartitionView(topic="t", partition=0, leader=1, leader_epoch=4, replicas=(1, 2, 3), isr=(1, 2, 3))
SHRUNK = replace(LED_BY_1, isr=(1, 2))
LED_BY_2 = replace(LED_BY_1, leader=2, leader_epoch=5, isr=(2, 3))


def broker(
    id: int, *partitions: PartitionView, asked: int = 0, brokers: tuple[int, ...] = (1, 2, 3), topic: object = "id"
) -> BrokerAnswer:
    return BrokerAnswer(
        id=id,
        asked_ns=asked,
        brokers=frozenset(brokers),
        topics=dict.fromkeys((one.topic for one in partitions), topic),
        partitions={(one.topic, one.partition): one for one in partitions},
    )


def view(*answers: BrokerAnswer, quorum: QuorumAnswer | None = None, at: int = 9) -> ClusterView:
    quorums = [quorum] if quorum else []
    return merge(at, {NAMES[one.id]: one for one in answers}, quorums, names=NAMES, offsets={})


def test_the_highest_leader_epoch_wins_whoever_tells_it() -> None:
    merged = view(broker(1, LED_BY_1, asked=5), broker(3, LED_BY_2, asked=1))
    assert merged.partitions["t", 0] == LED_BY_2


def test_among_equal_epochs_the_leader_s_own_answer_is_believed() -> None:
    """An ISR change does not raise the leader epoch; a follower that is cut off tells the old ISR, however late it is asked."""
    merged = view(broker(3, LED_BY_1, asked=9), broker(1, SHRUNK, asked=1))
    assert merged.partitions["t", 0].isr == (1, 2)


def test_a_broker_that_lags_in_the_metadata_log_does_not_say_who_is_unfenced() -> None:
    places = QuorumAnswer(leader=101, epoch=3, offsets={1: 40, 2: 90, 3: 91})
    merged = view(
        broker(1, LED_BY_1, asked=9),
        broker(2, LED_BY_2, asked=3, brokers=(2, 3)),
        broker(3, LED_BY_2, asked=4, brokers=(2, 3)),
        quorum=places,
    )
    assert merged.brokers == {2, 3}
    assert merged.controller == "c1"
    assert merged.places == {"b1": 40, "b2": 90, "b3": 91}


def test_whoever_says_that_it_is_the_active_controller_is_known_and_the_highest_epoch_is_believed() -> None:
    quorums = [QuorumAnswer(leader=101, epoch=3, offsets={101: 9}), QuorumAnswer(leader=102, epoch=4, offsets={102: 7})]
    merged = merge(9, {}, quorums, names=NAMES, offsets={})
    assert (merged.controller, merged.claims, merged.places) == ("c2", {"c1": 3, "c2": 4}, {"c2": 7})
    assert merge(9, {}, [], names=NAMES, offsets={}).claims == {}


def test_brokers_that_keep_up_are_told_apart_by_the_time_of_their_answer() -> None:
    """A record or two of difference is the polling, not a lag: believing the older answer would fence and unfence at random."""
    places = QuorumAnswer(leader=101, epoch=3, offsets={2: 90, 3: 91})
    merged = view(broker(2, asked=8, brokers=(2, 3)), broker(3, asked=2, brokers=(1, 2, 3)), quorum=places)
    assert merged.brokers == {2, 3}


def test_a_topic_of_the_same_name_made_anew_is_not_mixed_with_the_old_one() -> None:
    fresh = replace(LED_BY_1, leader_epoch=0, isr=(1,))
    merged = view(broker(1, fresh, asked=9, topic="new"), broker(2, LED_BY_2, asked=1, topic="old"))
    assert merged.partitions["t", 0] == fresh


def test_a_deleted_topic_is_not_kept_alive_by_a_late_broker() -> None:
    assert not view(broker(1, asked=9), broker(2, LED_BY_2, asked=1)).partitions


def test_of_two_controllers_that_claim_to_lead_the_higher_epoch_is_active() -> None:
    old, new = QuorumAnswer(leader=101, epoch=3), QuorumAnswer(leader=102, epoch=4)
    assert merge(0, {}, [new, old], names=NAMES, offsets={}).controller == "c2"


def test_nobody_answers() -> None:
    nothing = view()
    assert (nothing.answered, nothing.brokers, nothing.partitions, nothing.controller) == (
        frozenset(),
        frozenset(),
        {},
        None,
    )
    assert (
        describe(nothing)
        == "brokers that answer: none; unfenced: none; controller: unknown; 0 of 0 partitions not whole"
    )


def test_a_description_says_what_is_broken() -> None:
    told = describe(view(broker(2, replace(LED_BY_2, leader=-1, isr=(1,)), brokers=(2, 3))))
    assert told.endswith(
        "unfenced: 2 3; controller: unknown; 1 of 1 partitions not whole: t-0 led by none, isr 1 of 1 2 3"
    )


def kinds(before: ClusterView | None, after: ClusterView) -> list[tuple[str, str | None]]:
    return [(event.kind, event.node) for event in changes(before, after, run="r", clock="host", names=NAMES)]


def test_news_between_two_views() -> None:
    quorum = QuorumAnswer(leader=101, epoch=1)
    first = view(broker(1, LED_BY_1), quorum=quorum)
    assert kinds(None, first) == [
        (EventKind.LEADER_CHANGED, "b1"),
        (EventKind.UNFENCED, "b1"),
        (EventKind.UNFENCED, "b2"),
        (EventKind.UNFENCED, "b3"),
        (EventKind.CONTROLLER_CHANGED, "c1"),
    ]
    assert kinds(first, first) == []
    second = view(broker(2, LED_BY_2, brokers=(2, 3)), quorum=QuorumAnswer(leader=102, epoch=2), at=77)
    assert kinds(first, second) == [
        (EventKind.LEADER_CHANGED, "b2"),
        (EventKind.ISR_CHANGED, "b2"),
        (EventKind.FENCED, "b1"),
        (EventKind.CONTROLLER_CHANGED, "c2"),
    ]
    event = next(iter(changes(first, second, run="r", clock="host", names=NAMES)))
    assert (event.at_ns, event.topic, event.partition, event.leader, event.leader_epoch, event.isr) == (
        77,
        "t",
        0,
        2,
        5,
        (2, 3),
    )


def test_silence_is_no_news() -> None:
    first = view(broker(1, LED_BY_1), quorum=QuorumAnswer(leader=101, epoch=1))
    assert kinds(first, view()) == []
    assert kinds(first, view(broker(1, LED_BY_1))) == []
