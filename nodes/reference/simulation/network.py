"""A simulated network: messages are handed over after a while, or never.

What can go wrong: a message is slow, so that those of other connections overtake it (those of one connection stay in order, as TCP has
it); it is lost, and the one who asked finds out at its deadline; the way from one host to another is cut, in one direction or both; a
process dies, and whoever was connected to it is told, unless its machine lost power or the way is cut.

    network = SimulatedNetwork(loop, Random(7))
    network.cut("c1", "c2")                   # nothing gets from c1 to c2 any more
    network.trouble = Trouble(loss=0.02)
    late = network.hold(lambda source, target, message: isinstance(message, VoteRequest))
    late.caught; late.release()               # what was held arrives now, and nothing more is held
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from random import Random

from nodes.reference.environment import MILLISECOND, Address, Caller, Disconnected, Refused, Serve
from nodes.reference.simulation.loop import Call, Process, SimulatedLoop

Delivered = Callable[[int, str, str, object], None]  # time, from, to, message


@dataclass(frozen=True)
class Trouble:
    """How bad the network is. Delays in ns; one in ten messages is up to `slow`."""

    loss: float = 0.0
    fastest: int = MILLISECOND // 10
    usual: int = 2 * MILLISECOND
    slow: int = 2 * MILLISECOND


class Held:
    """Messages that a rule keeps back until `release`."""

    def __init__(self, network: SimulatedNetwork, rule: Callable[[str, str, object], bool]) -> None:
        self._network = network
        self.rule = rule
        self.caught: list[object] = []
        self._arrivals: list[tuple[str, str, object, Callable[[], None], Context]] = []

    def keep(self, source: str, target: str, message: object, arrive: Callable[[], None]) -> None:
        self.caught.append(message)
        self._arrivals.append((source, target, message, arrive, copy_context()))

    def release(self) -> None:
        """To whoever is alive: what a dead process sent arrives all the same."""
        self._network.forget(self)
        for source, target, message, arrive, context in self._arrivals:
            self._network.loop.at(
                self._network.loop.now, self._network.deliver, source, target, message, arrive, context=context
            )
        self._arrivals.clear()

    def drop(self) -> None:
        """What was held never arrives, and nothing more is held."""
        self._network.forget(self)
        self._arrivals.clear()


class SimulatedNetwork:
    def __init__(self, loop: SimulatedLoop, random: Random, delivered: Delivered | None = None) -> None:
        self.loop = loop
        self.trouble = Trouble()
        self.translate: Callable[[object], object] = lambda message: message  # as by encoding and decoding it
        self._random = random
        self._delivered = delivered
        self._cuts: set[tuple[str, str]] = set()
        self._held: list[Held] = []
        self.listening: dict[Address, Listener] = {}
        self._links: list[Link] = []
        self._connections = 0

    def of(self, host: str, process: Process) -> HostNetwork:
        """The network as a process on a host sees it (`environment.Network`)."""
        return HostNetwork(self, host, process)

    def cut(self, source: str, target: str) -> None:
        self._cuts.add((source, target))

    def heal(self) -> None:
        self._cuts.clear()

    def release(self) -> None:
        """Nothing is held any more."""
        for held in tuple(self._held):
            held.release()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def hold(self, rule: Callable[[str, str, object], bool]) -> Held:
        """rule: from, to, message -> is it to be kept back? Requests and responses alike."""
        held = Held(self, rule)
        self._held.append(held)
        return held

    def forget(self, held: Held) -> None:
        if held in self._held:
            self._held.remove(held)

    def carry(
        self, source: str, target: str, process: Process, message: object, arrive: Callable[[], None], after: int = 0
    ) -> int:
        """Hand a message over, perhaps; when. `after`: not before then, the one before it on its connection."""
        random, trouble = self._random, self.trouble
        lost = trouble.loss > 0 and random.random() < trouble.loss
        longest = trouble.slow if random.random() < 0.1 else trouble.usual
        when = max(after, self.loop.now + trouble.fastest + int(random.random() * (longest - trouble.fastest)))
        if not lost:
            self.loop.at(when, self._arrive, source, target, message, arrive, context=process.context)
        return when

    def _arrive(self, source: str, target: str, message: object, arrive: Callable[[], None]) -> None:
        for held in self._held:
            if held.rule(source, target, message):
                held.keep(source, target, message, arrive)
                return
        self.deliver(source, target, message, arrive)

    def deliver(self, source: str, target: str, message: object, arrive: Callable[[], None]) -> None:
        """Unless there is no way just now."""
        if (source, target) in self._cuts:
            return
        if self._delivered is not None:
            self._delivered(self.loop.now, source, target, message)
        arrive()

    def next_connection(self) -> int:
        self._connections += 1
        return self._connections

    def remember(self, link: Link) -> None:
        self._links = [known for known in self._links if not known.closed]
        self._links.append(link)

    def died(self, process: Process, *, silently: bool) -> None:
        """A process is gone: its ports are free, and its peers hear of it unless the whole machine is off."""
        for address in [address for address, listener in self.listening.items() if listener.process is process]:
            del self.listening[address]
        for link in self._links:
            if process is link.server and not silently:
                self.carry(link.server_host, link.client_host, link.client, "closed", link.close)


class HostNetwork:
    def __init__(self, network: SimulatedNetwork, host: str, process: Process) -> None:
        self._network = network
        self._host = host
        self._process = process

    async def listen(self, address: Address, serve: Serve) -> Listener:
        if address in self._network.listening:
            raise OSError(f"{address.host}:{address.port} is taken")
        listener = Listener(self._network, address, self._process, serve)
        self._network.listening[address] = listener
        return listener

    async def connect(self, address: Address, *, client_id: str, deadline: int) -> Link:
        """One way there, and one back."""
        network, connected = self._network, self._network.loop.create_future()
        link = Link(network, self._host, self._process, address.host, client_id)

        def there() -> None:
            listener = network.listening.get(address)
            if listener is not None:
                link.accept(listener)
            network.carry(address.host, self._host, self._process, "connected" if listener else "refused", back)

        def back() -> None:
            if not connected.done():
                connected.set_result(link.listener is not None)

        process = listener.process if (listener := network.listening.get(address)) else self._process
        network.carry(self._host, address.host, process, "connect", there)
        give_up = network.loop.at(max(deadline, network.loop.now), back_off, connected)
        accepted = await connected
        give_up.cancel()
        if not accepted:
            raise Disconnected(f"{address.host}:{address.port} cannot be reached")
        network.remember(link)
        return link


def back_off(connected: asyncio.Future[bool]) -> None:
    if not connected.done():
        connected.set_result(False)


class Listener:
    def __init__(self, network: SimulatedNetwork, address: Address, process: Process, serve: Serve) -> None:
        self._network = network
        self.address = address
        self.process = process
        self.serve = serve
        self.closed = False

    def close(self) -> None:
        self.closed = True
        if self._network.listening.get(self.address) is self:
            del self._network.listening[self.address]


class Link:
    """A connection, both ends of it (`environment.Connection` is the asking one)."""

    def __init__(self, network: SimulatedNetwork, host: str, process: Process, server: str, client_id: str) -> None:
        self._network = network
        self.client_host, self.client = host, process
        self.server_host = server
        self.server: Process | None = None
        self.listener: Listener | None = None
        self.closed = False
        self._caller = Caller(host, client_id, network.next_connection())
        self._waiting: deque[tuple[object, asyncio.Future[object] | None]] = deque()  # at the server
        self._serving = False
        self._open: dict[asyncio.Future[object], Call] = {}
        self._last_there = self._last_back = 0

    def accept(self, listener: Listener) -> None:
        self.listener, self.server = listener, listener.process

    async def ask(self, request: object, *, deadline: int) -> object:
        response = self._network.loop.create_future()
        self._open[response] = self._network.loop.at(deadline, self.close)
        try:
            self._put(request, response)
            return await response
        finally:
            self._open.pop(response).cancel()

    def tell(self, request: object) -> None:
        self._put(request, None)

    def close(self) -> None:
        self.closed = True
        for response in tuple(self._open):
            if not response.done():
                response.set_exception(Disconnected(f"the connection to {self.server_host} is gone"))

    def _put(self, asked: object, response: asyncio.Future[object] | None) -> None:
        if self.closed or self.server is None:
            raise Disconnected(f"the connection to {self.server_host} is gone")
        request = self._network.translate(asked)

        def arrive() -> None:
            self._waiting.append((request, response))
            if not self._serving and self.listener is not None and not self.listener.closed:
                self._serving = True
                self._network.loop.create_task(self._serve(self.listener))

        self._last_there = self._network.carry(
            self.client_host, self.server_host, self.server, request, arrive, self._last_there
        )

    async def _serve(self, listener: Listener) -> None:
        """One request at a time, in order."""
        while self._waiting and not self.closed:
            request, response = self._waiting.popleft()
            try:
                answer = await listener.serve(self._caller, request)
            except Refused:
                self._hang_up()
                return
            if response is not None and answer is not None:
                self._answer(response, answer)
        self._serving = False

    def _hang_up(self) -> None:
        assert self.server is not None
        self._network.carry(self.server_host, self.client_host, self.client, "closed", self.close, self._last_back)

    def _answer(self, response: asyncio.Future[object], answered: object) -> None:
        answer = self._network.translate(answered)

        def arrive() -> None:
            if not response.done():
                response.set_result(answer)

        self._last_back = self._network.carry(
            self.server_host, self.client_host, self.client, answer, arrive, self._last_back
        )
