"""Log configuration of a server: `log/server.log`, bounded, with the loggers at DEBUG that explain who left which ISR and why.

Some stay at INFO: `kafka.cluster.Partition` (ISR and leader changes are INFO; at DEBUG it writes a line per follower fetch) and, of the
controller, the parts that write several lines per event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodes.kafka.version import release

FILE: Final = "log/server.log"
DEBUG: Final = (
    "kafka.server.DefaultAlterPartitionManager",
    "org.apache.kafka.server.partition.DefaultAlterPartitionManager",
    "org.apache.kafka.controller",
    "state.change.logger",
)
LEVELS: Final[Mapping[str, str]] = {
    **dict.fromkeys(DEBUG, "DEBUG"),
    "org.apache.kafka.clients": "WARN",
    "org.apache.kafka.common.config": "WARN",
    "kafka.server.KafkaConfig": "WARN",
    "org.apache.kafka.controller.BrokerHeartbeatManager": "INFO",
    "org.apache.kafka.controller.PeriodicTaskControlManager": "INFO",
    "org.apache.kafka.controller.QuorumController": "INFO",
}
_PATTERN = "%d{ISO8601} %-5p [%t] %c: %m%n"


def files(path: str, levels: Mapping[str, str] = LEVELS) -> dict[str, str]:
    """Configuration files by name, of every release (a node may be restarted on another one), for a log at `path`. Pure."""
    return {"log4j.properties": _log4j1(path, levels), "log4j2.properties": _log4j2(path, levels)}


def flag(version: str, directory: str) -> str:
    """The JVM flag that makes a release use the files in `directory`."""
    if release(version) >= (4, 0, 0):
        return f"-Dlog4j2.configurationFile={directory}/log4j2.properties"
    return f"-Dlog4j.configuration=file:{directory}/log4j.properties"


def _log4j1(path: str, levels: Mapping[str, str]) -> str:
    lines = [
        "log4j.rootLogger=INFO, FILE",
        "log4j.appender.FILE=org.apache.log4j.RollingFileAppender",
        f"log4j.appender.FILE.File={path}",
        "log4j.appender.FILE.MaxFileSize=64MB",
        "log4j.appender.FILE.MaxBackupIndex=1",
        "log4j.appender.FILE.layout=org.apache.log4j.PatternLayout",
        f"log4j.appender.FILE.layout.ConversionPattern={_PATTERN}",
        *(f"log4j.logger.{name}={level}" for name, level in levels.items()),
    ]
    return "\n".join(lines) + "\n"


def _log4j2(path: str, levels: Mapping[str, str]) -> str:
    lines = [
        "status=error",
        "appender.file.type=RollingFile",
        "appender.file.name=FILE",
        f"appender.file.fileName={path}",
        f"appender.file.filePattern={path}.%i",
        "appender.file.layout.type=PatternLayout",
        f"appender.file.layout.pattern={_PATTERN}",
        "appender.file.policies.type=SizeBasedTriggeringPolicy",
        "appender.file.policies.size=64MB",
        "appender.file.strategy.type=DefaultRolloverStrategy",
        "appender.file.strategy.max=1",
        "rootLogger.level=INFO",
        "rootLogger.appenderRef.file.ref=FILE",
    ]
    for number, (name, level) in enumerate(levels.items()):
        lines += [f"logger.l{number}.name={name}", f"logger.l{number}.level={level}"]
    return "\n".join(lines) + "\n"
