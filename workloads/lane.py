"""One partition's records on their way from a producer: those that librdkafka has, and those that wait to be handed over.

Why they wait: librdkafka has at most five requests of an idempotent producer in flight to a partition, and counts
messages for it. With five unanswered and another one due, the thread of the leader's connection does not sleep any more
(`rd_kafka_toppar_producer_serve`, 2.x: the time to wake up is set before the limit is looked at). While a leader is silent, or
slow because of that, all producers would spin, on a small machine at the cost of the brokers and of the judge. So with five
unanswered a partition gets no more until it answers, and then all that waits, in one batch: which is what librdkafka
would have made of it. What waits has its slot and is invoked.

    lane = Lane(patience_s=0)
    lane.waiting.append((slot, value))
    lane.ready(now_s)         # [(slot, value), ...] for produce(), each followed by
    lane.handed_over(now_s)   # and after its delivery report
    lane.answered(now_s)
"""

from __future__ import annotations

from collections import deque

MOST_UNANSWERED = 5  # RD_KAFKA_IDEMP_MAX_INFLIGHT


class Lane:
    """`patience_s`: how long the partition may say nothing before records wait; infinite: they never do."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._handed = 0
        self._heard_s = 0.0  # when it answered last, or was first asked since all was answered
        self.waiting: deque[tuple[int, str]] = deque()

    @property
    def in_the_air(self) -> int:
        return self._handed + len(self.waiting)

    def ready(self, now_s: float) -> list[tuple[int, str]]:
        """Slots and values that librdkafka may have now; they wait no more."""
        if self._handed >= MOST_UNANSWERED and now_s - self._heard_s >= self._patience_s:
            return []
        taken = [*self.waiting]
        self.waiting.clear()
        return taken

    def handed_over(self, now_s: float) -> None:
        if not self._handed:
            self._heard_s = now_s
        self._handed += 1

    def answered(self, now_s: float) -> None:
        self._handed -= 1
        self._heard_s = now_s
