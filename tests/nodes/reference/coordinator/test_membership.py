"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic groups, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.reference.coordinator.groups.group import GroupState
from nodes.reference.coordinator.groups.requests import Leaving, Sync
from nodes.reference.coordinator.groups.settings import GroupSettings
from nodes.reference.protections import Protection, Protections
from tests.nodes.reference.coordinator.group_stage import SESSION, GroupStage


def test_a_new_member_is_given_an_id_before_it_may_join() -> None:
    """KIP-394."""
    stage = GroupStage()
    asked = stage.join(member_id_required=True)
    assert (asked.error, asked.member_id) == (ErrorCode.member_id_required, "c-id1")
    joined = stage.join("c-id1", member_id_required=True)
    assert (joined.error, joined.generation, joined.leader, joined.protocol) == (ErrorCode.none, 1, "c-id1", "range")
    assert [member.member_id for member in joined.members] == ["c-id1"]


def test_old_clients_join_at_once() -> None:
    assert GroupStage().join().generation == 1


def test_an_id_that_nobody_comes_back_for_expires() -> None:
    stage = GroupStage()
    member_id = stage.member()
    stage.pass_ms(SESSION)
    assert stage.group().pending == {}
    assert stage.join(member_id).error is ErrorCode.unknown_member_id


def test_a_rebalance_waits_for_ids_that_were_given_away() -> None:
    stage = GroupStage()
    (first,) = stage.stable()
    stage.member()
    late = stage.joining(first)
    assert late not in stage.answers
    stage.pass_ms(SESSION)
    assert stage.answers[late].generation == 2


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group": ""}, ErrorCode.invalid_group_id),
        ({"session_timeout": 5_999}, ErrorCode.invalid_session_timeout),
        ({"session_timeout": 1_800_001}, ErrorCode.invalid_session_timeout),
        ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
    ],
)
def test_who_may_not_join(changes: dict[str, object], error: ErrorCode) -> None:
    assert GroupStage().join(**changes).error is error  # type: ignore[arg-type]


def test_all_members_need_a_protocol_in_common() -> None:
    stage = GroupStage()
    stage.stable()
    assert stage.join(protocols=(("sticky", b""),)).error is ErrorCode.inconsistent_group_protocol
    assert stage.join(protocol_type="connect").error is ErrorCode.inconsistent_group_protocol


def test_the_protocol_with_most_votes_is_chosen_among_those_that_all_have() -> None:
    stage = GroupStage(GroupSettings(group_initial_rebalance_delay_ms=100))
    a, b, c = (("a", b"1"),), (("b", b"2"),), (("c", b"3"),)
    tickets = [stage.joining(protocols=protocols) for protocols in (c + a + b, b + a, a + b)]
    stage.pass_ms(100)
    stage.pass_ms(100)
    assert {stage.answers[ticket].protocol for ticket in tickets} == {"a"}
    assert stage.answers[tickets[0]].members[0].metadata == b"1"


def test_the_first_generation_waits_for_more_members() -> None:
    """KIP-134: as long as some come, up to the rebalance timeout."""
    stage = GroupStage(GroupSettings(group_initial_rebalance_delay_ms=1_000))
    tickets = [stage.joining(rebalance_timeout=2_500)]
    for _ in range(2):
        stage.pass_ms(900)
        tickets.append(stage.joining(rebalance_timeout=2_500))
        stage.pass_ms(100)
        assert stage.answers == {}
    stage.pass_ms(500)
    assert [stage.answers[ticket].generation for ticket in tickets] == [1, 1, 1]


def test_the_first_generation_begins_when_nobody_else_comes() -> None:
    stage = GroupStage(GroupSettings(group_initial_rebalance_delay_ms=1_000))
    ticket = stage.joining()
    stage.pass_ms(999)
    assert ticket not in stage.answers
    stage.pass_ms(1)
    assert stage.answers[ticket].generation == 1


def test_a_follower_waits_for_the_leaders_assignment() -> None:
    stage = GroupStage(writes=False)
    ids = stage.joined(2)
    follower = stage.syncing(ids[1], 1)
    leader = stage.syncing(ids[0], 1, {ids[0]: b"0", ids[1]: b"1"})
    assert follower not in stage.answers  # not before it is in the log
    assert leader not in stage.answers
    stage.write()
    assert (stage.answers[leader].assignment, stage.answers[follower].assignment) == (b"0", b"1")
    assert stage.group().state is GroupState.STABLE


def test_without_waiting_a_member_keeps_what_it_had() -> None:
    """What the property test is to find."""
    off = Protections([Protection.SYNC_WAITS_FOR_ASSIGNMENT])
    stage = GroupStage(protections=off)
    ids = stage.stable(2)
    for member_id in ids:
        stage.joining(member_id, protocols=(("range", b"new"),))
    assert stage.sync(ids[1], 2).assignment == ids[1].encode()  # of generation 1


