"""Requests and responses in all versions that kio knows, loaded when first needed: a node that nobody asks for an API does not pay for it.

kio has a module for each version of each API, whose classes have the same names; so a handler written once serves all of them:

    reply = response_module(request)                       # of the request's API and version
    return fitted(reply.MetadataResponse, throttle_time=NO_TIME, brokers=(...), ...)      # fields that this version lacks are left out

Messages that are the seeds' own are declared as kio declares Kafka's (`controller/declared.py`), and are found here beside them. Times in
messages are kio's timedeltas: `milliseconds(500)` makes one, `in_milliseconds(request.max_wait)` reads one.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from functools import cache
from types import ModuleType
from typing import Any, Final

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.serial.readers import read_timedelta_i32
from kio.static.primitive import i32Timedelta

from nodes.reference.controller.declared import DECLARED


@cache
def request_class(api_key: int, version: int) -> Any:
    """None for what neither kio nor the seeds know."""
    if (api_key, version) in DECLARED:
        return DECLARED[api_key, version][0]
    try:
        return load_request_schema(api_key, version)
    except KioIndexError:
        return None


def response_class(request: Any) -> Any:
    """What answers a request: of the same API and version."""
    return _response_class(int(request.__api_key__), int(request.__version__))


@cache
def _response_class(api_key: int, version: int) -> Any:
    key = api_key, version
    return DECLARED[key][1] if key in DECLARED else load_response_schema(*key)


def response_module(request: object) -> ModuleType:
    """The module with the response's class and those of its parts."""
    return sys.modules[response_class(type(request)).__module__]


def request_module(api_key: int, version: int) -> ModuleType:
    asked = request_class(api_key, version)
    assert asked is not None, f"API {api_key} has no version {version}"
    return sys.modules[asked.__module__]


def names(entity: Any) -> frozenset[str]:
    """Of the fields of an entity's class."""
    return _names(entity)


@cache
def _names(entity: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(entity))


def fitted(entity: Any, **values: Any) -> Any:
    """An entity of those values that its version has."""
    known = names(entity)
    return entity(**{name: value for name, value in values.items() if name in known})


@cache
def milliseconds(count: int) -> i32Timedelta:
    return read_timedelta_i32(count.to_bytes(4, "big", signed=True), 0)[0]


def in_milliseconds(time: i32Timedelta) -> int:
    return round(time.total_seconds() * 1000)


NO_TIME: Final = milliseconds(0)
