"""What a race waits for, as small data: a sentence, and a look that says whether it holds and what was seen.

    isr("t", 0) == {"b1"}             leader_of("t", 0) == "b2"        leader_of("t", 0) == None
    isr("t", 0).contains("b2")        leader_of("t", 0) != "b1"        leader_epoch("t", 0) >= 3
    resigned("c1")                    behind("c3") >= 2                active_controller().is_one_of("c2", "c3")
    fenced("b2")   unfenced("b2")   gone("b2")   answers("c2")   active_controller() != "c1"
    log_line("b1", "Submitting ISR state change PendingExpandIsr")
    held(hold)   held(hold, 2)   answered(hold)
    all_of(fenced("b2"), isr("t", 0) == {"b1"})     any_of(...)     elapsed(4)

More are in nemesis/races/asked.py: offsets, transactions, what a controller has on its disk.
Nodes are named as everywhere in a script ("b1"); what is seen is told the same way. A look must be quick: it is asked
again until it holds or the deadline of `on.until` has passed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nodes.node import Gone, Running
from nodes.view import ClusterView, PartitionView

if TYPE_CHECKING:
    from nemesis.races.hold import Hold
    from nodes.node import ProcessState


class Sighting(NamedTuple):
    met: bool
    seen: str
    message: int | None = None  # the frame that shows it


class Eyes(Protocol):
    """What a look may use."""

    cluster: Any  # nodes.cluster.Cluster, for what only it can ask

    async def view(self) -> ClusterView: ...
    def name_of(self, id: int) -> str: ...
    def id_of(self, name: str) -> int: ...
    async def state(self, name: str) -> ProcessState: ...
    async def log(self, name: str) -> Sequence[str]:
        """Lines of the node's server log so far."""
        ...


Look = Callable[[Eyes], Awaitable[Sighting]]


@dataclass(frozen=True, kw_only=True)
class Condition:
    text: str  # "the ISR of t-0 is b1"
    look: Look
    nodes: tuple[str, ...] = ()  # whom it is about


class Quantity:
    """Something of the cluster that is compared with what a script wants: `isr("t", 0) == {"b1"}`."""

    def __init__(self, name: str, read: Callable[[Eyes], Awaitable[object]], nodes: tuple[str, ...] = ()) -> None:
        self._name, self._read, self._nodes = name, read, nodes

    def _is(self, text: str, holds: Callable[[object], bool], also: object = None) -> Condition:
        async def look(eyes: Eyes) -> Sighting:
            value = await self._read(eyes)
            return Sighting(value is not UNKNOWN and holds(value), f"{self._name} is {_words(value)}")

        named = tuple(also) if isinstance(also, (set, frozenset)) else (also,)
        nodes = (*self._nodes, *(one for one in named if isinstance(one, str)))
        return Condition(text=f"{self._name} {text}", look=look, nodes=tuple(dict.fromkeys(nodes)))

    def __eq__(self, wanted: object) -> Condition:  # type: ignore[override]  # a condition, for scripts that read well
        return self._is(f"is {_words(wanted)}", lambda value: value == wanted, wanted)

    def __ne__(self, unwanted: object) -> Condition:  # type: ignore[override]
        return self._is(f"is not {_words(unwanted)}", lambda value: value != unwanted, unwanted)

    def __ge__(self, least: int) -> Condition:
        return self._is(f"is at least {least}", lambda value: isinstance(value, int) and value >= least)

    def is_one_of(self, *wanted: str) -> Condition:
        return self._is(f"is {' or '.join(wanted)}", lambda value: value in wanted, frozenset(wanted))

    def contains(self, name: str) -> Condition:
        return self._is(f"contains {name}", lambda value: isinstance(value, Set) and name in value, name)

    def lacks(self, name: str) -> Condition:
        return self._is(f"is without {name}", lambda value: isinstance(value, Set) and name not in value, name)

    __hash__ = None  # type: ignore[assignment]  # compared for conditions, never looked up


UNKNOWN = object()  # nobody could say


def isr(topic: str, partition: int) -> Quantity:
    """Names of the brokers in the ISR, as a set."""

    async def read(eyes: Eyes) -> object:
        known = await _partition(eyes, topic, partition)
        return frozenset(map(eyes.name_of, known.isr)) if known else UNKNOWN

    return Quantity(f"the ISR of {topic}-{partition}", read)


def leader_of(topic: str, partition: int) -> Quantity:
    """Name of the broker that leads, None when there is no leader."""

    async def read(eyes: Eyes) -> object:
        known = await _partition(eyes, topic, partition)
        return (eyes.name_of(known.leader) if known.leader >= 0 else None) if known else UNKNOWN

    return Quantity(f"the leader of {topic}-{partition}", read)


def leader_epoch(topic: str, partition: int) -> Quantity:
    async def read(eyes: Eyes) -> object:
        known = await _partition(eyes, topic, partition)
        return known.leader_epoch if known else UNKNOWN

    return Quantity(f"the leader epoch of {topic}-{partition}", read)


def active_controller() -> Quantity:
    """Name of the active controller, None when none says that it is."""

    async def read(eyes: Eyes) -> object:
        return (await eyes.view()).controller

    return Quantity("the active controller", read)


