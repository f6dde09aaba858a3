"""AlterConfigs (all settings of a resource) and IncrementalAlterConfigs (KIP-339): each resource by itself, all of it or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from nodes.reference.controller import elections
from nodes.reference.controller.broker_messages import OK
from nodes.reference.controller.client_messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredConfigs,
    ConfigChange,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    ResourceChanges,
    ResourceConfigs,
)
from nodes.reference.controller.config_rules import LISTS, invalid_broker_config, invalid_topic_config, items
from nodes.reference.controller.draft import Draft
from nodes.reference.metadata.image import BROKER, EVERY_BROKER, TOPIC
from nodes.reference.metadata.schema import ConfigRecord


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def alter_configs(draft: Draft, request: AlterConfigsRequest | IncrementalAlterConfigsRequest) -> AlterConfigsResponse:
    draft = draft.trial() if request.validate_only else draft
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    altered = []
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        error, message = OK, None
        try:
            if times[key] > 1:
                raise _Refused(ErrorCode.invalid_request, f"{resource.resource_name!r} is named {times[key]} times")
            _check_resource(draft, *key)
            present = draft.image.config(*key)
            wanted = _wanted(resource) if isinstance(resource, ResourceConfigs) else _changed(present, resource)
            _write(draft, key, present, wanted)
        except _Refused as refused:
            error, message = refused.error, str(refused)
        altered.append(AlteredConfigs(resource_type=key[0], resource_name=key[1], error=error, message=message))
    return AlterConfigsResponse(resources=tuple(altered))


def _check_resource(draft: Draft, resource_type: int, name: str) -> None:
    if resource_type == TOPIC:
        if name not in draft.image.topic_ids:
            raise _Refused(ErrorCode.unknown_topic_or_partition, f"there is no topic {name!r}")
    elif resource_type != BROKER:
        raise _Refused(ErrorCode.invalid_request, f"resources of type {resource_type} have no settings here")
    elif name != EVERY_BROKER and not name.isdecimal():
        raise _Refused(ErrorCode.invalid_request, f"{name!r} is not a broker's id")


def _wanted(resource: ResourceConfigs) -> dict[str, str]:
    return {name: value for name, value in resource.configs if value is not None}


def _changed(present: Mapping[str, str], resource: ResourceChanges) -> dict[str, str]:
    wanted = dict(present)
    names = [change.name for change in resource.changes]
    if len(set(names)) < len(names):
        raise _Refused(ErrorCode.invalid_request, "a setting is named twice")
    for change in resource.changes:
        value = _value_after(wanted.get(change.name), change)
        if value is None:
            wanted.pop(change.name, None)
        else:
            wanted[change.name] = value
    return wanted


def _value_after(present: str | None, change: ConfigChange) -> str | None:
    if change.operation is ConfigOperation.DELETE:
        return None
    if change.value is None:
        raise _Refused(ErrorCode.invalid_request, f"{change.name}: no value")
    if change.operation is ConfigOperation.SET:
        return change.value
    if change.name not in LISTS:
        raise _Refused(ErrorCode.invalid_config, f"{change.name} is not a list")
    has, given = items(present or ""), items(change.value)
    if change.operation is ConfigOperation.APPEND:
        return ",".join(has + [item for item in given if item not in has])
    return ",".join(item for item in has if item not in given)


def _write(draft: Draft, key: tuple[int, str], present: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    resource_type, resource_name = key
    invalid = invalid_topic_config if resource_type == TOPIC else invalid_broker_config
    for name, value in wanted.items():
        if (complaint := invalid(name, value)) is not None:
            raise _Refused(ErrorCode.invalid_config, complaint)
    for name in sorted({*present, *wanted}):
        if present.get(name) != wanted.get(name):
            draft.write(
                ConfigRecord(
                    resource_type=resource_type, resource_name=resource_name, name=name, value=wanted.get(name)
                )
            )
    for topic in (resource_name,) if resource_type == TOPIC else tuple(draft.image.topic_ids):
        elections.elect_leaderless(draft, topic)
