"""The vocabulary of a race: every verb that a script may use, each one line of the story.

    async def my_race(on: Stage, records: int = 200) -> None:
        await on.kill("b2")                                          # nodes by name: c1, b1, b2, ..., clients w1, ...
        await on.until(isr("t", 0) == {"b1"})                        # conditions: nemesis/races/conditions.py, asked.py
        await on.produce("t", 0, records)                            # acknowledged, or the race is not reached
        late = await on.hold("AlterPartition", source="b1", where="newIsr contains 2")
        await on.start("b2")
        await on.until(held(late))
        await on.kill("b2")
        await on.until(fenced("b2"))
        await on.wipe("b2", keep_directory_id=True)
        await on.cut("b1", "b2")
        await on.start("b2")
        await on.until(unfenced("b2"))
        await on.release(late)
        await on.until(answered(late))                               # late.answer.error: "NONE", "INELIGIBLE_REPLICA", ...

Processes  start stop kill pause resume roll take_id    Disks  wipe lose_power write_back
Network    cut heal                                     Wire   hold drop duplicate delay rule release lift
Waits      until whether                                Clients  produce producer read ask_end raw
Cluster    elect topic delete_topic raise_metadata_version controllers      Besides  meanwhile say id_of

Rules of a script. It never sleeps: every wait is an `until` with a condition and a deadline; when that passes, the race is
*not reached*, the run says so with what was seen instead, and nothing is said about the system. `whether` is for what may
or may not happen: it returns a bool. It never judges: the checker does, from what the clients recorded. It need not tidy
up: after it everything is healed, started and resumed (but for `on.leave(name)`), leaders and full ISRs are awaited, and
everything is read. Every verb writes a step; verbs that break write a fault too, closed by the verb that mends it.

What is held stays held across the death of its sender, and TCP keeps order: see nemesis/wire/rule.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from nemesis.disks import DATA
from nemesis.power_loss import lose_unsynced
from nemesis.races.actors import Actors, Producer
from nemesis.races.books import FaultBook, NotReached, Now, StepBook
from nemesis.races.client import Client, Produced, Read
from nemesis.races.conditions import Condition, Sighting, active_controller
from nemesis.races.eyes import ClusterEyes
from nemesis.races.links import Links
from nemesis.races.raw import RawClient
from nemesis.races.wires import Wires
from nemesis.unsynced import write_back
from nemesis.wire.gate import Gate
from nodes.cluster import NotReached as NotSeen
from nodes.node import Gone, Paused, Running
from nodes.topology import Topic

WITHIN = 30.0  # seconds: the deadline of a wait that names none
LOOK_AGAIN = 0.1
T = TypeVar("T")


class Stage:
    """See the module's text. `cluster`, `gate` and `eyes` are there for what the vocabulary lacks; prefer the verbs."""

    def __init__(
        self,
        *,
        cluster: Any,  # nodes.cluster.Cluster, or as much of it as a race needs
        gate: Gate | None,
        steps: StepBook,
        faults: FaultBook,
        clients: Mapping[str, Client],
        raw: Callable[[str, str], Awaitable[RawClient]] | None = None,
        new_topic: Callable[[Topic], None] = lambda topic: None,
    ) -> None:
        self.cluster = cluster
        self.eyes = ClusterEyes(cluster)
        self._steps, self._faults = steps, faults
        self._links = Links(cluster, steps, faults)
        self._wires = Wires(gate, steps, faults)
        self._actors = Actors(steps, clients, raw)
        self._new_topic = new_topic
        self._staying: set[str] = set()
        self._impostors: set[str] = set()  # nodes that go by another one's id
        self._meanwhile: list[asyncio.Task[Any]] = []
        self.cut, self.heal = self._links.cut, self._links.heal
        self.hold, self.drop, self.duplicate = self._wires.hold, self._wires.drop, self._wires.duplicate
        self.delay, self.rule = self._wires.delay, self._wires.rule
        self.release, self.lift = self._wires.release, self._wires.lift

    # processes

    async def start(self, name: str, *, version: str | None = None) -> None:
        """Start a node that does not run; returns when its process runs, not when it is ready (see `unfenced`)."""
        text = f"start {name}" + (f" on {version}" if version else "")
        async with self._steps.step("start", text, (name,)):
            await self._start(name, version)

    async def _start(self, name: str, version: str | None = None) -> None:
        mends = self._faults.active("kill", "stop", "wipe", "power-loss", "take-id", target=name)
        for fault in mends:
            self._faults.healing(fault)
        await (self.cluster.start(name, version=version) if version else self.cluster.start(name))
        for fault in mends:
            self._faults.healed(fault, f"{name} was started again")

    async def kill(self, *names: str) -> None:
        """SIGKILL, all at once; returns when they are gone. Nothing that they wrote is lost."""
        async with self._steps.step("kill", f"kill -9 {' '.join(names)}", names) as now:
            fault = self._faults.open("kill", names, undo=[{"do": "start", "node": name} for name in names])
            await asyncio.gather(*(self.cluster.kill(name) for name in names))
            now.seen = await self._gone(names)
            self._faults.proved(fault, now.seen)

    async def stop(self, name: str, *, within: float = WITHIN) -> None:
        """SIGTERM: a broker hands its leaderships over first; returns when it is gone."""
        async with self._steps.step("stop", f"stop {name} (SIGTERM)", (name,)) as now:
            fault = self._faults.open("stop", (name,), undo=[{"do": "start", "node": name}])
            code = await self.cluster.stop(name, timeout=within)
            now.seen = f"{name} ended, exit code {code}"
            self._faults.proved(fault, now.seen)

    async def pause(self, *names: str) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""
        async with self._steps.step("pause", f"pause {' '.join(names)} (SIGSTOP)", names) as now:
            fault = self._faults.open("pause", names, undo=[{"do": "resume", "node": name} for name in names])
            await asyncio.gather(*(self.cluster.pause(name) for name in names))
            awake = [name for name in names if not isinstance(await self.eyes.state(name), Paused)]
            if awake:
                raise NotReached(f"{', '.join(names)} paused", f"{', '.join(awake)} not stopped")
            now.seen = f"{', '.join(names)} stopped"
            self._faults.proved(fault, now.seen)

    async def resume(self, *names: str) -> None:
        async with self._steps.step("resume", f"resume {' '.join(names)} (SIGCONT)", names):
            await self._resume(names)

    async def _resume(self, names: Sequence[str]) -> None:
        mends = [fault for name in names for fault in self._faults.active("pause", target=name)]
        await asyncio.gather(*(self.cluster.resume(name) for name in names))
        for fault in dict.fromkeys(mends):
            self._faults.healed(fault, f"{', '.join(names)} goes on")

    async def roll(self, name: str, version: str, *, within: float = 60.0) -> None:
        """Stop gracefully and start on another version, as an upgrade does; returns when it serves."""
        async with self._steps.step("roll", f"roll {name} to {version}", (name,)) as now:
            fault = self._faults.open("stop", (name,), undo=[{"do": "start", "node": name}])
            self._faults.proved(fault, f"exit code {await self.cluster.stop(name, timeout=within)}")
            await self._start(name, version)
            await self.cluster.ready([name], deadline=within)
            now.seen = f"{name} serves on {version}"

    async def take_id(self, name: str, other: str) -> None:
        """Of a node that does not run, make a second one with the id of `other`, on an empty disk, as a machine that was set up wrongly.

        `start` starts it; after the script it is itself again.
        """
        async with self._steps.step(
            "take-id", f"{name} gets the id of {other}, and an empty disk", (name, other)
        ) as now:
            fault = self._faults.open("take-id", (name,), undo=[], settings={"id_of": other})
            self._impostors.add(name)
            await self._seen_to_be(name, self.id_of(other))
            now.seen = f"both {name} and {other} are set up as {self.id_of(other)}"
            self._faults.proved(fault, now.seen)

    async def _seen_to_be(self, name: str, id: int) -> None:
        await self.cluster.reidentify(name, id)
        told = (await self.cluster.meta(name)).get("node.id")
        if told != str(id):
            raise NotReached(f"{name} is set up as {id}", f"its meta.properties say {told}")

    def leave(self, *names: str) -> None:
        """These stay as they are after the script: a dead node is not started again."""
        self._staying.update(names)

    async def _gone(self, names: Sequence[str]) -> str:
        alive = [name for name in names if not isinstance(await self.eyes.state(name), Gone)]
        if alive:
            raise NotReached(f"{', '.join(names)} killed", f"{', '.join(alive)} still there")
        return f"{', '.join(names)} gone"

    # disks

    async def wipe(self, name: str, *, keep_directory_id: bool = False) -> None:
        """Replace the disk of a node that does not run by an empty, formatted one; with its old directory id, or a new one."""
        which = "its old directory id" if keep_directory_id else "a new directory id"
        async with self._steps.step("wipe", f"replace the disk of {name} by an empty one with {which}", (name,)) as now:
            if not isinstance(await self.eyes.state(name), Gone):
                raise NotReached(f"{name} does not run", f"{name} runs; kill it before its disk is replaced")
            fault = self._faults.open(
                "wipe", (name,), undo=[{"do": "start", "node": name}], settings={"keep_directory_id": keep_directory_id}
            )
            node = self.cluster.nodes[name]
            lost = len(await node.list(DATA))
            await node.wipe(DATA)
            await self.cluster.reformat(name, keep_meta=False, keep_directory_id=keep_directory_id)
            now.seen = f"{lost} files are gone"
            self._faults.proved(fault, now.seen)

    async def lose_power(self, *names: str) -> None:
        """kill -9, all at once, and all that they had not synced is gone (nemesis/power_loss.py)."""
        async with self._steps.step("power-loss", f"{' '.join(names)} lose power", names) as now:
            fault = self._faults.open("power-loss", names, undo=[{"do": "start", "node": name} for name in names])
            await asyncio.gather(*(self.cluster.kill(name) for name in names))
            await self._gone(names)
            lost = await asyncio.gather(*(lose_unsynced(self.cluster, name, None) for name in names))
            now.seen = "; ".join(f"{name} lost {loss}" for name, loss in zip(names, lost, strict=True))
            self._faults.proved(fault, now.seen)

    async def write_back(self, *names: str) -> None:
        """What these have not synced of their metadata logs is synced, unasked, as a kernel does half a minute later."""
        async with self._steps.step("write-back", f"the kernel of {' '.join(names)} writes back", names) as now:
            files = await asyncio.gather(*(write_back(self.cluster.nodes[name]) for name in names))
            now.seen = f"{sum(files)} files were not synced"

    # waits

    async def until(self, condition: Condition, *, within: float = WITHIN) -> None:
        """Wait for a condition; when `within` seconds have passed, the race is not reached, with what was seen instead."""
        async with self._steps.step("until", f"until {condition.text}", condition.nodes) as now:
            sighting = await self._wait(condition, within, now)
            if not sighting.met:
                raise NotReached(f"{condition.text} (within {within:g} s)", self._with_deaths(sighting.seen))

    async def whether(self, condition: Condition, *, within: float) -> bool:
        """Does it come true within so many seconds? Either is fine for the story."""
        async with self._steps.step("whether", f"within {within:g} s: {condition.text}?", condition.nodes) as now:
            sighting = await self._wait(condition, within, now)
            now.seen = f"{'yes' if sighting.met else 'no'}: {sighting.seen}"
            return sighting.met

    async def _wait(self, condition: Condition, within: float, now: Now) -> Sighting:
        clock = asyncio.get_running_loop().time
        until = clock() + within
        while True:
            sighting = await condition.look(self.eyes)
            if sighting.met or clock() >= until:
                now.seen, now.message = sighting.seen, sighting.message
                return sighting
            await asyncio.sleep(LOOK_AGAIN)

    def _with_deaths(self, seen: str) -> str:
        return "; ".join([seen, *(f"{name} {how}" for name, how in self.cluster.deaths.items())])

    # the cluster

    async def controllers(self, *, within: float = WITHIN) -> tuple[str, ...]:
        """Names of all controllers, the active one first; waits until there is one."""
        names = tuple(plan.name for plan in self.cluster.topology.controllers)
        async with self._steps.step("look", "ask which controller is active", names) as now:
            sighting = await self._wait(active_controller().is_one_of(*names), within, now)
            active = (await self.eyes.view()).controller
            if not sighting.met or active is None:
                raise NotReached(f"an active controller (within {within:g} s)", self._with_deaths(sighting.seen))
            return (active, *(name for name in names if name != active))

    async def elect(self, topic: str, partition: int, *, preferred: bool = True) -> str | None:
        """Ask for a preferred (or unclean) leader election; the error's name, None when it was held."""
        which = "preferred" if preferred else "unclean"
        async with self._steps.step("elect", f"{which} leader election of {topic}-{partition}") as now:
            error: str | None = await self.cluster.elect(topic, partition, preferred=preferred)
            now.seen = error or "held"
            return error

    async def topic(self, topic: Topic, *, within: float = WITHIN, whole: bool = True) -> None:
        """Create a topic (nemesis.races.race.topic makes one); it belongs to the final read like the others.

        whole: wait until it is in sync everywhere; without, where brokers are away, until it is led.
        """
        async with self._steps.step("topic", f"create topic {topic.name}") as now:
            created = self.cluster.create_topic(topic, deadline=within, whole=whole)
            await self._seen(created, f"topic {topic.name} is there")
            now.seen = f"{topic.name} is led" + (" and in sync everywhere" if whole else "")
            self._new_topic(topic)

    async def delete_topic(self, name: str, *, within: float = WITHIN) -> None:
        """Delete a topic, for good or to be made anew. What was acknowledged in it counts as lost, so write to it only afterwards."""
        async with self._steps.step("delete", f"delete topic {name}") as now:
            await self._seen(self.cluster.delete_topic(name, deadline=within), f"topic {name} is gone")
            now.seen = f"no broker that answers has {name}"

    async def raise_metadata_version(self, version: str) -> None:
        async with self._steps.step("upgrade", f"raise metadata.version to {version}"):
            await self._seen(self.cluster.raise_metadata_version(version), f"metadata.version {version}")

    async def _seen(self, work: Awaitable[T], what: str) -> T:
        try:
            return await work
        except NotSeen as missed:
            raise NotReached(what, str(missed)) from None

    # clients

    async def produce(self, topic: str, partition: int, count: int, *, within: float = WITHIN, **how: Any) -> Produced:
        """Send `count` records from the first client (acks=all, idempotent) and wait until all are acknowledged.

        `how`: see nemesis/races/actors.py, Producer.send; `need="any"` takes what comes.
        """
        return await (await self._actors.usual()).send(topic, partition, count, within=within, **how)

    async def producer(self, name: str, **how: Any) -> Producer:
        """A producer of its own, connected: nemesis/races/actors.py."""
        return await self._actors.producer(name, **how)

    async def read(self, topic: str, partition: int, **how: Any) -> Read:
        """Read a partition from start to end now, as a consumer: nemesis/races/actors.py."""
        return await self._actors.read(topic, partition, **how)

    async def ask_end(self, topic: str, partition: int, **how: Any) -> int | None:
        """Where a consumer is told that a partition ends now: nemesis/races/actors.py."""
        return await self._actors.ask_end(topic, partition, **how)

    async def raw(self, name: str, *, client: str = "w1") -> RawClient:
        """A client that speaks the protocol itself: what no library sends (nemesis/races/raw.py)."""
        return await self._actors.raw(name, client)

    # besides

    def meanwhile(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a verb and go on with the script; await the task for its result. What is never awaited is cancelled at the end."""
        task = asyncio.create_task(work)
        self._meanwhile.append(task)
        return task

    async def say(self, text: str, *nodes: str) -> None:
        """A line of the story that is no deed, such as what an answer means."""
        async with self._steps.step("say", text, nodes):
            pass

    async def lines(self, node: str) -> int:
        """How many lines its server log has now, for `log_line(node, ..., after=...)`."""
        return len(await self.eyes.log(node))

    def id_of(self, name: str) -> int:
        """Kafka's node id of a node."""
        return self.eyes.id_of(name)

    def name_of(self, id: int) -> str:
        return self.eyes.name_of(id)

    # the end

    async def prepare(self) -> None:
        """Before the script: producers connected, with ids, so that a send is a send."""
        await self._actors.warm_up()

    async def restore(self) -> list[str]:
        """After the script, whatever became of it: release, heal, resume and start everything. What could not be restored, in sentences."""
        for task in self._meanwhile:
            task.cancel()
        await asyncio.gather(*self._meanwhile, return_exceptions=True)
        left: list[str] = []
        for mend in (self._wires.lift_all, self._links.heal_all, self._revive):
            try:
                await mend()
            except Exception as error:  # noqa: BLE001 - what cannot be mended is told, and the rest is mended
                left.append(f"{mend.__name__.strip('_')}: {error}")
        await self.eyes.close()
        return left

    async def _revive(self) -> None:
        for name in sorted(self._impostors):
            async with self._steps.step("take-id", f"the script is over: {name} is itself again", (name,)):
                await self.cluster.kill(name)
                await self._seen_to_be(name, self.id_of(name))
        for name in self.cluster.nodes:
            if name in self._staying:
                continue
            state = await self.eyes.state(name)
            if isinstance(state, Paused):
                async with self._steps.step("resume", f"the script is over: resume {name}", (name,)):
                    await self._resume((name,))
            elif not isinstance(state, Running):
                async with self._steps.step("start", f"the script is over: start {name}", (name,)):
                    await self._start(name)