def resigned(controller: str) -> Condition:
    """It no longer says for itself that it is the active controller; one that is silent does not either."""

    async def look(eyes: Eyes) -> Sighting:
        claims = (await eyes.view()).claims
        said = ", ".join(f"{name} (epoch {epoch})" for name, epoch in sorted(claims.items())) or "nobody"
        return Sighting(controller not in claims, f"active by their own word: {said}")

    return Condition(
        text=f"{controller} does not say any more that it is the active controller", look=look, nodes=(controller,)
    )


def behind(node: str) -> Quantity:
    """How many records of the metadata log a node has not asked for yet, as the active controller knows."""

    async def read(eyes: Eyes) -> object:
        view = await eyes.view()
        end, place = view.places.get(view.controller or ""), view.places.get(node)
        return UNKNOWN if end is None or place is None else end - place

    return Quantity(f"what {node} misses of the metadata log", read, (node,))


async def _partition(eyes: Eyes, topic: str, partition: int) -> PartitionView | None:
    return (await eyes.view()).partitions.get((topic, partition))


def fenced(broker: str) -> Condition:
    """The controllers count it as dead: it left the cluster's metadata."""

    async def look(eyes: Eyes) -> Sighting:
        view = await eyes.view()
        there = eyes.id_of(broker) in view.brokers
        return Sighting(bool(view.answered) and not there, _unfenced(eyes, view))

    return Condition(text=f"{broker} is fenced", look=look, nodes=(broker,))


def unfenced(broker: str) -> Condition:
    async def look(eyes: Eyes) -> Sighting:
        view = await eyes.view()
        return Sighting(eyes.id_of(broker) in view.brokers, _unfenced(eyes, view))

    return Condition(text=f"{broker} is unfenced", look=look, nodes=(broker,))


def _unfenced(eyes: Eyes, view: ClusterView) -> str:
    return f"unfenced: {', '.join(sorted(map(eyes.name_of, view.brokers))) or 'nobody answers'}"


def gone(node: str) -> Condition:
    """Its process ended, whoever ended it."""

    async def look(eyes: Eyes) -> Sighting:
        state = await eyes.state(node)
        if isinstance(state, Gone):
            return Sighting(True, f"{node} is gone (code {state.code})")
        return Sighting(False, f"{node} is {'running' if isinstance(state, Running) else 'paused'}")

    return Condition(text=f"{node} is gone", look=look, nodes=(node,))


def answers(node: str) -> Condition:
    """It answers its own protocol, whatever it knows: a controller that can vote does."""

    async def look(eyes: Eyes) -> Sighting:
        answered = bool(await eyes.cluster.answers(node))
        return Sighting(answered, f"{node} {'answers' if answered else 'does not answer'}")

    return Condition(text=f"{node} answers", look=look, nodes=(node,))


def log_line(node: str, pattern: str, *, after: int = 0) -> Condition:
    """A line of its server log matches the regular expression. `after`: lines to leave out, from `await on.lines(node)`."""
    wanted = re.compile(pattern)

    async def look(eyes: Eyes) -> Sighting:
        lines = (await eyes.log(node))[after:]
        found = next((line for line in lines if wanted.search(line)), None)
        last = lines[-1][:200] if lines else "nothing"
        return Sighting(found is not None, found[:300] if found else f"{len(lines)} lines of {node}, the last: {last}")

    return Condition(text=f"{node} logs {pattern!r}", look=look, nodes=(node,))


def held(hold: Hold, count: int = 1) -> Condition:
    """At least `count` frames were caught."""

    async def look(eyes: Eyes) -> Sighting:
        return hold.sighting(count)

    what = hold.what if count == 1 else f"{count} times {hold.what}"
    return Condition(text=f"{what} is caught", look=look, nodes=hold.nodes)


def answered(hold: Hold) -> Condition:
    """The response to the first frame that was caught came; `hold.answer.error` says what it says."""

    async def look(eyes: Eyes) -> Sighting:
        return hold.answer_sighting()

    return Condition(text=f"{hold.what} is answered", look=look, nodes=hold.nodes)


def elapsed(seconds: float) -> Condition:
    """So long since this was written down. For a fault whose length is the point ("a partition of 4 s"), never for hoping."""
    clock = asyncio.get_running_loop().time
    began = clock()

    async def look(eyes: Eyes) -> Sighting:
        passed = clock() - began
        return Sighting(passed >= seconds, f"{passed:.1f} s have passed")

    return Condition(text=f"{seconds:g} s have passed", look=look)


def all_of(*conditions: Condition) -> Condition:
    return _joined(conditions, " and ", all)


def any_of(*conditions: Condition) -> Condition:
    return _joined(conditions, " or ", any)


def _joined(conditions: Sequence[Condition], word: str, rule: Callable[[Sequence[bool]], bool]) -> Condition:
    async def look(eyes: Eyes) -> Sighting:
        sightings = [await condition.look(eyes) for condition in conditions]
        said = "; ".join(dict.fromkeys(one.seen for one in sightings))
        message = next((one.message for one in sightings if one.message is not None), None)
        return Sighting(rule([one.met for one in sightings]), said, message)

    nodes = dict.fromkeys(node for condition in conditions for node in condition.nodes)
    return Condition(text=word.join(condition.text for condition in conditions), look=look, nodes=tuple(nodes))


def _words(value: object) -> str:
    if value is UNKNOWN:
        return "unknown"
    if isinstance(value, Set):
        return ", ".join(sorted(map(str, value))) or "empty"
    return "nobody" if value is None else str(value)
