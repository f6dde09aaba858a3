"""How more than one race of harness/real/races begins."""

from __future__ import annotations

from nemesis.races.asked import end_offset
from nemesis.races.conditions import all_of, held, leader_of
from nemesis.races.stage import Stage


async def leads_with_an_old_high_watermark(on: Stage, records: int, more: int) -> None:
    """All replicas of t-0 (b1, b2, b3) have `more` records that are acknowledged, and no answer that tells the followers so arrives. The
    leader b1 dies, b2 leads, and b3 cannot reach it.
    """
    await on.produce("t", 0, records)
    await on.until(all_of(end_offset("t", 0, on="b2") == records, end_offset("t", 0, on="b3") == records))
    where = f"highWatermark >= {records + more}"
    news = [await on.hold("Fetch", source=one, destination="b1", where=where, response=True) for one in ("b2", "b3")]
    await on.produce("t", 0, more)
    await on.until(all_of(*map(held, news)))
    await on.cut("b2", "b3")
    await on.kill("b1")
    await on.until(leader_of("t", 0) == "b2")
