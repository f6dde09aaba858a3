"""Apache Kafka's own command line tools, unmodified, against a real node: each release has some of the codecs to write with."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from nodes.kafka.distribution import Distribution, fetch_jars
from nodes.kafka.java import find_java
from tests.nodes.reference.process.standing import PATIENCE, Standing

pytestmark = pytest.mark.kafka
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
QUIET = """
log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.Target=System.err
"""


class Tools:
    """Of one release, for one node."""

    def __init__(self, node: Standing, kafka: Distribution, directory: Path) -> None:
        java = find_java()
        assert java is not None, "Java is missing"
        logging = directory / "log4j.properties"
        logging.write_text(QUIET)
        self._kafka = kafka
        self._bootstrap = ("--bootstrap-server", node.bootstrap)
        flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dlog4j.configuration=file:{logging}")
        self._java = (java.path, *flags, "-cp", kafka.class_path())

    def run(self, tool: str, *arguments: str, sent: str = "") -> str:
        """What it printed."""
        done = subprocess.run(
            [*self._java, tool, *self._bootstrap, *arguments],
            cwd=self._kafka.home,
            input=sent,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, (tool, arguments, done.stdout, done.stderr)
        return done.stdout


@pytest.mark.parametrize(
    ("version", "console_producer", "codecs"),
    [
        ("3.9.2", "kafka.tools.ConsoleProducer", ("gzip", "snappy")),
        ("4.3.1", "org.apache.kafka.tools.ConsoleProducer", ("zstd", "lz4")),
    ],
)
def test_tools(node: Standing, version: str, console_producer: str, codecs: tuple[str, str], tmp_path: Path) -> None:
    tools = Tools(node, fetch_jars(version, progress=print), tmp_path)
    topic, group = f"java-{version}", f"group-{version}"
    tools.run(
        TOPICS,
        *("--create", "--topic", topic, "--partitions", "2", "--replication-factor", "1"),
        *("--config", "max.message.bytes=20000"),
    )
    described = tools.run(TOPICS, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in described
    assert "max.message.bytes=20000" in described

    tools.run(console_producer, "--topic", topic, "--compression-codec", codecs[0], sent="one\ntwo\nthree\n")
    config = tmp_path / "producer.properties"
    config.write_text(f"compression.type={codecs[1]}\n")
    told = tools.run(
        VERIFIABLE_PRODUCER,
        *("--topic", topic, "--max-messages", "50", "--throughput", "-1", "--producer.config", str(config)),
    )
    assert '"acked":50' in told
    read = tools.run(
        CONSOLE_CONSUMER,
        *("--topic", topic, "--from-beginning", "--max-messages", "53", "--timeout-ms", "60000", "--group", group),
    )
    assert sorted(read.split()) == sorted(["one", "two", "three", *(str(number) for number in range(50))])
    groups = tools.run(GROUPS, "--describe", "--group", group)
    lags = [line.split()[:6] for line in groups.splitlines() if line.startswith(group)]
    assert sum(int(line[3]) for line in lags) == 53
    assert {line[5] for line in lags} == {"0"}
    events = tools.run(
        VERIFIABLE_CONSUMER,
        *("--topic", topic, "--group-id", f"verifiable-{version}", "--max-messages", "53"),
        *("--reset-policy", "earliest"),
    )
    consumed = [event for event in map(json.loads, events.splitlines()) if event["name"] == "records_consumed"]
    assert sum(event["count"] for event in consumed) == 53

    assert "TransactionalId" in tools.run(TRANSACTIONS, "list")
    tools.run(TOPICS, "--delete", "--topic", topic)
    assert topic not in tools.run(TOPICS, "--list").split()
