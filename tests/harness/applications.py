"""Applications with a state, on simulated processes: the inbox and the hand-over of a channel, and a task that takes."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from relay.site_state.config import SiteStateConfig, SiteStateSettings
from sitestack.channel.receiving.inbox import Delivery, Inbox, StateMark
from sitestack.channel.receiving.state_handover import SharedState, StateEvent, StateHandover
from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.layers.state_transfer import StateTransfer, StateTransferConfig
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from sitestack.model.state_events import Baseline
from sitestack.model.view import View
from tests.harness.linked_sites import Sites
from tests.harness.stories import layer
from tests.harness.transcript import texts

EVENTS = get_args(StateEvent)
#: Pieces of a few bytes, so that a state takes many.
SMALL = StateTransferConfig(chunk_bytes_max=128, ask_interval_s=0.5)


class Heard(list[Event | Frame]):
    """Events and frames of a process, passed to its application."""

    def __init__(self, application: Application) -> None:
        super().__init__()
        self._application = application

    def append(self, event: Event | Frame) -> None:
        super().append(event)
        self._application.hear(event)


class Application:
    """Its state: the messages of each origin, in order. A duplicate or a message out of order fails at once."""

    def __init__(self, script: Sites, name: str) -> None:
        self.lines: dict[str, list[str]] = defaultdict(list)
        self.last: dict[str, int] = defaultdict(int)
        self.gaps: list[Gap] = []
        #: How many messages it was shown, and how many states it was given and has given.
        self.shown = self.taken = self.gave = 0
        #: Whether it takes nothing for now.
        self.busy = False
        self._due = False
        self._script = script
        self._process = script[name]
        self._inbox: Inbox[Any] = Inbox()
        self.handover = StateHandover(SharedState(self._get, self._set), self._inbox, MessageKeys(), self.gaps.append, 1 << 26)
        self._process.events = Heard(self)
        layer(script, name, StateTransfer)._takes_part = True

    @property
    def waits(self) -> bool:
        """Whether it has no state yet."""
        return self.handover.withheld

    def _get(self) -> bytes:
        self.gave += 1
        return json.dumps([self.lines, self.last]).encode()

    def _set(self, data: bytes) -> None:
        self.taken += 1
        lines, last = json.loads(data)
        self.lines, self.last = defaultdict(list, lines), defaultdict(int, last)

    def hear(self, event: Event | Frame) -> None:
        """Put an event of the stack into the inbox, as a channel does."""
        if isinstance(event, Frame):
            if event.batch is not None:
                self._inbox.put(Delivery(event.source, event.batch))
        elif isinstance(event, ViewInstalled):
            self.handover.mark(event.view.id)
            self._inbox.put(event.view)
        elif isinstance(event, EVENTS):
            self.handover.handle(event)
        if isinstance(event, Gap | Baseline):
            self._inbox.put(event)
        if not self._due:  # the turn comes to its end first
            self._due = True
            self._script.world.schedule.after(0.0, self.take)

    def take(self) -> None:
        """Take all there is."""
        self._due = False
        if not self._process.alive:
            return
        while self._inbox and not self.handover.withheld and not self.busy:
            item = self._inbox.pop_oldest()
            if isinstance(item, StateMark):
                self.handover.reach(item, self._tell)
            elif isinstance(item, Gap):
                self.gaps.append(item)
                key = f"{item.site} {bytes(item.origin).hex()}"
                assert item.last > self.last[key]
                self.last[key] = item.last
            elif isinstance(item, Baseline):
                for origin, last in item.origins.items() if item.scope is Scope.ALL else ():
                    key = f"{item.site} {bytes(origin).hex()}"
                    self.last[key] = max(self.last[key], last)
            elif not isinstance(item, View) and item.batch.scope is Scope.ALL:
                self._apply(item)

    def _apply(self, item: Delivery) -> None:
        batch, key = item.batch, f"{item.batch.site} {bytes(item.batch.origin).hex()}"
        assert batch.first == self.last[key] + 1, f"{texts(batch)} after {self.last[key]}"
        self.last[key] = batch.last
        self.lines[key] += texts(batch)
        self.shown += batch.count

    def _tell(self, event: Event) -> None:
        self._script.world.schedule.after(0.0, partial(self._process.input, event))

    def has(self, *words: str) -> bool:
        """Whether these are in its state."""
        return set(words) <= {word for lines in self.lines.values() for word in lines}


def fetching(script: Sites, site: str, *sources: str, give_up_s: float = 30.0, window_pieces: int = 2) -> None:
    """Let processes of this site that start from now on fetch the state of these other sites; all have small pieces."""
    for each, (config, relay) in script.configs.items():
        settings = SiteStateSettings(sources if each == site else relay.site_state.settings.sites, give_up_s, window_pieces)
        state = SiteStateConfig(settings, SMALL, SMALL.chunk_bytes_max)
        script.configs[each] = (config, replace(relay, site_state=state))
