"""The `groups` workload: consumers share partitions out among themselves, process what they read, and commit how far they have come,
while producers append as in `log`.

What a group promises is at least once: whoever takes a partition over goes on at the last committed offset, so nothing is left out,
and what was processed after it is processed again. That holds only if a member commits what it has processed, never more,
and if the group takes commits from owners only. So a member here

* processes all records of a poll (`process_ms`), and then commits their offsets and waits for the answer;
* when partitions are revoked, commits what it has processed before it lets them go;
* leaves after a while (`stay_ms`) and comes back as a new member, so that groups rebalance without any fault; `kill` and `pause`
  of a client (`target: random client`) do the same without a word: a paused one wakes up as a zombie that still believes in
  its partitions, and its commits must be refused.

The history has a row for each of these steps (group.py). Sends, reads and the final read are as in `log`, and so are the checks of them.
At the end each group is asked for what it has committed.
"""

from __future__ import annotations

import time
from random import Random
from typing import ClassVar

from confluent_kafka import KafkaException, Message, TopicPartition

from workloads import clients
from workloads.drain import drain_partitions
from workloads.membership import Membership, Place
from workloads.op import OpKind, Outcome, Phase
from workloads.outcomes import error_name
from workloads.sender import Sender
from workloads.settings import ClientSettings, GroupSettings
from workloads.worker import Actor, Counts, run_actors
from workloads.workload import ClientContext, Positions

FETCH_S = 10.0  # for what a group has committed, at the end


class GroupsWorkload:
    name: ClassVar[str] = "groups"
    Settings: ClassVar[type[GroupSettings]] = GroupSettings

    def run(self, context: ClientContext) -> None:
        """Send, read, process and commit until `context.stop`."""
        settings = GroupSettings.model_validate(dict(context.settings))
        actors: list[Actor] = [Sender(context, settings, index) for index in range(settings.producers)]
        actors += [Member(context, settings, index) for index in range(settings.members)]
        run_actors(actors, context.stop, context.progress)
        context.recorder.flush()

    def drain(self, context: ClientContext, deadline_s: float) -> None:
        """The final read of this client's share; the first client also asks every group what it has committed."""
        settings = GroupSettings.model_validate(dict(context.settings))
        drain_partitions(context, settings, deadline_s)
        if context.index == 0:
            for number in range(settings.groups):
                note_committed(context, settings, group_name(settings, number))
        context.recorder.flush()


def group_name(settings: GroupSettings, number: int) -> str:
    return settings.group if settings.groups == 1 else f"{settings.group}-{number % settings.groups}"


class Member:
    """A consumer that belongs to a group until it leaves, and then to the same one again."""

    def __init__(self, context: ClientContext, settings: GroupSettings, index: int) -> None:
        self.client = f"{context.client}.m{index}"
        self.counts = Counts()
        self._context, self._settings = context, settings
        self._group = group_name(settings, context.index * settings.members + index)
        self._stays: Random = context.stream(self.client, 0)
        self._lives = 0
        self._processed: dict[Place, int] = {}  # next offset to process, of what is not committed yet
        self._backoff_s = settings.retry_backoff_ms / 1000

    def run(self) -> None:
        while not self._context.stop.is_set():
            self._belong()

    def _belong(self) -> None:
        """Join, work, leave."""
        self._lives += 1
        self._processed.clear()
        until = (
            time.monotonic() + self._stays.uniform(*self._settings.stay_ms) / 1000 if self._settings.stay_ms else None
        )
        self._membership = self._join()
        try:
            while not self._context.stop.is_set() and (until is None or time.monotonic() < until):
                self._process(self._membership.poll(self._settings.poll_records, self._settings.poll_timeout_ms / 1000))
                self._commit()
        finally:
            self._membership.leave()

    def _join(self) -> Membership:
        client = f"{self.client}-{self._lives}"
        config = {
            **clients.consumer_config(self._context.bootstrap, client, self._settings),
            "group.id": self._group,
            "partition.assignment.strategy": self._settings.assignor,
            "enable.auto.commit": False,
        }
        return Membership(
            self._context.recorder,
            self.counts,
            client=client,
            group=self._group,
            config=config,
            topics=[topic.name for topic in self._context.topics],
            value_bytes=self._settings.value_bytes,
            settle=self._settle,
        )

    def _settle(self, records: list[Message], may_commit: bool) -> None:
        if not may_commit:
            self._processed.clear()
            return
        self._process(records)
        self._commit()

    def _process(self, records: list[Message]) -> None:
        if records and self._settings.process_ms:
            time.sleep(self._settings.process_ms / 1000)
        for record in records:
            topic, partition, offset = record.topic(), record.partition(), record.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            self._processed[topic, partition] = offset + 1

    def _commit(self) -> None:
        """What was processed and is still ours. What cannot be committed is tried again with what comes next, but not once it was
        taken from us: whoever has it then begins before it, be it we ourselves."""
        reached = self._membership.reached
        self._processed = {place: offset for place, offset in self._processed.items() if place in reached}
        if self._processed and self._membership.commit(self._processed, self._backoff_s) is Outcome.OK:
            self._processed.clear()


def note_committed(context: ClientContext, settings: ClientSettings, group: str) -> None:
    """Ask a group for its committed offsets in all partitions, as somebody who is no member of it."""
    recorder, client = context.recorder, f"{context.client}.g-{group}"
    places = [TopicPartition(topic.name, number) for topic in context.topics for number in range(topic.partitions)]
    config = {
        **clients.drain_config(context.bootstrap, client, settings),
        "group.id": group,
        "isolation.level": "read_committed",  # offsets of a transaction that is being ended are waited for
    }
    consumer = clients.new_consumer(config)
    op = recorder.invoke(client=client, kind=OpKind.FETCH_OFFSETS, phase=Phase.FINAL, process=recorder.new_process())
    try:
        answers = consumer.committed(places, timeout=FETCH_S)
        error = next((error_name(answer.error) for answer in answers if answer.error is not None), None)
    except KafkaException as failure:
        answers, error = [], error_name(failure.args[0])
    finally:
        clients.close(consumer)
    if error is None:
        offsets = [answer.offset if answer.offset >= 0 else None for answer in answers]
        topics, partitions = [answer.topic for answer in answers], [answer.partition for answer in answers]
        recorder.positions(op, Positions(group, None, None, None, topics, partitions, offsets))
    recorder.complete(op, Outcome.FAIL if error else Outcome.OK, error=error)
