"""A broker: an observer of the metadata log, replicas on its disk, and a listener for clients and for other brokers.

    broker = Broker(environment, settings, observe(environment, settings, raft_config))
    await broker.run()              # until `stop` has been answered; OSError, BrokenInvariant: unfit to go on
    broker.stop()                   # SIGTERM: leaders are moved away first

What it is made of: `heartbeats.py` (registration and lease), `metadata.py` (the image), `replicas.py` (partitions), `fetchers.py`,
`alterations.py` (ISR changes), and handlers: `produce.py`, `fetch.py`, `offsets.py`, `cluster_view.py`, `administration.py`,
`configurations.py`, `producer_ids.py`, `markers.py`. Coordinators (`coordinator/shell.py`) live on `broker.services`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from nodes.reference.broker.administration import Administration
from nodes.reference.broker.alterations import Alterations
from nodes.reference.broker.cluster_view import ClusterViewHandlers
from nodes.reference.broker.configurations import ConfigurationHandlers
from nodes.reference.broker.controller_channel import ControllerChannel
from nodes.reference.broker.fetch import FetchHandler
from nodes.reference.broker.fetchers import Fetchers
from nodes.reference.broker.heartbeats import Heartbeats
from nodes.reference.broker.lifecycle import Lifecycle
from nodes.reference.broker.markers import MarkerHandler
from nodes.reference.broker.metadata import Changes, Metadata
from nodes.reference.broker.offsets import OffsetHandlers
from nodes.reference.broker.peers import Peers
from nodes.reference.broker.produce import ProduceHandler
from nodes.reference.broker.producer_ids import ProducerIds
from nodes.reference.broker.replicas import Replicas
from nodes.reference.broker.services import BrokerServices
from nodes.reference.broker.serving import Serving
from nodes.reference.broker.settings import BrokerSettings
from nodes.reference.coordinator.shell import Coordinators
from nodes.reference.coordinator.verification import Verification
from nodes.reference.environment import MILLISECOND, Address, Environment, Listening
from nodes.reference.metadata.features import LATEST, METADATA_VERSION, OLDEST
from nodes.reference.protections import ALL_ON, Protections
from nodes.reference.raft.replica import Replica
from nodes.reference.raft.roles import RaftConfig
from nodes.reference.server.handlers import Api, Feature, Features, Handlers

_LOG: Final = logging.getLogger("krash.reference.broker")
FORWARDED: Final = (
    (Api.DELETE_TOPICS, 1, 6),
    (Api.CREATE_PARTITIONS, 0, 3),
    (Api.ELECT_LEADERS, 0, 2),
    (Api.INCREMENTAL_ALTER_CONFIGS, 0, 1),
    (Api.UPDATE_FEATURES, 0, 1),
    (Api.UNREGISTER_BROKER, 0, 0),
)


Follow = Callable[[Metadata], Coroutine[Any, Any, None]]


def observe(
    environment: Environment,
    settings: BrokerSettings,
    config: RaftConfig,
    protections: Protections = ALL_ON,
) -> Follow:
    """Follow the metadata log as an observer (KIP-595), with a copy of it on this broker's disk."""

    async def follow(metadata: Metadata) -> None:
        await Replica(environment, settings.node_id, config, settings.controllers, metadata, protections).run()

    return follow