def test_an_assignment_that_cannot_be_written_starts_over() -> None:
    stage = GroupStage(writes=False)
    member = stage.join().member_id
    ticket = stage.syncing(member, 1, {member: b"a"})
    stage.write(ErrorCode.not_enough_replicas)
    assert stage.answers[ticket].error is ErrorCode.coordinator_not_available
    assert stage.group().state is GroupState.PREPARING


def test_who_joins_makes_the_others_join_again() -> None:
    stage = GroupStage()
    first, second = stage.stable(2)
    third = stage.joining()
    assert stage.heartbeat(first, 1) is ErrorCode.rebalance_in_progress
    assert stage.sync(first, 1).error is ErrorCode.rebalance_in_progress
    tickets = [stage.joining(member) for member in (first, second)]
    assert {stage.answers[ticket].generation for ticket in [*tickets, third]} == {2}
    assert stage.heartbeat(first, 1) is ErrorCode.illegal_generation


def test_who_does_not_join_again_in_time_is_out() -> None:
    stage = GroupStage()
    first, second = stage.stable(2)
    again = stage.joining(first)  # the leader wants something else
    stage.pass_ms(9_000)
    stage.heartbeat(second, 1)
    for _ in range(6):
        stage.pass_ms(9_000)
        stage.heartbeat(second, 1)
    assert stage.answers[again].generation == 2
    assert stage.heartbeat(second, 1) is ErrorCode.unknown_member_id


def test_the_lead_passes_on() -> None:
    stage = GroupStage()
    first, second = stage.stable(2)
    stage.leave(Leaving(first))
    joined = stage.join(second)
    assert (joined.leader, joined.generation) == (second, 2)


def test_a_follower_that_missed_an_answer_gets_it_again() -> None:
    stage = GroupStage()
    first, second = stage.stable(2)
    again = stage.join(second)
    assert (again.generation, again.leader, again.members) == (1, first, ())
    assert stage.sync(second, 1).assignment == second.encode()


def test_the_leader_joins_to_have_a_rebalance() -> None:
    stage = GroupStage()
    first, _ = stage.stable(2)
    stage.joining(first)
    assert stage.group().state is GroupState.PREPARING


def test_a_session_ends_without_heartbeats() -> None:
    stage = GroupStage()
    first, second = stage.stable(2)
    stage.pass_ms(SESSION - 1)
    assert stage.heartbeat(first, 1) is ErrorCode.none
    stage.pass_ms(1)
    assert stage.heartbeat(second, 1) is ErrorCode.unknown_member_id
    assert stage.heartbeat(first, 1) is ErrorCode.rebalance_in_progress


def test_who_waits_for_others_needs_no_heartbeat() -> None:
    stage = GroupStage()
    first, second = stage.stable(2)
    waits = stage.joining(first)
    for _ in range(5):
        stage.pass_ms(SESSION - 1)
        stage.heartbeat(second, 1)
    assert first in stage.group().members
    assert waits not in stage.answers


def test_who_does_not_ask_for_its_assignment_is_out() -> None:
    """KAFKA-13063."""
    stage = GroupStage()
    ids = stage.joined(2)
    stage.sync(ids[0], 1, {ids[0]: b"0"})
    for _ in range(7):
        stage.pass_ms(9_000)
        for member_id in ids:
            stage.heartbeat(member_id, 1)
    assert [*stage.group().members] == [ids[0]]
    assert stage.group().state is GroupState.PREPARING


def test_the_last_to_leave_leaves_an_empty_group_in_the_log() -> None:
    stage = GroupStage()
    (member,) = stage.stable()
    left = stage.leave(Leaving(member), Leaving("nobody"))
    assert [error for _, error in left.members] == [ErrorCode.none, ErrorCode.unknown_member_id]
    assert (stage.group().state, stage.group().generation) == (GroupState.EMPTY, 2)
    stage.fail_over()
    assert (stage.group().state, stage.group().generation) == (GroupState.EMPTY, 2)


def test_a_member_of_a_group_that_is_not_there() -> None:
    stage = GroupStage()
    assert stage.heartbeat("m", 1) is ErrorCode.unknown_member_id
    assert stage.leave(Leaving("m")).members == ((Leaving("m"), ErrorCode.unknown_member_id),)
    assert stage.leave(Leaving("m"), group="").error is ErrorCode.invalid_group_id
    assert stage.sync("m", 1).error is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"generation": 2}, ErrorCode.illegal_generation),
        ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol": "sticky"}, ErrorCode.inconsistent_group_protocol),
    ],
)
def test_who_may_not_sync(changes: dict[str, object], error: ErrorCode) -> None:
    stage = GroupStage()
    (member,) = stage.stable()
    request = {"group": "g", "generation": 1, "member_id": member, **changes}
    stage.take(stage.coordinator.sync("s", Sync(**request), stage.now))  # type: ignore[arg-type]
    assert stage.answers["s"].error is error


