"""Uniform agreement: no multicast is delivered to the application before every member of the view has
it (L11).

A multicast waits until it is stable, or until the flush that ends its view. Unicasts do not wait.
"""

from __future__ import annotations

from collections import deque

from sitestack.model.address import Address
from sitestack.model.events import Event, Settled, Stable, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.level import Level
from sitestack.stack.layer import Effect, Layer, Up


class Uniform(Layer):
    """Safe delivery, as Totem calls it (SEQ-24, L11). Only unstable frames wait, which flow control bounds."""

    name = "uniform"
    PASSES_LANES = True

    def __init__(self) -> None:
        self._stable: dict[Address, int] = {}
        #: Frames and events in order of arrival.
        self._waiting: deque[Event | Frame] = deque()
        self._level = Level(None)

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """Hold back unstable multicasts, and everything of the stream behind them."""
        if isinstance(event, Frame):
            if event.stream is None:
                return [Up(event)]
            return self._queue(event)
        if isinstance(event, Stable):
            self._stable = event.vector
            return self._release()
        if isinstance(event, Settled):
            waiting, self._waiting = self._waiting, deque()
            self._level.now = 0
            return [Up(each) for each in waiting]
        if isinstance(event, ViewInstalled):
            assert not self._waiting, "a view before what belongs to the last one"
            self._stable = {}
            return [Up(event)]
        return self._queue(event) if event.in_stream else [Up(event)]

    def _queue(self, event: Event | Frame) -> list[Effect]:
        self._waiting.append(event)
        self._level.add(1)
        return self._release()

    def _release(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._waiting and self._is_stable(self._waiting[0]):
            effects.append(Up(self._waiting.popleft()))
        self._level.now = len(self._waiting)
        return effects

    def _is_stable(self, event: Event | Frame) -> bool:
        if not isinstance(event, Frame) or event.stream is None:
            return True
        return event.seqno <= self._stable.get(event.stream, 0)

    def levels(self) -> dict[str, Level]:
        return {"waiting": self._level}
