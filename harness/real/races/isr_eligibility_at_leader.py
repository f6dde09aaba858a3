"""KIP-841 on real processes: a leader that proposes a fenced follower for the ISR."""

from __future__ import annotations

from nemesis.races.conditions import all_of, fenced, isr, unfenced
from nemesis.races.race import cluster, race, topic
from nemesis.races.stage import Stage


@race(
    "isr-eligibility-at-leader",
    cluster=lambda given: cluster(given, brokers=2, topics=[topic("t", [1, 2])]),
    affected="the reference cluster without `isr-eligibility-at-leader` and `isr-eligibility-at-controller`",
    fixed="KIP-841",
    references=("KIP-841",),
    gate=False,
    expects=(),
)
async def isr_eligibility_at_leader(on: Stage, records: int = 20, watched_s: float = 6.0) -> None:
    """No controller reaches a follower, which is fenced for it, and goes on following its leader."""
    await on.produce("t", 0, records)
    cut = await on.cut("b2", "c1")
    await on.until(fenced("b2"))
    if await on.whether(isr("t", 0).contains("b2"), within=watched_s):
        await on.say("b1 has asked for b2, and b2 is in the ISR, fenced", "b1", "b2")
    await on.heal(cut)
    await on.until(all_of(unfenced("b2"), isr("t", 0) == {"b1", "b2"}))
    await on.produce("t", 0, records)