class Broker:
    """follow: runs until cancelled and keeps `metadata` up to date, as an observer or with a controller in the same process."""

    def __init__(
        self,
        environment: Environment,
        settings: BrokerSettings,
        follow: Follow,
        protections: Protections = ALL_ON,
    ) -> None:
        self._environment = environment
        self._clock = environment.clock
        self._follow = follow
        self._protections = protections
        self.settings = settings
        self.metadata = Metadata()
        self.lifecycle = Lifecycle(protections)
        self.replicas = Replicas(environment, settings, protections, self.metadata)
        self.fetchers = Fetchers(environment, settings, self.metadata, self.replicas)
        serving = Serving(
            clock=environment.clock,
            settings=settings,
            lifecycle=self.lifecycle,
            metadata=self.metadata,
            replicas=self.replicas,
        )
        self._channels = [self._channel() for _ in range(3)]
        self._alterations = Alterations(
            settings.node_id, environment.clock, self._channels[0], self.metadata, self.replicas
        )
        administration = Administration(serving, self._channels[1])
        producer_ids = ProducerIds(serving, self._channels[2])
        self._peers = Peers(environment, self.metadata, f"broker-{settings.node_id}-services")
        markers = MarkerHandler(serving)
        self.services = BrokerServices(serving, administration, producer_ids, self._peers, markers)
        self.coordinators = Coordinators(environment, self.services, settings.coordinators, protections)
        self.handlers = Handlers(self._features)
        self.handlers.add(Api.WRITE_TXN_MARKERS, 1, 1, markers)
        self.coordinators.add_handlers(self.handlers, without_id=producer_ids.init_producer_id)
        self._add_handlers(serving, administration)
        self._heartbeats = Heartbeats(
            environment, settings, self.lifecycle, self.metadata, self._ready, self._lifecycle_changed
        )
        self.metadata.watch(self._metadata_changed)
        self.listening: Listening | None = None

    async def run(self) -> None:
        self.listening = await self._environment.network.listen(self.settings.listener, self.handlers)
        advertised = self.settings.advertised or Address(self.settings.listener.host, self.listening.address.port)
        loop = asyncio.get_running_loop()
        working = [
            loop.create_task(work)
            for work in (
                self._follow(self.metadata),
                self.replicas.run(),
                self._alterations.run(),
                self.coordinators.run(),
            )
        ]
        beating = loop.create_task(self._heartbeats.run(advertised))
        try:
            ends: list[asyncio.Future[None]] = [*working, beating, self.replicas.failure]
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in done:
                end.result()
        finally:
            for task in (*working, beating):
                task.cancel()
            self._close()

    def stop(self) -> None:
        """KIP-631, Controlled Shutdown: ask for it with each heartbeat; but not longer than `controlled.shutdown.timeout`.

        Who is not registered leads nothing, and has nobody to ask: it stops at once.
        """
        if not self.lifecycle.wants_shutdown:
            self.lifecycle.wants_shutdown = True
            patience = self.settings.controlled_shutdown_timeout_ms if self.lifecycle.registered else 0
            self._clock.call_at(self._clock.now() + patience * MILLISECOND, self._give_up)
        self._heartbeats.hurry()

    def _give_up(self) -> None:
        self.lifecycle.give_up()
        self._heartbeats.hurry()

    def _close(self) -> None:
        self.fetchers.close()
        self._peers.close()
        for channel in self._channels:
            channel.close()
        if self.listening is not None:
            self.listening.close()
        if not self.replicas.failure.done():
            self.replicas.close()

    def _ready(self) -> bool:
        return self.lifecycle.registered and self.replicas.broker_epoch == self.lifecycle.broker_epoch

    def _lifecycle_changed(self) -> None:
        self._take_up()
        for hosted in self.replicas:
            hosted.wake_all()

    def _metadata_changed(self, changes: Changes) -> None:
        if changes.brokers or changes.everything:
            self._take_up()

    def _take_up(self) -> None:
        if self.lifecycle.registered and not self._ready() and self.replicas.take_up(self.lifecycle.broker_epoch):
            _LOG.info("broker %d has taken up its partitions", self.settings.node_id)
            self._heartbeats.hurry()

    def _channel(self) -> ControllerChannel:
        return ControllerChannel(
            self._environment,
            self.metadata,
            self.settings.controllers,
            client_id=f"broker-{self.settings.node_id}",
            request_timeout_ms=self.settings.request_timeout_ms,
        )

    def _features(self) -> Features:
        level = self.metadata.image.features.get(METADATA_VERSION)
        return Features((Feature(METADATA_VERSION, OLDEST, LATEST, level),), epoch=self.metadata.offset)

    def _add_handlers(self, serving: Serving, administration: Administration) -> None:
        offsets, configurations = OffsetHandlers(serving), ConfigurationHandlers(serving)
        view = ClusterViewHandlers(serving, administration.auto_create)
        verification = Verification(
            self.services,
            self._clock,
            self._protections,
            enabled=self.settings.transaction_partition_verification_enable,
        )
        self.handlers.add(Api.PRODUCE, 3, 9, ProduceHandler(serving, verification), advertised_from=0)
        self.handlers.add(Api.FETCH, 4, 15, FetchHandler(serving))
        self.handlers.add(Api.LIST_OFFSETS, 1, 7, offsets.list_offsets)
        self.handlers.add(Api.OFFSET_FOR_LEADER_EPOCH, 2, 4, offsets.offset_for_leader_epoch)
        self.handlers.add(Api.METADATA, 0, 12, view.metadata)
        self.handlers.add(Api.DESCRIBE_CLUSTER, 0, 2, view.describe_cluster)
        self.handlers.add(Api.CREATE_TOPICS, 2, 7, administration.create_topics)
        self.handlers.add(Api.DESCRIBE_CONFIGS, 1, 4, configurations.describe_configs)
        for api, lowest, highest in FORWARDED:
            self.handlers.add(api, lowest, highest, administration.forward)
