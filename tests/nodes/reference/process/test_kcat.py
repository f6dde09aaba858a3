"""kcat, as Debian has it, against a real node: the client that people have at hand when something is wrong."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess

import pytest

from tests.nodes.reference.process.asking import TOPIC, create
from tests.nodes.reference.process.standing import PATIENCE, Standing

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module", autouse=True)
def topic(node: Standing) -> None:
    assert shutil.which("kcat"), "kcat is missing: apt-get install kcat"
    asyncio.run(create(node.clients))


def kcat(node: Standing, *arguments: str, sent: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-b", node.bootstrap, *arguments], input=sent, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def test_it_produces_and_consumes_with_every_codec(node: Standing) -> None:
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        kcat(node, "-P", "-t", TOPIC, "-p", "0", "-z", codec, "-K", ":", sent=f"{codec}:{codec * 50}\n")
    read = kcat(node, "-C", "-t", TOPIC, "-p", "0", "-e", "-q", "-f", r"%o %k %S\n")
    assert read.splitlines() == [f"{number} {codec} {50 * len(codec)}" for number, codec in enumerate(codecs)]
    assert kcat(node, "-Q", "-t", f"{TOPIC}:0:-1").split() == [TOPIC, "[0]", "offset", str(len(codecs))]


def test_it_is_a_member_of_a_group_and_goes_on_where_it_was(node: Standing) -> None:
    topic = "of-a-group"
    asyncio.run(create(node.clients, topic))
    for value in ("one", "two"):
        kcat(node, "-P", "-t", topic, "-p", "0", sent=f"{value}\n")
        read = kcat(node, "-G", "kcat", topic, "-e", "-q", "-X", "auto.offset.reset=earliest")
        assert read.split() == [value]


def test_it_describes_the_cluster(node: Standing) -> None:
    told = json.loads(kcat(node, "-L", "-J"))
    assert [one["name"] for one in told["brokers"]] == [node.bootstrap]
    partitions = next(one["partitions"] for one in told["topics"] if one["topic"] == TOPIC)
    assert [(one["leader"], one["isrs"]) for one in partitions] == [(1, [{"id": 1}])]
