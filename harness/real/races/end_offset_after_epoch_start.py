"""KIP-207 on real processes: a new leader that tells a high watermark from before its time."""

from __future__ import annotations

from harness.real.beginnings import leads_with_an_old_high_watermark
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "end-offset-after-epoch-start",
    cluster=lambda given: cluster(given, brokers=3, topics=[topic("t", [1, 2, 3])]),
    affected="the reference cluster without `end-offset-after-epoch-start`; Apache Kafka before 2.1",
    fixed="KIP-207",
    references=("KIP-207",),
    expects=(),
)
async def end_offset_after_epoch_start(on: Stage, records: int = 50, more: int = 10, told_s: float = 4.0) -> None:
    """A follower that has not heard of the newest high watermark leads, and the other one cannot reach it: where does the log end?

    The last records are on all three replicas and acknowledged, and no answer that tells the followers so arrives. The leader b1 dies,
    b2 leads, and b3, which is in the ISR still, cannot reach it. So b2 does not know that those records are committed. A leader that
    tells clients its high watermark all the same makes the end of the log go backwards; since KIP-207 it says that it cannot tell yet.
    """
    await leads_with_an_old_high_watermark(on, records, more)
    await on.ask_end("t", 0, within=told_s)
