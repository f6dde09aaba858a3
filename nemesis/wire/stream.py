"""One direction of one connection through the gate: bytes in, frames cut, matched, perhaps held, bytes out.

The usual frame costs little: a chunk of whole frames that no rule concerns is written on as it came, and each of its frames becomes a row.
A frame longer than its chunk is passed on piece by piece when nobody has to look into it, and collected when somebody has.

As soon as one frame has to wait (held, delayed), all behind it wait in `waiting`: TCP keeps order. Then nothing more is read from the
source once BOUND bytes wait, so that the sender's own buffers fill up, as with a slow peer. The same when the sink's buffer is full.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Literal

from nemesis.wire import apis
from nemesis.wire.frame import Frame, Unparsable
from nemesis.wire.message import Action, Direction
from nemesis.wire.rule import Close, Delay, Drop, Duplicate, Hold, Rewrite, Watch
from nemesis.wire.rulebook import InForce, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nemesis.wire.connection import Connection

BOUND: Final = 1 << 20  # bytes that may wait before the source is no longer read
_UNANSWERED: Final = (
    1 << 16
)  # requests remembered per connection; those without a response (acks=0) are forgotten in the end
_LENGTH: Final = 4


class Waiting:
    """Bytes that go on when their turn comes: `held` until released, not before `due` (loop time)."""

    __slots__ = ("close_after", "data", "due", "frame", "held", "rule", "stream")

    def __init__(self, stream: Stream, data: bytes, frame: Frame | None, rule: InForce | None = None) -> None:
        self.stream = stream
        self.data = data
        self.frame = frame
        self.rule = rule
        self.held = False
        self.due = 0.0
        self.close_after = False

    def is_usual(self, raw: bytes) -> bool:
        """Nothing is done to these bytes."""
        return self.data is raw and not (self.held or self.due or self.close_after)


class Stream:
    """`source` is read from, `sink` written to; either is None once it is gone, or not there yet: then everything waits behind `door`."""

    direction: Direction

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.engine = connection.engine
        self.source: asyncio.Transport | None = None
        self.sink: asyncio.Transport | None = None
        self.door = Waiting(self, b"", None)
        self.waiting: deque[Waiting] = deque()
        self.waiting_bytes = 0
        self.sink_full = False
        self.ended = False  # the source will send nothing more
        self.was_held = False  # since something was held here, the end of the source takes its time
        self._reading = True  # transports read from the start
        self._parts: list[bytes] = []  # of a frame that is not whole
        self._have = 0
        self._need = 0
        self._current: Frame | None = None  # its head is known, its end has not come
        self._skip = 0  # bytes of it that go on as they come
        self._timer: asyncio.TimerHandle | None = None
        self._candidates: dict[int, Sequence[InForce]] = {}  # per api, of the rulebook's epoch
        self._epoch = -1

    def shut(self) -> None:
        """There is no sink yet."""
        self.door.held = True
        self.waiting.append(self.door)

    def opened(self, sink: asyncio.Transport) -> None:
        self.sink = sink
        self.door.held = False
        self.pump()

    # bytes in

    def feed(self, data: bytes) -> None:
        if self.connection.opaque:
            self._pass_on(data)
            return
        if self._have:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._parts)
            self._parts.clear()
            self._have = 0
        self._cut(data, monotonic_ns())

    def end(self) -> None:
        """The source sends nothing more; what it sent still goes on, when its turn comes."""
        if self.ended:
            return
        self.ended = True
        self.flush()
        self.pump()

    def flush(self) -> None:
        """Whatever it is, it goes on: the connection has become opaque."""
        parts, self._have = b"".join(self._parts), 0
        self._parts.clear()
        self._pass_on(parts)

    def _cut(self, data: bytes, now: int) -> None:
        size, start, at = len(data), 0, 0
        if self._skip:
            at = min(self._skip, size)
            self._skip -= at
            if self._skip == 0:
                assert self._current is not None
                self._arrived(self._current, now)
                self._gone_on(self._current, now)
                self._current = None
        while at < size:
            frame = self._current
            if frame is None:
                try:
                    frame = self._head(data, at)
                except Unparsable as why:
                    self.connection.give_up(self, str(why), size - at, now)
                    self._pass_on(data[start:] if start else data)
                    return
            if frame is None:
                self._need = 0
                break
            end = at + _LENGTH + frame.size
            usual = self._is_usual(frame)
            if end > size:
                self._current = frame
                self._need = end - at
                if usual:
                    self._skip, at = end - size, size
                break
            self._current = None
            self._arrived(frame, now)
            fate = "goes on" if usual else self._stays(frame, data[at:end], now)
            if fate == "goes on":
                self._gone_on(frame, now)
            else:
                if start < at:
                    self._write(data[start:at])
                start = end
                self._settle(frame, fate)
            at = end
        if start < at:
            self._write(data if start == 0 and at == size else data[start:at])
        if at < size:
            self._parts.append(data[at:] if at else data)
            self._have = size - at

    def _candidates_for(self, frame: Frame) -> Sequence[InForce]:
        rulebook = self.engine.rulebook
        if not rulebook.rules:
            return ()
        if self._epoch != rulebook.epoch:
            self._candidates.clear()
            self._epoch = rulebook.epoch
        found = self._candidates.get(frame.api)
        if found is None:
            link = self.connection
            found = rulebook.candidates(link.source, link.destination, self.direction, frame.api)
            self._candidates[frame.api] = found
        return found

    def _is_usual(self, frame: Frame) -> bool:
        """Goes on as it came: nothing waits, no rule may concern it, nobody wants to know what it says."""
        return (
            not self.waiting
            and frame.api not in apis.CONTROL_PLANE
            and not self._candidates_for(frame)
            and not self._is_awaited(frame)
        )

    def _stays(self, frame: Frame, raw: bytes, now: int) -> Waiting | Literal["goes on"] | None:
        """What becomes of a frame that is not usual: it goes on with its chunk, waits its turn, or (None) is lost."""
        candidates = self._candidates_for(frame)
        curious = any(one.question is not None or isinstance(one.rule.act, Watch) for one in candidates)
        if curious or frame.api in apis.CONTROL_PLANE or self._is_awaited(frame):
            self._decode(frame, raw)
        if self._is_for_nobody(frame):
            frame.action = Action.DROPPED
            self._answered(frame)
            return None
        decider, matched = decide(candidates, frame)
        frame.observers = tuple(one for one in matched if self.engine.may_tell(one))
        if frame.observers:
            self._decode(frame, raw)
        fate: Waiting | Literal["goes on"] | None = self._fate(frame, decider, raw)
        if isinstance(fate, Waiting) and fate.is_usual(raw) and not self.waiting:
            fate, frame.out_ns = "goes on", self._written_at(now)
        self.engine.matched(frame, matched)
        self._answered(frame)
        return fate

    def _fate(self, frame: Frame, decider: InForce | None, raw: bytes) -> Waiting | None:
        """What the rule that decides makes of a frame. None: it is lost."""
        fate = Waiting(self, raw, frame, decider)
        if decider is None:
            return fate
        act = decider.rule.act
        match act:
            case Hold() if act.first is None or decider.matched <= act.first:
                fate.held = self.was_held = True
                decider.holding.append(fate)
                frame.action = Action.HELD
            case Delay():
                fate.due = self.engine.loop.time() + decider.delay_s()
                decider.delayed += 1
                frame.action = Action.DELAYED
            case Duplicate():
                fate.data = raw * 2
                decider.duplicated += 1
                frame.action = Action.DUPLICATED
            case Rewrite() if (
                changed := apis.with_error(frame.api, frame.version, raw[_LENGTH:], act.error)
            ) is not None:
                fate.data = len(changed).to_bytes(_LENGTH, "big") + changed
                decider.rewritten += 1
                frame.action = Action.REWRITTEN
            case Close() if decider.strikes():
                decider.closed += 1
                frame.action = Action.CLOSED
                fate.close_after = act.when == "after"
            case Drop():
                decider.dropped += 1
                frame.action = Action.DROPPED
            case _:
                return fate
        frame.rule = decider.rule.id
        lost = isinstance(act, Drop) or (isinstance(act, Close) and act.when == "before")
        return None if lost else fate

    def _decode(self, frame: Frame, raw: bytes) -> None:
        if frame.decoded is None:
            frame.decoded = apis.decode(frame.api, frame.version, self.direction, raw[_LENGTH:])

    def _arrived(self, frame: Frame, now: int) -> None:
        frame.in_ns = now
        frame.message = self.engine.number()

    def _settle(self, frame: Frame, fate: Waiting | None) -> None:
        """It waits its turn, or is lost."""
        if fate is None:
            self.engine.record(frame)
            self._lost(frame)
        else:
            self._sent_soon(frame)
            self.waiting.append(fate)
            self.waiting_bytes += len(fate.data)
            self.pump()

    def _written_at(self, now: int) -> int | None:
        return now if self.sink is not None else None

    def _gone_on(self, frame: Frame, now: int) -> None:
        frame.out_ns = self._written_at(now)
        self._sent_soon(frame)
        self.engine.record(frame)

    # bytes out

    def pump(self) -> None:
        """Write what waits and need not wait longer."""
        queue = self.waiting
        while queue:
            first = queue[0]
            if first.held:
                break
            if first.due and (delay := first.due - self.engine.loop.time()) > 0:
                self._wake_in(delay)
                break
            queue.popleft()
            self.waiting_bytes -= len(first.data)
            self._emit(first)
        self.regulate()
        if self.ended and not queue:
            self.connection.drained(self)

    def _wake_in(self, delay: float) -> None:
        if self._timer is None:

            def wake() -> None:
                self._timer = None
                self.pump()

            self._timer = self.engine.loop.call_later(delay, wake)

    def _emit(self, waiting: Waiting) -> None:
        frame = waiting.frame
        if frame is not None:
            if self.sink is not None:
                frame.out_ns = monotonic_ns()
            self.engine.record(frame)
            self.engine.went_out(frame)
        self._write(waiting.data)
        if waiting.close_after:
            self.connection.close_after_writing()

    def _pass_on(self, data: bytes) -> None:
        if not data:
            return
        if self.waiting:
            self.waiting.append(Waiting(self, data, None))
            self.waiting_bytes += len(data)
            self.regulate()
        else:
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self.sink is not None and data:
            self.sink.write(data)

    def regulate(self) -> None:
        """Read from the source, or stop reading."""
        want = not self.sink_full and self.waiting_bytes < BOUND
        if want != self._reading and self.source is not None and not self.source.is_closing():
            self._reading = want
            if want:
                self.source.resume_reading()
            else:
                self.source.pause_reading()

    def lose_everything(self) -> None:
        """The sink is gone for good: what waits never goes out."""
        for waiting in self.waiting:
            if waiting.held and waiting.rule is not None:
                waiting.rule.holding.remove(waiting)
            if waiting.frame is not None:
                self.engine.record(waiting.frame)
                self.engine.went_out(waiting.frame)
        self.waiting.clear()
        self.waiting_bytes = 0
        if self._timer is not None:
            self._timer.cancel()

    # what requests and responses do differently

    def _head(self, data: bytes, at: int) -> Frame | None:
        raise NotImplementedError

    def _sent_soon(self, frame: Frame) -> None:
        """It is on its way, or waits for it."""

    def _is_awaited(self, frame: Frame) -> bool:
        """Somebody waits for it, or nobody at all is to get it: it must be looked at."""
        return False

    def _is_for_nobody(self, frame: Frame) -> bool:
        return False

    def _answered(self, frame: Frame) -> None:
        """Tell those who wait for it."""

    def _lost(self, frame: Frame) -> None:
        """It does not go on: what that means for the connection."""
        raise NotImplementedError
