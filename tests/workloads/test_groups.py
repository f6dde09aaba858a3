"""The `groups` workload against librdkafka's mock coordinator."""

from collections import defaultdict

import pytest
from confluent_kafka import KafkaError

from tests.workloads.mock_cluster import OFFSET_COMMIT, MockCluster
from tests.workloads.recording import Invoked, MemoryRecorder, context
from tests.workloads.running import assert_positions_grow, running
from workloads.groups import GroupsWorkload, group_name
from workloads.membership import Standing, standing
from workloads.op import OpKind, Outcome, Phase
from workloads.settings import GroupSettings

TOPICS = {"log": 4}


def positions(op: Invoked) -> dict[int, int | None]:
    """Partition -> offset, of an op of topic `log`."""
    assert op.positions is not None
    return dict(zip(op.positions.partitions, op.positions.offsets, strict=True))


def committed(recorder: MemoryRecorder, group: str = "krash") -> list[Invoked]:
    commits = recorder.of(OpKind.COMMIT_OFFSETS)
    return [op for op in commits if op.outcome is Outcome.OK and op.positions and op.positions.group == group]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_members_commit_what_they_have_read_of_partitions_that_are_theirs_alone(mock: MockCluster, assignor):
    """Two members, then a third one, then two again: one change at a time, for the mock's coordinator starts anew with every change,
    and where members come and go faster than it waits for them, nobody ever gets a partition."""
    mock.create("log", 4)
    mock.quick_groups()
    recorder = MemoryRecorder()
    # The mock waits as long as a session, less a second, for members that have to come back, and heartbeats tell them to.
    quick = {"poll_timeout_ms": 20, "session_timeout_ms": 2000, "consumer_config": {"heartbeat.interval.ms": 200}}
    settings = quick | {"assignor": assignor, "stay_ms": None, "members": 2}
    staying = context(mock.bootstrap, recorder, topics=TOPICS, settings=settings, rate=200)
    visiting = context(
        mock.bootstrap, recorder, topics=TOPICS, settings=settings | {"producers": 0, "members": 1}, index=1, clients=2
    )
    with running(staying, GroupsWorkload):
        recorder.wait_for(lambda history: all_are_served(history, after=0))
        with running(visiting, GroupsWorkload):
            recorder.wait_for(lambda history: len(of_visitor(history)) >= 5)
        came = generation(of_visitor(recorder)[-1])
        recorder.wait_for(lambda history: all_are_served(history, after=came))
    GroupsWorkload().drain(context(mock.bootstrap, recorder, topics=TOPICS, settings=settings), deadline_s=30)

    assert_positions_grow(recorder)
    assert_one_owner_per_generation(recorder)
    assert_nothing_is_committed_before_it_was_read(recorder)
    assert_nothing_is_left_out(recorder)
    assert {op.positions.protocol for op in committed(recorder) if op.positions} == {
        "cooperative" if assignor == "cooperative-sticky" else "eager"
    }
    (final,) = [op for op in recorder.of(OpKind.FETCH_OFFSETS) if op.phase is Phase.FINAL]
    last = {partition: offset for op in committed(recorder) for partition, offset in positions(op).items()}
    assert {partition: offset for partition, offset in positions(final).items() if offset is not None} == last


def generation(op: Invoked) -> int:
    assert op.positions is not None
    assert op.positions.generation is not None
    return op.positions.generation


def of_visitor(recorder: MemoryRecorder) -> list[Invoked]:
    return [op for op in committed(recorder) if op.client.startswith("w2.")]


def all_are_served(recorder: MemoryRecorder, after: int) -> bool:
    """Whether there is a later generation in which members that stay have committed offsets of every partition."""
    served = defaultdict(set)
    for op in committed(recorder):
        if op.client.startswith("w1.") and generation(op) > after:
            served[generation(op)] |= positions(op).keys()
    return any(len(partitions) == 4 for partitions in served.values())


def assert_one_owner_per_generation(recorder: MemoryRecorder) -> None:
    owners = defaultdict(set)
    for op in recorder.of(OpKind.ASSIGN):
        if op.phase is Phase.FINAL:
            continue
        assert op.positions is not None
        assert op.positions.generation is not None
        assert op.positions.member
        owners[op.positions.generation, op.partition].add(op.client)
    assert all(len(clients) == 1 for clients in owners.values())


