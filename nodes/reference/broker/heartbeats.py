"""Registration and heartbeats: the shell of `lifecycle.py`.

The first heartbeat goes out at once after the registration, and so does another while the broker is not active yet; then one every
`broker.heartbeat.interval.ms`. To stop is asked for in heartbeats, too, until the controller has moved all leaders away (KIP-631,
Controlled Shutdown).

Whose registration is refused asks again, because most reasons can pass (the other process with this id dies, the controllers are upgraded),
but ever more rarely (as BrokerLifecycleManager's resendExponentialBackoff), and each reason is logged once until the broker is registered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from kio.schema.broker_registration.v1.request import BrokerRegistrationRequest, Feature, Listener
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.serial.readers import read_uuid
from kio.static.primitive import i16, i32, u16

from nodes.reference.broker.backoff import Backoff
from nodes.reference.broker.controller_channel import ControllerChannel
from nodes.reference.broker.lifecycle import Lifecycle
from nodes.reference.broker.metadata import Metadata
from nodes.reference.broker.settings import BrokerSettings
from nodes.reference.controller.broker_messages import BrokerState
from nodes.reference.controller.schema import BrokerHeartbeatRequest
from nodes.reference.environment import MILLISECOND, SECOND, Address, Disconnected, Environment
from nodes.reference.metadata.features import LATEST, METADATA_VERSION, OLDEST

_SOON: Final = 50 * MILLISECOND  # while something is awaited that is about to come
_FIRST_REFUSED, _LONG_REFUSED = 100 * MILLISECOND, 3 * SECOND  # until a registration that was refused is tried again
_ANSWER_BY: Final = 10 * SECOND
_WHY: Final = {
    ErrorCode.duplicate_broker_registration: "another process has its id, and lives",
    ErrorCode.inconsistent_cluster_id: "its cluster.id is not the controllers'",
    ErrorCode.unsupported_version: "it does not support a feature level that the cluster has",
}
_LOG: Final = logging.getLogger("krash.reference.broker")


class Heartbeats:
    """ready: has this broker taken up its partitions, so that it may be unfenced? changed: called when the state or the epoch did."""

    def __init__(
        self,
        environment: Environment,
        settings: BrokerSettings,
        lifecycle: Lifecycle,
        metadata: Metadata,
        ready: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._clock = environment.clock
        self._settings = settings
        self._lifecycle = lifecycle
        self._metadata = metadata
        self._ready = ready
        self._changed = changed
        self._incarnation, _ = read_uuid(environment.random.randbytes(16), 0)
        self._channel = ControllerChannel(
            environment,
            metadata,
            settings.controllers,
            client_id=f"broker-{settings.node_id}",
            request_timeout_ms=settings.request_timeout_ms,
        )
        self._hurry = asyncio.Event()
        self._refused = Backoff(environment.random, _FIRST_REFUSED, _LONG_REFUSED)
        self._refusals: set[str] = set()  # reasons that the log has already
        self._wait_for = _SOON

    def hurry(self) -> None:
        """Something has come that the next heartbeat should tell at once."""
        self._hurry.set()

    async def run(self, advertised: Address) -> None:
        """Until the controller lets this broker stop."""
        try:
            while self._lifecycle.state is not BrokerState.SHUTDOWN:
                before = self._now()
                if self._lifecycle.registered:
                    await self._heartbeat()
                else:
                    await self._register(advertised)
                if self._now() != before:
                    _LOG.info("broker %d is %s, epoch %d", self._settings.node_id, *self._now())
                    self._changed()
                await self._pause()
        finally:
            self._channel.close()

    def _now(self) -> tuple[str, int]:
        return self._lifecycle.state.name, self._lifecycle.broker_epoch

    async def _pause(self) -> None:
        settled = self._lifecycle.state is BrokerState.ACTIVE and not self._lifecycle.wants_shutdown
        interval = self._settings.broker_heartbeat_interval_ms * MILLISECOND if settled else self._wait_for
        waiting = asyncio.Event()
        timer = self._clock.call_at(self._clock.now() + interval, waiting.set)
        self._hurry = waiting
        await waiting.wait()
        timer.cancel()

    async def _register(self, advertised: Address) -> None:
        request = BrokerRegistrationRequest(
            broker_id=BrokerId(i32(self._settings.node_id)),
            cluster_id=self._settings.cluster_id,
            incarnation_id=self._incarnation,
            listeners=(
                Listener(
                    name=self._settings.listener_name,
                    host=advertised.host,
                    port=u16(advertised.port),
                    security_protocol=i16(0),
                ),
            ),
            features=(
                Feature(name=METADATA_VERSION, min_supported_version=i16(OLDEST), max_supported_version=i16(LATEST)),
            ),
            rack=self._settings.rack,
        )
        try:
            answer = await self._channel.ask(request, deadline=self._clock.now() + _ANSWER_BY)
        except Disconnected:
            self._not_registered(f"no active controller has answered for {_ANSWER_BY // SECOND} s")
            return
        if self._lifecycle.registration_answered(answer.error_code, answer.broker_epoch):
            self._wait_for = _SOON
            self._refused.reset()
            self._refusals.clear()
            return
        self._wait_for = self._refused.next()
        why = _WHY.get(answer.error_code)
        self._not_registered(answer.error_code.name + (f", {why}" if why else ""))

    def _not_registered(self, reason: str) -> None:
        if reason not in self._refusals:
            self._refusals.add(reason)
            _LOG.warning("broker %d is not registered: %s; it goes on asking", self._settings.node_id, reason)

    async def _heartbeat(self) -> None:
        sent = self._clock.now()
        request = BrokerHeartbeatRequest(
            target_state=self._lifecycle.target(ready=self._ready()),
            broker_id=self._settings.node_id,
            broker_epoch=self._lifecycle.broker_epoch,
            lease_start_time_ms=sent // MILLISECOND,
            cur_metadata_offset=self._metadata.offset + 1,
        )
        try:
            answer = await self._channel.ask(request, deadline=sent + self._settings.request_timeout_ms * MILLISECOND)
        except Disconnected:
            self._lifecycle.time_passed(self._clock.now())
            return
        self._lifecycle.heartbeat_answered(answer, self._clock.now())
