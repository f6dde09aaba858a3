"""KIP-98, Message Format, on real processes: half of a batch on a disk."""

from __future__ import annotations

from nemesis.races.asked import end_offset
from nemesis.races.books import NotReached
from nemesis.races.conditions import all_of, fenced, isr, leader_of
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage

LOG = "data/t-0"


@race(
    "torn-batch",
    cluster=lambda given: cluster(given, brokers=2, topics=[topic("t", [1, 2])]),
    affected="the reference cluster without `checksum-after-torn-write`",
    fixed="KIP-98, Message Format",
    references=("KIP-98",),
    gate=False,
    expects=(),
)
async def torn_batch(on: Stage, records: int = 50, torn_bytes: int = 6) -> None:
    """The end of a follower's last batch never reached its disk, and the follower leads next.

    A write is torn when power fails between its first sector and its last: the file has its new length, and zeros where nothing arrived.
    No fault of krash cuts real power, so the script writes the zeros itself, while the follower is dead. A log that believes the
    batch's header serves what is left of it. Few bytes are enough, and leave a batch that clients can read: the end of its last value.
    """
    await on.produce("t", 0, records)
    await on.until(end_offset("t", 0, on="b2") == records)
    await on.kill("b2")
    await on.until(all_of(fenced("b2"), isr("t", 0) == {"b1"}))
    node = on.cluster.nodes["b2"]
    segments = [path for path in await node.list(LOG) if path.endswith(".log")]
    if len(segments) != 1:
        raise NotReached(f"one segment in {LOG} of b2", f"there are {segments}")
    path = f"{LOG}/{segments[0]}"
    content: bytes = await node.read(path)
    await node.write(path, content[:-torn_bytes] + bytes(torn_bytes))
    await on.say(f"the last {torn_bytes} bytes of {path} are zeros now", "b2")
    await on.start("b2")
    await on.until(isr("t", 0) == {"b1", "b2"})
    await on.kill("b1")
    await on.until(leader_of("t", 0) == "b2")
