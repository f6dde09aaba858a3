"""Histories of jepsen.tests.kafka: judged by Spark, as our own runs are (harness/checker/foreign_kafka.py)."""

from __future__ import annotations

from harness.checker.models.model import Judgement, Question
from harness.history.formats.kafka import is_kafka
from harness.history.formats.pairing import Paired
from reports.verdict import Validity


class KafkaModel:
    name = "kafka"
    functions = frozenset({"send", "poll", "txn", "assign", "subscribe", "crash", "debug-topic-partitions"})

    def fits(self, history: Paired) -> bool:
        return is_kafka(history.operations)

    def judge(self, history: Paired, question: Question) -> Judgement:
        """Not without Spark."""
        reason = "histories of Kafka are judged by Spark: foreign.judge_histories"
        return Judgement(verdict=Validity.UNKNOWN, engine="none", reason=reason)


KAFKA = KafkaModel()
