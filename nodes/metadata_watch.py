"""Follows the metadata logs of a cluster's controllers at once: rows for a recorder, the latest state for whoever waits.

Every controller's copy is told for itself, since copies may differ (an old leader's uncommitted end, a disk that was replaced). The state
that counts is the copy with the highest epoch, and of those the longest. A row that was told once is not told again, unless the log was
cut and something else stands at its offset: the key is (node, offset, index, epoch).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from nodes.metadata import MetadataView
from nodes.metadata_row import MetadataRow

Follow = Callable[[], AsyncIterator[Sequence[MetadataRow]]]
Key = tuple[str, int, int, int]


def key(row: MetadataRow) -> Key:
    return row.node, row.offset, row.index, row.epoch


class MetadataWatch:
    def __init__(self, followers: Mapping[str, Follow], on_row: Callable[[MetadataRow], None]) -> None:
        self.told: set[Key] = set()
        self._followers = followers
        self._on_row = on_row
        self._views: dict[str, MetadataView] = {}
        self._anew: set[str] = set()  # nodes whose log is being told from its beginning
        self._news = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def started(self) -> bool:
        return bool(self._tasks)

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._listen(name, follow), name=f"follow the metadata log of {name}")
            for name, follow in self._followers.items()
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def problems(self) -> list[str]:
        """Why followers ended, if any did."""
        ended = [task for task in self._tasks if task.done() and not task.cancelled()]
        return [f"{task.get_name()}: {task.exception()}" for task in ended]

    @property
    def latest(self) -> MetadataView:
        """Empty while nothing was read."""
        return max(self._views.values(), key=lambda view: (view.epoch, view.offset), default=MetadataView())

    def of(self, node: str) -> MetadataView:
        """One controller's own copy."""
        return self._views.get(node, MetadataView())

    async def wait(self, met: Callable[[MetadataView], bool]) -> MetadataView:
        """Until the latest state fulfils a predicate. No deadline of its own; a follower that ended with an error raises it."""
        async with self._news:
            while True:
                for task in self._tasks:
                    if task.done():
                        task.result()
                if met(view := self.latest):
                    return view
                await self._news.wait()

    async def _listen(self, name: str, follow: Follow) -> None:
        try:
            async for rows in follow():
                await self._take(name, rows)
        finally:
            async with self._news:
                self._news.notify_all()

    async def _take(self, name: str, rows: Sequence[MetadataRow]) -> None:
        if not rows:
            self._anew.add(name)
            return
        known = self._views.get(name)
        view = (
            MetadataView() if known is None or name in self._anew else known.copy()
        )  # handed out ones stay as they are
        self._anew.discard(name)
        for row in rows:
            view.apply(row)
            if key(row) not in self.told:
                self.told.add(key(row))
                self._on_row(row)
        async with self._news:
            self._views[name] = view
            self._news.notify_all()
