"""Which topic settings there are, and what each may be (Kafka's TopicConfig). A setting that nothing here obeys is still kept and told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

_NUMBER: Final = re.compile(r"[+-]?\d{1,19}")
Rule = Callable[[str], str | None]  # what is wrong with a value; None: nothing


def _integer(least: int, greatest: int = (1 << 63) - 1) -> Rule:
    def check(value: str) -> str | None:
        if not _NUMBER.fullmatch(value.strip()):
            return "is not a whole number"
        return None if least <= int(value) <= greatest else f"must be between {least} and {greatest}"

    return check


def _one_of(*allowed: str) -> Rule:
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


def _list_of(*allowed: str) -> Rule:
    def check(value: str) -> str | None:
        wrong = [item for item in items(value) if item not in allowed]
        return f"may have only {', '.join(allowed)}" if wrong else None

    return check


def _ratio(value: str) -> str | None:
    try:
        return None if 0 <= float(value) <= 1 else "must be between 0 and 1"
    except ValueError:
        return "is not a number"


def _anything(value: str) -> str | None:
    return None


_INT: Final = (1 << 31) - 1
_BOOLEAN: Final = _one_of("true", "false")
TOPIC_SETTINGS: Final[Mapping[str, Rule]] = {
    "cleanup.policy": _list_of("delete", "compact"),
    "compression.type": _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "delete.retention.ms": _integer(0),
    "file.delete.delay.ms": _integer(0),
    "flush.messages": _integer(1),
    "flush.ms": _integer(0),
    "follower.replication.throttled.replicas": _anything,
    "index.interval.bytes": _integer(0, _INT),
    "leader.replication.throttled.replicas": _anything,
    "local.retention.bytes": _integer(-2),
    "local.retention.ms": _integer(-2),
    "max.compaction.lag.ms": _integer(1),
    "max.message.bytes": _integer(0, _INT),
    "message.downconversion.enable": _BOOLEAN,
    "message.format.version": _anything,
    "message.timestamp.after.max.ms": _integer(0),
    "message.timestamp.before.max.ms": _integer(0),
    "message.timestamp.difference.max.ms": _integer(0),
    "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": _ratio,
    "min.compaction.lag.ms": _integer(0),
    "min.insync.replicas": _integer(1, _INT),
    "preallocate": _BOOLEAN,
    "remote.storage.enable": _BOOLEAN,
    "retention.bytes": _integer(-1),
    "retention.ms": _integer(-1),
    "segment.bytes": _integer(14, _INT),
    "segment.index.bytes": _integer(4, _INT),
    "segment.jitter.ms": _integer(0),
    "segment.ms": _integer(1),
    "unclean.leader.election.enable": _BOOLEAN,
}
LISTS: Final = frozenset(
    ("cleanup.policy", "follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
)


def items(value: str) -> list[str]:
    """Of a list in a setting."""
    return [item.strip() for item in value.split(",") if item.strip()]


def invalid_topic_config(name: str, value: str) -> str | None:
    """What is wrong, as a sentence; None if nothing is."""
    rule = TOPIC_SETTINGS.get(name)
    if rule is None:
        return f"{name} is not a setting of a topic"
    complaint = rule(value)
    return None if complaint is None else f"{name}: {value!r} {complaint}"


def invalid_broker_config(name: str, value: str) -> str | None:
    """Brokers have settings of their own, which only they know; what a topic could have too is checked."""
    if not name:
        return "a setting without a name"
    return invalid_topic_config(name, value) if name in TOPIC_SETTINGS else None