def assert_nothing_is_committed_before_it_was_read(recorder: MemoryRecorder) -> None:
    read: dict[tuple[str, int], int] = {}
    for op in recorder.ops:  # in the order of their invocation
        if op.kind is OpKind.POLL and op.reads:
            for partition, offset in zip(op.reads.partitions, op.reads.offsets, strict=True):
                read[op.client, partition] = offset + 1
        if op.kind is OpKind.COMMIT_OFFSETS:
            assert positions(op)
            assert all(offset == read[op.client, partition] for partition, offset in positions(op).items())


def assert_nothing_is_left_out(recorder: MemoryRecorder) -> None:
    """A member goes on where the group has come, and reads on without gaps."""
    come: dict[int, int] = {}
    for op in recorder.ops:
        if op.kind is OpKind.COMMIT_OFFSETS and op.outcome is Outcome.OK:
            for partition, offset in positions(op).items():
                assert offset >= come.get(partition, 0)
                come[partition] = offset
        if op.kind is OpKind.FETCH_OFFSETS and op.outcome is Outcome.OK:
            assert {p: offset for p, offset in positions(op).items() if offset is not None} == {
                p: come[p] for p in positions(op) if p in come
            }


def test_members_of_all_clients_take_turns_in_the_groups(mock: MockCluster):
    mock.create("log", 4)
    mock.quick_groups()
    recorder = MemoryRecorder()
    settings = {"members": 2, "groups": 2, "stay_ms": None, "poll_timeout_ms": 20}
    with running(context(mock.bootstrap, recorder, topics=TOPICS, settings=settings, rate=1000), GroupsWorkload):
        recorder.wait_for(lambda history: all(len(committed(history, group)) > 5 for group in ("krash-0", "krash-1")))
    assert {(op.client, op.positions.group) for op in recorder.of(OpKind.ASSIGN) if op.positions} == {
        ("w1.m0-1", "krash-0"),
        ("w1.m1-1", "krash-1"),
    }
    revoked = recorder.of(OpKind.REVOKE)
    assert sorted(len(positions(op)) for op in revoked) == [4, 4], "both gave back what they had when they left"


def test_a_refused_commit_is_a_failure_and_what_was_processed_is_committed_later(mock: MockCluster):
    mock.create("log", 4)
    mock.quick_groups()
    recorder = MemoryRecorder()
    settings = {"members": 1, "stay_ms": None, "poll_timeout_ms": 20, "retry_backoff_ms": 10_000}
    mock.answer(OFFSET_COMMIT, KafkaError.OFFSET_METADATA_TOO_LARGE, KafkaError.OFFSET_METADATA_TOO_LARGE)
    with running(context(mock.bootstrap, recorder, topics=TOPICS, settings=settings, rate=200), GroupsWorkload):
        recorder.wait_for(lambda history: len(committed(history)) > 3)
    first, second, *others = recorder.of(OpKind.COMMIT_OFFSETS)
    for refused in (first, second):
        assert (refused.outcome, refused.error) == (Outcome.FAIL, "OFFSET_METADATA_TOO_LARGE")
    assert positions(first).keys() <= positions(second).keys() <= positions(others[0]).keys()


def test_every_life_of_a_member_is_a_client_of_its_own_and_its_stay_is_drawn(mock: MockCluster):
    mock.create("log", 4)
    mock.quick_groups()
    recorder = MemoryRecorder()
    settings = {"producers": 0, "members": 1, "stay_ms": [50, 100], "poll_timeout_ms": 20, "session_timeout_ms": 2000}
    with running(context(mock.bootstrap, recorder, topics=TOPICS, settings=settings), GroupsWorkload):
        recorder.wait_for(lambda history: len(history.of(OpKind.SUBSCRIBE)) >= 4)
    assert [op.client for op in recorder.of(OpKind.SUBSCRIBE)][:4] == [f"w1.m0-{life}" for life in (1, 2, 3, 4)]


def test_a_member_is_known_by_what_librdkafka_tells_of_it():
    assert standing(b"CGMDv2:\x05\0\0\0krash\0w1.m0-3b0c\0\0") == Standing("w1.m0-3b0c", 5)
    assert standing(b"CGMDv2:\xff\xff\xff\xffkrash\0\0\0") == Standing(None, None)
    assert standing(b"CGMDv9:whatever") == standing(None) == Standing(None, None)


def test_a_single_group_needs_no_number():
    assert group_name(GroupSettings(), 3) == "krash"
    assert [group_name(GroupSettings(groups=2), number) for number in range(3)] == ["krash-0", "krash-1", "krash-0"]
