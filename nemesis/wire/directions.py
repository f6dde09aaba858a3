"""What requests and responses do differently on their way through the gate (`stream.py`).

Requests are remembered until they are answered, and tell a response what it is; where one was dropped, a gap is remembered in its
place, and nothing behind it is answered. A response may be for nobody: the second answer to a duplicated request, or one behind a gap.
"""

from __future__ import annotations

from typing import Final

from nemesis.wire.frame import Frame, request_head, response_head
from nemesis.wire.message import Action, Direction
from nemesis.wire.stream import Stream

_UNANSWERED: Final = (
    1 << 16
)  # requests remembered per connection; those without a response (acks=0) are forgotten in the end


class Requests(Stream):
    direction = Direction.REQUEST

    def _head(self, data: bytes, at: int) -> Frame | None:
        head = request_head(data, at)
        if head is None:
            return None
        length, api, version, correlation, client_id = head
        frame = Frame(self.connection, api, version, correlation, client_id)
        frame.size = length
        return frame

    def _sent_soon(self, frame: Frame) -> None:
        unanswered = self.connection.unanswered
        unanswered.append(frame)
        if frame.action is Action.DUPLICATED:
            again = Frame(self.connection, frame.api, frame.version, frame.correlation, frame.client_id)
            again.message, again.rule, again.swallow = frame.message, frame.rule, True
            unanswered.append(again)
        while len(unanswered) > _UNANSWERED:
            unanswered.popleft()

    def _lost(self, frame: Frame) -> None:
        if frame.action is Action.CLOSED:
            self.connection.abort()
        else:
            self.connection.unanswered.append(None)
            self.connection.gap_of = frame.rule


class Responses(Stream):
    direction = Direction.RESPONSE

    def _head(self, data: bytes, at: int) -> Frame | None:
        head = response_head(data, at)
        if head is None:
            return None
        length, correlation = head
        request = self.connection.answered(correlation)
        frame = Frame(self.connection, request.api, request.version, correlation, request.client_id)
        frame.request = request
        frame.size = length
        return frame

    def _is_awaited(self, frame: Frame) -> bool:
        return self._is_for_nobody(frame) or bool(frame.request and frame.request.observers)

    def _is_for_nobody(self, frame: Frame) -> bool:
        return self.connection.silent or bool(frame.request and frame.request.swallow)

    def _answered(self, frame: Frame) -> None:
        if frame.request is not None and frame.request.observers:
            self.engine.answered(frame.request, frame)

    def _lost(self, frame: Frame) -> None:
        if not self._is_for_nobody(frame):
            self.connection.abort()
