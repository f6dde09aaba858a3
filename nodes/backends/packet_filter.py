"""The network of a run by packet filters: each node's iptables, wherever its commands run.

Nothing is remembered about what is installed: every verb first reads it back from the nodes, so that a cut made by a
process that died, or a rule that somebody else removed, is seen as it is.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Multiset
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from nodes.backends import iptables, nat
from nodes.network import Counter, Cut
from nodes.node import Completed, NodeError

Execute = Callable[
    [str, tuple[str, ...], bytes], Awaitable[Completed]
]  # node, argv, stdin; in the node's network, as root there
Reaches = Callable[[str, str], Awaitable[bool]]
Namespace = Callable[[str], int]  # a node's network namespace, as an open descriptor of this process


class PacketFilter:
    """Implements `nodes.network.Network`. `addresses` (node name -> IPv4) grows as nodes are added."""

    def __init__(self, run: str, *, execute: Execute, reaches: Reaches, namespace: Namespace | None = None) -> None:
        """Without `namespace` (nodes of another machine) connections cannot be intercepted."""
        self.addresses: dict[str, str] = {}
        self._run = run
        self._execute = execute
        self._reaches = reaches
        self._namespace = namespace
        self._one_at_a_time = asyncio.Lock()

    async def cut(self, cuts: Sequence[Cut]) -> None:
        """Install, all or none. NodeError for an id that is active at its node, an unknown node, or when iptables
        fails."""
        twice = [f"{id} at {at}" for (at, id), n in Multiset((cut.at, cut.id) for cut in cuts).items() if n > 1]
        if twice:
            raise NodeError(f"the same cut twice: {', '.join(twice)}")
        self._refuse_bad(cuts)
        async with self._one_at_a_time:
            places = list(dict.fromkeys(cut.at for cut in cuts))
            found = await self._installed(places)
            active = [f"{cut.id} at {cut.at}" for cut in cuts if cut.id in found[cut.at].ids]
            if active:
                raise NodeError(f"cut {', '.join(active)} is active already; heal it first or choose another id")
            inputs = await asyncio.gather(*(self._input(at, cuts, found[at]) for at in places))
            results = await asyncio.gather(*map(self._restore, places, inputs), return_exceptions=True)
            failures = [result for result in results if result is not None]
            if failures:
                done = [at for at, result in zip(places, results, strict=True) if result is None]
                await self._remove(done, {cut.id for cut in cuts})
                raise failures[0]

    async def heal(self, ids: Sequence[str] | None = None) -> None:
        async with self._one_at_a_time:
            await self._remove(list(self.addresses), None if ids is None else set(ids))

    async def counters(self) -> list[Counter]:
        names = {address: name for name, address in self.addresses.items()}
        sums: Multiset[tuple[str, str, str]] = Multiset()
        for at, installed in (await self._installed(list(self.addresses))).items():
            for rule in installed.rules:
                sums[rule.cut, at, names.get(rule.source, rule.source)] += rule.packets
        return [Counter(id=id, at=at, source=source, packets=n) for (id, at, source), n in sums.items()]

    async def reaches(self, source: str, destination: str) -> bool:
        self._must_know(source, destination)
        return await self._reaches(source, destination)

    async def intercept(self, at: str, to: Mapping[str, Sequence[int]], *, port: int, mark: int) -> None:
        self._must_know(at, *to)
        self.namespace(at)
        bodies = nat.rules_for({self.addresses[name]: ports for name, ports in to.items()}, port=port, mark=mark)
        async with self._one_at_a_time:
            saved = await self._output(at, nat.SAVE)
            await self._restore(at, nat.installation(self._run, bodies, saved))

    def namespace(self, of: str) -> int:
        self._must_know(of)
        if self._namespace is None:
            raise NodeError(f"connections of {of} cannot be led through the wire gate: it runs on another machine")
        return self._namespace(of)

    def _must_know(self, *names: str) -> None:
        for name in names:
            if name not in self.addresses:
                raise NodeError(f"no node {name}; there are {', '.join(sorted(self.addresses))}")

    def _refuse_bad(self, cuts: Iterable[Cut]) -> None:
        try:
            for cut in cuts:
                iptables.rules_for(cut, self.addresses)
        except ValueError as error:
            raise NodeError(str(error)) from None

    async def _input(self, at: str, cuts: Sequence[Cut], installed: iptables.Installed) -> bytes:
        here = [cut for cut in cuts if cut.at == at]
        connections: list[iptables.Connection] = []
        if any(cut.established_only for cut in here):
            connections = iptables.parse_sockets(await self._output(at, iptables.SOCKETS))
        bodies = [body for cut in here for body in iptables.rules_for(cut, self.addresses, connections)]
        return iptables.installation(self._run, bodies, installed)

    async def _remove(self, places: Sequence[str], ids: set[str] | None) -> None:
        """Remove cuts (None: everything of this run) and see that they are gone."""
        found = await self._installed(places)
        changes = {
            at: iptables.uninstallation(self._run, installed)
            if ids is None
            else iptables.removal(self._run, ids, installed)
            for at, installed in found.items()
        }
        changed = [at for at in places if changes[at]]
        await asyncio.gather(*(self._restore(at, changes[at]) for at in changed))
        for at, installed in (await self._installed(changed)).items():
            left = installed.ids if ids is None else installed.ids & ids
            if left:
                raise NodeError(f"{at}: cuts {', '.join(sorted(left))} are still there after iptables removed them")

    async def _installed(self, places: Sequence[str]) -> dict[str, iptables.Installed]:
        outputs = await asyncio.gather(*(self._output(at, iptables.SAVE) for at in places))
        return {at: iptables.parse_saved(output, self._run) for at, output in zip(places, outputs, strict=True)}

    async def _restore(self, at: str, stdin: bytes) -> None:
        await self._output(at, iptables.RESTORE, stdin)

    async def _output(self, at: str, argv: tuple[str, ...], stdin: bytes = b"") -> bytes:
        result = await self._execute(at, argv, stdin)
        if result.code != 0:
            said = result.stderr.decode(errors="replace").strip()
            raise NodeError(f"{at}: {' '.join(argv)} failed with code {result.code}: {said}\n{stdin.decode()}".strip())
        return result.stdout
