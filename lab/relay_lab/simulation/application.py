"""An application whose state is the list of its deliveries, and the invariant of such states (M7)."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from relay_lab.sim.process import Process
from sitestack.channel.receiving.inbox import Delivery, Inbox, StateMark
from sitestack.channel.receiving.state_handover import SharedState, StateEvent, StateHandover
from sitestack.channel.sending.message_keys import MessageKeys
from sitestack.layers.state_transfer import StateTransferConfig
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from sitestack.model.view import View

#: A multicast: its site, the UUID of its origin, its scope and its number.
Item = tuple[str, str, int, int]
#: Seconds for which an application may read nothing; it reads at once in most cases.
BUSY_S_MAX = 0.3


class Application:
    """What the channel of a member does with events, and the application that reads them."""

    def __init__(self, process: Process, scopes: Collection[Scope]) -> None:
        """`scopes`: those of the messages in its state; a state for other sites has none of scope SITE."""
        self._process = process
        self._scopes = scopes
        self._rng = random.Random(f"application {process.local.address.hex()}")
        self._inbox: Inbox[Event | View | StateMark] = Inbox()
        shared, bytes_max = SharedState(self._get, self._set), StateTransferConfig().state_bytes_max
        self._handover = StateHandover(shared, self._inbox, MessageKeys(), lambda gap: None, bytes_max)
        self._reads = False
        #: When (s) the state began, at the first of the members that handed it on.
        self.begun = process.schedule.now
        self.items: list[Item] = []
        #: The gaps that came with the state or after it.
        self.gaps: list[Gap] = []

    @property
    def waits(self) -> bool:
        """Whether it still waits for the state of another member, or has events in its inbox."""
        return self._handover.withheld or bool(self._inbox)

    def follow(self, events: Sequence[Event | Frame]) -> None:
        """Put the events of a turn into the inbox, in their order."""
        for event in events:
            if isinstance(event, Frame):
                if event.batch is not None and event.batch.target is None:
                    self._inbox.put(Delivery(event.source, event.batch))
            elif isinstance(event, ViewInstalled):
                self._handover.mark(event.view.id)
                self._inbox.put(event.view)
            elif isinstance(event, StateEvent):
                self._handover.handle(event)
            elif isinstance(event, Gap):
                self._inbox.put(event)
        if not self._reads:
            self._reads = True
            self._process.schedule.after(self._rng.choice((0.0,) * 9 + (BUSY_S_MAX * self._rng.random(),)), self._read)

    def _read(self) -> None:
        self._reads = False
        if self._process.is_paused:
            self._process.schedule.after(BUSY_S_MAX, self._read)
            self._reads = True
        while self._process.alive and not self._reads and self._inbox and not self._handover.withheld:
            item = self._inbox.pop_oldest()
            if isinstance(item, StateMark):
                self._handover.reach(item, self._process.input)
            elif isinstance(item, Gap):
                self._handover.pass_gap(item)
                self.gaps.append(item)
            elif isinstance(item, Delivery):
                batch = item.batch
                if batch.scope not in self._scopes:
                    continue
                name = batch.site, batch.origin.hex(), int(batch.scope)
                self.items += [(*name, number) for number in range(batch.first, batch.last + 1)]

    def _get(self) -> bytes:
        return json.dumps([self.begun, self.items]).encode()

    def _set(self, data: bytes) -> None:
        self.begun, items = json.loads(data)
        self.items = [(site, origin, scope, number) for site, origin, scope, number in items]
        self.gaps.clear()


def find_violations(
    members: Sequence[tuple[Process, Application]], parted: Mapping[str, int], is_total: bool, load_began: float
) -> Iterator[str]:
    """Report states at rest that have a message twice, lack one without a gap, or differ in its order."""
    living = [(process, application) for process, application in members if process.alive and not application.waits]
    for process, application in living:
        label = f"{process.local.site}/{process.local.name}"
        if twice := [item for item, times in Counter(application.items).items() if times > 1]:
            yield f"{label}: its state has {len(twice)} messages twice, such as {twice[0]}"
    whole = [each for each in living if each[0].local.site not in parted]
    for site, group in groupby(sorted(whole, key=lambda each: each[0].local.site), lambda each: each[0].local.site):
        (first, model), *others = group
        for process, application in others:
            label = f"{site}/{process.local.name} and {site}/{first.local.name}"
            for one, other in ((model, application), (application, model)):
                if lost := _lacking(one.items, other):
                    yield f"{label}: one state has {len(lost)} messages that the other one lacks, such as {lost[0]}"
            if is_total and _common(model, application) != _common(application, model):
                yield f"{label}: their states have another order"
        for process, application in whole:
            # A state that began before the load has everything of the other sites too.
            if process.local.site != site and application.begun < load_began and model.begun < load_began:
                sent = [item for item in model.items if item[0] == site and item[2] == Scope.ALL]
                if lost := _lacking(sent, application):
                    label = f"{process.local.site}/{process.local.name}"
                    yield f"{label}: its state lacks {len(lost)} messages of {site}, such as {lost[0]}"


def _lacking(items: Sequence[Item], application: Application) -> list[Item]:
    """Return the items that an application has not, and that are in no gap of it."""
    gaps: dict[tuple[str, str, int], list[Gap]] = {}
    for gap in application.gaps:
        gaps.setdefault((gap.site, gap.origin.hex(), int(gap.scope)), []).append(gap)
    missing = sorted(set(items).difference(application.items))
    return [item for item in missing if not any(gap.first <= item[3] <= gap.last for gap in gaps.get(item[:3], ()))]


def _common(one: Application, other: Application) -> list[Item]:
    items = set(other.items)
    return [item for item in one.items if item in items]
