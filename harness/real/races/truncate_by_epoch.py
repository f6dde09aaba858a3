"""KIP-101 on real processes: a follower that cuts its log to its own high watermark."""

from __future__ import annotations

from harness.real.beginnings import leads_with_an_old_high_watermark
from nemesis.races.asked import end_offset
from nemesis.races.conditions import leader_of
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "truncate-by-epoch",
    cluster=lambda given: cluster(given, brokers=3, topics=[topic("t", [1, 2, 3])]),
    affected="the reference cluster without `truncate-by-epoch`",
    fixed="KIP-101, Proposed Changes; KIP-279",
    references=("KIP-101", "KIP-279"),
    expects=(),
)
async def truncate_by_epoch(on: Stage, records: int = 50, more: int = 10, hears_s: float = 4.0) -> None:
    """A follower that has not heard of the newest high watermark hears of a new leader, cannot ask it anything, and leads next.

    The last records are on all three replicas and acknowledged, and no answer that tells the followers so arrives. The leader b1 dies,
    b2 leads, and b3 cannot reach it. A replica that cuts its log to its own high watermark, as before KIP-101, loses the last records
    there and then. b2 dies, b3 leads, and they are gone.
    """
    await leads_with_an_old_high_watermark(on, records, more)
    if await on.whether(end_offset("t", 0, on="b3") == records, within=hears_s):
        await on.say("b3 has cut its log to its own high watermark", "b3")
    await on.kill("b2")
    await on.until(leader_of("t", 0) == "b3")
