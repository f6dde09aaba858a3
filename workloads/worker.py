"""The threads of one client process: start them, report what they have done, and let none fail unseen.

A thread per Kafka client is enough, since librdkafka does its network work in threads of its own, without Python's
lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

REPORT_EVERY_S = 0.5


@dataclass(kw_only=True, slots=True)
class Counts:
    """What one actor has done so far. Written by its thread only, read by any."""

    attempted: int = 0
    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    read: int = 0


class Actor(Protocol):
    client: str
    counts: Counts

    def run(self) -> None:
        """Work until told to stop."""
        ...


def run_actors(actors: Sequence[Actor], stop: threading.Event, progress: Callable[[Mapping[str, int]], None]) -> None:
    """Run every actor in a thread of its own until all have returned. The first that raises sets `stop`, and its
    exception comes out of here."""
    failures: list[BaseException] = []
    done = threading.Semaphore(0)

    def guarded(actor: Actor) -> None:
        try:
            actor.run()
        except BaseException as failure:  # noqa: BLE001 - handed to the caller's thread, whatever it is
            failures.append(failure)
            stop.set()
        finally:
            done.release()

    threads = [threading.Thread(target=guarded, args=(actor,), name=actor.client, daemon=True) for actor in actors]
    for thread in threads:
        thread.start()
    remaining = len(threads)
    while remaining:
        if done.acquire(timeout=REPORT_EVERY_S):
            remaining -= 1
        else:
            progress(total(actors))
    progress(total(actors))
    if failures:
        raise failures[0]


def total(actors: Sequence[Actor]) -> dict[str, int]:
    return {field.name: sum(getattr(actor.counts, field.name) for actor in actors) for field in fields(Counts)}
