"""How a node serves an API: one coroutine for all versions of it, in a table that says which versions those are.

    handlers = Handlers(cluster.features)
    handlers.add(Api.FIND_COORDINATOR, 0, 4, groups.find_coordinator)        # async def find_coordinator(caller, request) -> response
    handlers.add(Api.PRODUCE, 3, 9, produce, advertised_from=0)
    listening = await environment.network.listen(address, handlers)

The contract of a handler: it is given the caller and kio's request of whatever version came (duck typing: fields have the same names in
all versions; `getattr(request, "topic_id", None)` for one that an old version lacks), and returns kio's response of the same version, made
with `schema.response_module(request)` and `schema.fitted`. None: this request gets no response (Produce with acks=0). It raises nothing
that a client can bring about; `Refused` closes the connection, as Kafka does with a request that makes no sense. It may wait as long as
the request allows: requests of one connection are served one after the other, connections know nothing of each other.

ApiVersions is answered here, from the table: what has no handler is not advertised (clients take a missing API for a missing feature).
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.api_versions.v0 import response as versions_v0
from kio.schema.errors import ErrorCode

from nodes.reference.environment import Caller, Refused, Serve
from nodes.reference.server.schema import NO_TIME, fitted, response_module

Handle = Callable[[Caller, Any], Awaitable[object | None]]


class Api(enum.IntEnum):
    """Keys of the APIs that nodes of this cluster serve or ask."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67


HIGHEST_API_VERSIONS: Final = 4
QUORUM_APIS: Final = frozenset(  # as raft/wire.py writes them
    {
        (Api.VOTE, 0),
        (Api.BEGIN_QUORUM_EPOCH, 0),
        (Api.END_QUORUM_EPOCH, 0),
        (Api.DESCRIBE_QUORUM, 1),
        (Api.FETCH_SNAPSHOT, 0),
        (Api.FETCH, 12),
    }
)


@dataclass(frozen=True, slots=True)
class Handler:
    """Versions from `lowest` to `highest`."""

    lowest: int
    highest: int
    handle: Handle
    advertised_from: int


@dataclass(frozen=True, slots=True)
class Feature:
    """KIP-584: what this node supports, and what the cluster has finalized (None: nothing yet)."""

    name: str
    lowest: int
    highest: int
    finalized: int | None = None


@dataclass(frozen=True, slots=True)
class Features:
    """epoch: the metadata offset of what is finalized; -1 while nothing is known."""

    supported: tuple[Feature, ...] = ()
    epoch: int = -1


class Handlers:
    """The table, and an `environment.Serve` by itself. features: asked whenever a client asks for versions.

    quorum: serves the messages of the quorum that are not kio's (`Replica.serve`, `ControllerNode.serve`), where this node has a vote.
    """

    def __init__(self, features: Callable[[], Features] = Features, quorum: Serve | None = None) -> None:
        self._handlers: dict[int, Handler] = {}
        self._quorum = quorum
        self._features = features
        self.add(Api.API_VERSIONS, 0, HIGHEST_API_VERSIONS, self._api_versions)

    def add(
        self, api_key: int, lowest: int, highest: int, handle: Handle, *, advertised_from: int | None = None
    ) -> None:
        """advertised_from: lower than what is served, where clients draw conclusions from it (KAFKA-18659)."""
        if api_key in self._handlers:
            raise ValueError(f"API {api_key} has a handler already")
        self._handlers[api_key] = Handler(
            lowest, highest, handle, lowest if advertised_from is None else advertised_from
        )

    def serves(self, api_key: int, version: int) -> bool:
        handler = self._handlers.get(api_key)
        if handler is not None and handler.lowest <= version <= handler.highest:
            return True
        return self._quorum is not None and (api_key, version) in QUORUM_APIS

    async def __call__(self, caller: Caller, request: object) -> object | None:
        """Refused if there is no handler."""
        if not hasattr(request, "__api_key__"):
            if self._quorum is None:
                raise Refused(f"{type(request).__name__}: this node has no vote")
            return await self._quorum(caller, request)
        api_key, version = _key(request)
        handler = self._handlers.get(api_key)
        if handler is None or not handler.lowest <= version <= handler.highest:
            raise Refused(f"{type(request).__name__} version {version} is not served here")
        return await handler.handle(caller, request)

    def unsupported_version(self) -> versions_v0.ApiVersionsResponse:
        """KIP-511: whoever asks for ApiVersions in an unknown version is answered in version 0, with what there is."""
        return versions_v0.ApiVersionsResponse(
            error_code=ErrorCode.unsupported_version, api_keys=self._api_keys(versions_v0.ApiVersion)
        )

    async def _api_versions(self, caller: Caller, request: object) -> object:
        reply, features = response_module(request), self._features()
        finalized = [feature for feature in features.supported if feature.finalized is not None]
        keys: dict[str, object] = {}
        if hasattr(reply, "SupportedFeatureKey"):
            keys["supported_features"] = tuple(
                reply.SupportedFeatureKey(name=known.name, min_version=known.lowest, max_version=known.highest)
                for known in features.supported
            )
            keys["finalized_features"] = tuple(
                reply.FinalizedFeatureKey(
                    name=known.name, min_version_level=known.lowest, max_version_level=known.finalized
                )
                for known in finalized
            )
            keys["finalized_features_epoch"] = features.epoch
        return fitted(
            reply.ApiVersionsResponse,
            error_code=ErrorCode.none,
            api_keys=self._api_keys(reply.ApiVersion),
            throttle_time=NO_TIME,
            **keys,
        )

    def _api_keys(self, entity: Any) -> tuple[Any, ...]:
        ranges: dict[int, tuple[int, int]] = (
            {} if self._quorum is None else {key: (version, version) for key, version in QUORUM_APIS}
        )
        ranges |= {key: (known.advertised_from, known.highest) for key, known in self._handlers.items()}
        return tuple(
            entity(api_key=key, min_version=low, max_version=high) for key, (low, high) in sorted(ranges.items())
        )


def _key(request: object) -> tuple[int, int]:
    api_key, version = getattr(request, "__api_key__", -1), getattr(request, "__version__", -1)
    return int(api_key), int(version)
