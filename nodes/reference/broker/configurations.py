"""DescribeConfigs: what is set for topics and brokers, and where it comes from (KIP-133, KIP-226)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.reference.broker.serving import Serving
from nodes.reference.environment import Caller, Refused
from nodes.reference.metadata.image import BROKER, EVERY_BROKER, TOPIC
from nodes.reference.server.schema import NO_TIME, fitted, response_module

_OF_TOPIC, _OF_BROKERS, _OF_FILE, _DEFAULT = 1, 3, 4, 5  # ConfigSource
_STRING: Final = 2


class ConfigurationHandlers:
    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    async def describe_configs(self, caller: Caller, request: Any) -> object:
        if not self._serving.may_serve:
            raise Refused("this broker is fenced")
        reply = response_module(request)
        return fitted(
            reply.DescribeConfigsResponse,
            throttle_time=NO_TIME,
            results=tuple(self._described(reply, resource) for resource in request.resources),
        )

    def _described(self, reply: Any, resource: Any) -> Any:
        error = self._error(resource.resource_type, resource.resource_name)
        wanted = resource.configuration_keys
        values = () if error is not ErrorCode.none else self._values(resource.resource_type, resource.resource_name)
        return fitted(
            reply.DescribeConfigsResult,
            error_code=error,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=tuple(
                _entry(reply, name, value, source) for name, value, source in values if not wanted or name in wanted
            ),
        )

    def _error(self, kind: int, name: str) -> ErrorCode:
        if kind == TOPIC:
            return ErrorCode.none if self._serving.image.topic(name) else ErrorCode.unknown_topic_or_partition
        mine = name in (EVERY_BROKER, str(self._serving.settings.node_id))
        return ErrorCode.none if kind == BROKER and mine else ErrorCode.invalid_request

    def _values(self, kind: int, name: str) -> Iterator[tuple[str, str | None, int]]:
        """Name, value and source."""
        image = self._serving.image
        own: Mapping[str, str] = image.config(kind, name)
        brokers = image.config(BROKER, EVERY_BROKER)
        defaults = self._topic_defaults() if kind == TOPIC else self._broker_defaults()
        for key in sorted({**defaults, **own}):
            if key in own:
                yield key, own[key], _OF_TOPIC if kind == TOPIC else _OF_BROKERS
            elif key in brokers:
                yield key, brokers[key], _OF_BROKERS
            else:
                yield key, defaults[key], _OF_FILE

    def _topic_defaults(self) -> dict[str, str]:
        settings = self._serving.settings
        return {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "max.message.bytes": str(settings.message_max_bytes),
            "min.insync.replicas": str(settings.min_insync_replicas),
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "unclean.leader.election.enable": "false",
        }

    def _broker_defaults(self) -> dict[str, str]:
        settings = self._serving.settings
        return {
            "node.id": str(settings.node_id),
            "broker.session.timeout.ms": str(settings.broker_session_timeout_ms),
            "broker.heartbeat.interval.ms": str(settings.broker_heartbeat_interval_ms),
            "replica.lag.time.max.ms": str(settings.replica_lag_time_max_ms),
            "min.insync.replicas": str(settings.min_insync_replicas),
            "message.max.bytes": str(settings.message_max_bytes),
            "auto.create.topics.enable": str(settings.auto_create_topics_enable).lower(),
            "num.partitions": str(settings.num_partitions),
            "default.replication.factor": str(settings.default_replication_factor),
        }


def _entry(reply: Any, name: str, value: str | None, source: int) -> Any:
    return fitted(
        reply.DescribeConfigsResourceResult,
        name=name,
        value=value,
        read_only=source == _OF_FILE,
        config_source=source,
        is_default=source == _DEFAULT,
        is_sensitive=False,
        synonyms=(),
        config_type=_STRING,
        documentation=None,
    )