def test_no_more_members_than_allowed() -> None:
    """KIP-389."""
    stage = GroupStage(GroupSettings(group_initial_rebalance_delay_ms=100, group_max_size=2))
    _, second = stage.stable(2)
    assert stage.join().error is ErrorCode.group_max_size_reached
    stage.leave(Leaving(second))
    assert stage.joining() not in stage.answers


def test_members_survive_a_failover_of_their_coordinator() -> None:
    stage = GroupStage()
    first, _ = stage.stable(2)
    stage.pass_ms(SESSION - 1)
    stage.fail_over()
    stage.pass_ms(SESSION - 1)
    assert stage.heartbeat(first, 1) is ErrorCode.none
    assert stage.sync(first, 1).assignment == first.encode()
    stage.pass_ms(1)
    assert [*stage.group().members] == [first]


def test_who_waits_is_told_to_look_elsewhere() -> None:
    stage = GroupStage(writes=False)
    first = stage.join().member_id
    syncing = stage.syncing(first, 1, {first: b"a"})
    joining, committing = stage.joining(), stage.committing(5)
    stage.fail_over()
    assert stage.answers[syncing].error is ErrorCode.rebalance_in_progress  # the newcomer had ended that generation
    assert stage.answers[joining].error is ErrorCode.not_coordinator
    assert stage.error(committing) is ErrorCode.unknown_member_id


# KIP-345


def static(stage: GroupStage, **more: Any) -> str:
    """One static member, stable, assigned b"mine"."""
    joined = stage.join(instance_id="i", **more)
    stage.sync(joined.member_id, joined.generation, {joined.member_id: b"mine"}, instance_id="i")
    return joined.member_id


def test_a_static_member_that_restarts_keeps_its_place() -> None:
    stage = GroupStage()
    old = static(stage)
    joined = stage.join(instance_id="i")
    assert (joined.error, joined.generation, joined.leader) == (ErrorCode.none, 1, old)  # not told that it leads
    assert joined.member_id != old
    assert stage.sync(joined.member_id, 1, instance_id="i").assignment == b"mine"
    assert stage.group().state is GroupState.STABLE


def test_a_restarted_static_leader_is_told_to_keep_the_assignment() -> None:
    """KIP-814."""
    stage = GroupStage()
    static(stage)
    joined = stage.join(instance_id="i", may_skip_assignment=True)
    assert joined.leader == joined.member_id
    assert joined.skip_assignment
    assert len(joined.members) == 1


def test_the_former_process_of_an_instance_is_fenced() -> None:
    stage = GroupStage()
    old = static(stage)
    stage.join(instance_id="i")
    assert stage.heartbeat(old, 1, "i") is ErrorCode.fenced_instance_id
    assert stage.join(old, instance_id="i").error is ErrorCode.fenced_instance_id
    assert stage.sync(old, 1, instance_id="i").error is ErrorCode.fenced_instance_id
    assert stage.commit(1, member_id=old, instance_id="i", generation=1) is ErrorCode.fenced_instance_id
    assert stage.leave(Leaving(old, "i")).members[0][1] is ErrorCode.fenced_instance_id


def test_without_fencing_both_processes_go_on() -> None:
    stage = GroupStage(protections=Protections([Protection.STATIC_MEMBER_FENCED]))
    old = static(stage)
    new = stage.join(instance_id="i").member_id
    assert stage.heartbeat(old, 1, "i") is ErrorCode.none
    assert stage.commit(1, member_id=old, instance_id="i", generation=1) is ErrorCode.none
    assert stage.heartbeat(new, 1, "i") is ErrorCode.none
    assert stage.join(old, instance_id="i").error is ErrorCode.unknown_member_id
    assert stage.sync(old, 1, instance_id="i").error is ErrorCode.unknown_member_id


def test_a_static_member_that_wants_another_protocol_makes_a_rebalance() -> None:
    stage = GroupStage()
    static(stage, protocols=(("range", b""), ("sticky", b"")))
    assert stage.join(instance_id="i", protocols=(("sticky", b""), ("range", b""))).generation == 2


def test_a_rebalance_does_not_throw_static_members_out() -> None:
    stage = GroupStage()
    away = static(stage)
    new = stage.joining()
    stage.pass_ms(SESSION - 1)
    stage.heartbeat(away, 1, "i")
    for _ in range(7):
        stage.pass_ms(9_000)
        stage.heartbeat(away, 1, "i")
    assert stage.answers[new].generation == 2
    assert len(stage.answers[new].members) == 2


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    stage = GroupStage()
    static(stage)
    left = stage.leave(Leaving("", "i"), Leaving("", "other"))
    assert [error for _, error in left.members] == [ErrorCode.none, ErrorCode.unknown_member_id]
    assert stage.group().state is GroupState.EMPTY


def test_a_static_members_new_id_is_in_the_log() -> None:
    stage = GroupStage()
    static(stage)
    new = stage.join(instance_id="i").member_id
    stage.fail_over()
    assert stage.heartbeat(new, 1, "i") is ErrorCode.none
