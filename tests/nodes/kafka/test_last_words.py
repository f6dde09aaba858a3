from __future__ import annotations

import pytest

from nodes.kafka.last_words import last_words

TRACE = "\tat kafka.Kafka$.main(Kafka.scala:1)\n\t... 7 more"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            "ERROR Exiting\norg.apache.kafka.common.config.ConfigException: Invalid value none",
            "its configuration was refused",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "it ran out of memory"),
        (
            "java.lang.RuntimeException: No `meta.properties` found in /d (have you run `kafka-storage.sh`?)",
            "its disk is not formatted",
        ),
        ("Error: Could not find or load main class kafka.Kafka", "jars are not readable"),
        ("sh: 1: exec: java: not found", "the node has no java"),
        ("java.lang.UnsupportedClassVersionError: kafka/Kafka", "this Java is too old"),
        ("java.net.BindException: Address already in use", "its port is taken"),
    ],
)
def test_a_known_cause_is_named_first_and_the_line_that_shows_it_follows(log: str, cause: str) -> None:
    said = last_words([f"INFO fine\n{log}\n{TRACE}\n"])
    assert cause in said.splitlines()[0]
    assert log.splitlines()[-1] in said
    assert "Kafka.scala" not in said


def test_an_unknown_cause_is_the_end_of_the_log() -> None:
    assert last_words(["".join(f"INFO {n}\n" for n in range(50))]).split()[-1] == "49"
    assert last_words([]) == last_words([""]) == "its logs are empty"
