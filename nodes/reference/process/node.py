"""A node for real: roles from its configuration, real clock, network and disk, until SIGTERM has been obeyed.

A broker stops in the controlled way (its leaders are moved first), a controller resigns. A node that cannot keep its promises, because its
disk failed or an invariant is broken, ends with an error instead of serving on. One process with both roles has one replica of the
metadata log, which tells both. The modules of a role are loaded by the nodes that have it: they are most of what a node takes to start.

    asyncio.run(run_node(read_configuration(Path("node.properties"))))
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import resource
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nodes.reference.environment import Environment
from nodes.reference.process.clock import LoopClock
from nodes.reference.process.codec import Codec
from nodes.reference.process.configuration import META, NodeConfiguration
from nodes.reference.process.connections import ConnectionSettings
from nodes.reference.process.disk import FileDisk
from nodes.reference.process.network import KafkaNetwork
from nodes.reference.raft.storage import DIRECTORY as METADATA_LOG

if TYPE_CHECKING:
    from nodes.reference.broker.broker import Broker
    from nodes.reference.broker.metadata import Metadata
    from nodes.reference.controller.shell import ControllerNode

_MANY_FILES: Final = 65_536
_LOG: Final = logging.getLogger("krash.reference.node")


async def run_node(configuration: NodeConfiguration, *, started: Callable[[], None] | None = None) -> None:
    """Until SIGTERM or SIGINT; OSError, BrokenInvariant and others make this node unfit to go on."""
    for name in configuration.unknown:
        _LOG.warning("the configuration %s is not known", name)
    disk = FileDisk(configuration.directory, told=METADATA_LOG)
    _mark(disk, configuration)
    network = KafkaNetwork(Codec(configuration.cluster_id), _affordable(configuration.connections))
    environment = Environment(LoopClock(), network, disk, random.Random())
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if started is not None:
        started()
    await _run(environment, configuration, stop)


async def _run(environment: Environment, configuration: NodeConfiguration, stop: asyncio.Event) -> None:
    controller = _controller(environment, configuration)
    broker = _broker(environment, configuration, controller)
    gc.freeze()  # what was loaded stays: the collector need not look at it, now or again (__main__.py)
    gc.enable()
    loop = asyncio.get_running_loop()
    ordered = loop.create_task(stop.wait())
    controlling = loop.create_task(_control(controller)) if controller else None
    serving = loop.create_task(broker.run()) if broker else None
    tasks = [task for task in (controlling, serving) if task is not None]
    try:
        await asyncio.wait([ordered, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if broker is not None and serving is not None and not serving.done() and ordered.done():
            broker.stop()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if controller is not None:
            controller.replica.resign()
        _raise(tasks)
    finally:
        for task in (ordered, *tasks):
            task.cancel()
        await asyncio.gather(ordered, *tasks, return_exceptions=True)


async def _control(controller: ControllerNode) -> None:
    from nodes.reference.server.controller import controller_handlers

    await controller.run(controller_handlers(controller))


def _raise(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done():
            task.result()


def _controller(environment: Environment, configuration: NodeConfiguration) -> ControllerNode | None:
    if configuration.controller_listener is None:
        return None
    from nodes.reference.controller.shell import ControllerNode

    return ControllerNode(
        environment,
        configuration.node_id,
        configuration.controller_listener,
        configuration.voters,
        configuration.raft,
        configuration.controller,
        configuration.protections,
    )


def _broker(
    environment: Environment, configuration: NodeConfiguration, controller: ControllerNode | None
) -> Broker | None:
    if configuration.broker is None:
        return None
    from nodes.reference.broker.broker import Broker, observe

    if controller is None:
        follow = observe(environment, configuration.broker, configuration.raft, configuration.protections)
        return Broker(environment, configuration.broker, follow, configuration.protections)

    async def beside(metadata: Metadata) -> None:
        """The controller's replica tells the broker, too: of one node there is one in the quorum."""
        await asyncio.Event().wait()

    broker = Broker(environment, configuration.broker, beside, configuration.protections)
    controller.tell(broker.metadata)
    return broker


def _affordable(settings: ConnectionSettings) -> ConnectionSettings:
    """No connection may take the file descriptor that a log needs: of those that this process may have, a quarter is not for peers."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MANY_FILES if limit == resource.RLIM_INFINITY else min(limit, _MANY_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, limit))
    return replace(settings, max_connections=min(settings.max_connections, files * 3 // 4))


def _mark(disk: FileDisk, configuration: NodeConfiguration) -> None:
    """meta.properties, by which a disk is known to belong to this node of this cluster (KIP-78)."""
    if disk.read(META) is None:
        text = f"version=1\ncluster.id={configuration.cluster_id}\nnode.id={configuration.node_id}\n"
        disk.replace(META, text.encode())


def main(configuration: NodeConfiguration, *, started: Callable[[], None] | None = None) -> None:
    """Run a node on uvloop, where that is installed."""
    with contextlib.suppress(ImportError):
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(run_node(configuration, started=started))
