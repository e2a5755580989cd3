"""Members of all sites that write to one `Map` while faults happen, and the invariant of its replicas (M8)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import trio

from relay.events import GlobalView
from relay.node.channel import RelayChannel
from relay.structures.map import Map
from relay.structures.map_state import Conflict, Entry, MapState, Stamp, are_concurrent
from relay_lab.sim.lies import opened
from relay_lab.sim.process import Process
from relay_lab.sim.tasks import Tasks
from sitestack.config import SiteConfig
from sitestack.layers.batching import Manner
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.envelope import STRUCTURE
from sitestack.model.errors import LocalError
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from sitestack.model.view import View
from sitestack.structures.registry import Structures

KEYS = tuple("abcdef")
#: Seconds by which clocks of members differ, and which the calendar is ahead of the virtual clock.
SKEW_S, EPOCH_S = 2.0, 1_700_000_000.0
#: Seconds between two attempts to send while there is no credit.
WAIT_S = 0.05


class Write(NamedTuple):
    """A write, or a delete."""

    key: str
    entry: Entry


class MapUser:
    """The map of one member, and the part of its channel that a map needs."""

    def __init__(self, process: Process, config: SiteConfig, sites: tuple[str, ...], tasks: Tasks) -> None:
        self.config = config
        self.site, self.sites = process.local.site, sites
        self.me = ProxyUUID(process.local.address, self.site)
        self.structures = Structures(self._post, self._post_now, lambda reason: None)
        self.view: View | None = None
        #: All writes of this member, those that were acknowledged, and the stamps of overwritten concurrent ones.
        self.written: list[Write] = []
        self.acknowledged: list[Write] = []
        self.lost: set[Stamp] = set()
        self.is_open = False
        #: Writes that are not acknowledged.
        self.waiting = 0
        self._process = process
        self._tasks = tasks
        self._scope = trio.CancelScope()
        skew_s = random.Random(f"clock {process.local.address.hex()}").uniform(-SKEW_S, SKEW_S)
        #: The write of each task that waits for it.
        self._made: dict[trio.lowlevel.Task, Write] = {}
        #: Whether its process has died.
        self.has_died = False
        self._clock = lambda: EPOCH_S + skew_s + process.schedule.now
        self.map = self._make_map()
        tasks.start(self._use)

    # -- as a channel --------------------------------------------------------------------------------------------------

    @property
    def global_view(self) -> object:
        return getattr(self._process, "global_view", None)

    @property
    def is_coordinator(self) -> bool:
        return self.view is not None and self.view.is_coordinator(self.me)

    def name_of(self, member: Address) -> str:
        return member.hex()

    def _fits(self, scope: Scope, target: Address | None) -> bool:
        process = self._process
        batching = process.batching
        may_send = process.view is not None and batching.writable and not process.is_paused
        return may_send and target not in batching.full_targets and not (process.held_back and scope is Scope.ALL)

    async def _post(self, body: bytes, scope: Scope, target: Address | None) -> None:
        await _until(lambda: self._fits(scope, target))
        self._post_now(body, scope, target)

    def _post_now(self, body: bytes, scope: Scope, target: Address | None) -> None:
        if self._process.alive:
            if isinstance(target, ProxyUUID) and target.site == self.site:
                target = target.original
            self._process.batching.append(body, scope, target, Manner.INTERNAL)
            self._process.touch()

    def follow(self, events: Sequence[Event | Frame]) -> None:
        """Feed the map with the events of a turn, in their order."""
        for event in events:
            if isinstance(event, ViewInstalled):
                self.view = event.view.at_site(self.site)
            elif isinstance(event, Gap):
                for structure in self.structures.each():
                    structure.note_gap(event)
            elif isinstance(event, Frame) and event.batch is not None and event.batch.has_envelopes:
                source = event.source if isinstance(event.source, ProxyUUID) else ProxyUUID(event.source, self.site)
                messages = [(envelope.headers.get(STRUCTURE, b""), data) for envelope, data in opened(event.batch)]
                self.structures.deliver(source, messages)
        if any(isinstance(event, ViewInstalled | GlobalView) for event in events):
            for structure in self.structures.each():
                structure.members_changed()
        self._tasks.soon()

    def end(self) -> None:
        """Stop the tasks of a dead process."""
        self.has_died = True
        self._scope.cancel()
        self._tasks.soon()

    # -- as an application ---------------------------------------------------------------------------------------------

    async def _use(self) -> None:
        with self._scope:
            await _until(lambda: self.view is not None and self.global_view is not None)
            while not self._process.left:
                try:
                    async with self.map:
                        self.is_open = True
                        await trio.sleep_forever()
                except LocalError:  # its site lacks the majority now
                    self.is_open, self.map = False, self._make_map()
                    await trio.sleep(1.0)

    def decide(self, rng: random.Random) -> None:
        """Write or delete a key."""
        if self.is_open:
            self._tasks.start(self._change, rng.choice(KEYS), rng.randbytes(8) if rng.random() < 0.8 else None)
            self._tasks.run()

    async def _change(self, key: str, value: bytes | None) -> None:
        self.waiting += 1
        try:
            if value is None:
                await self.map.delete(key)
            elif value[0] % 3:
                await self.map.put(key, value)
            else:
                await self.map.update(key, lambda _: value)
            self.acknowledged.append(self._made[trio.lowlevel.current_task()])
        except LocalError:
            pass
        finally:
            self.waiting -= 1
            self._made.pop(trio.lowlevel.current_task(), None)

    def _make_map(self) -> Map[bytes]:
        made: Map[bytes] = Map(cast(RelayChannel, self), "map", on_conflict=self._note, clock=self._clock)
        made.replica.state.write = self._make  # type: ignore[method-assign, assignment]
        return made

    def _make(self, key: str, *args: Any) -> Entry:
        entry: Entry = MapState.write(self.map.replica.state, key, *args)
        write = self._made[trio.lowlevel.current_task()] = Write(key, entry)
        self.written.append(write)
        return entry

    def _note(self, conflict: Conflict) -> None:
        self.lost.add(conflict.lost_by)

    @property
    def entries(self) -> dict[str, tuple[Stamp, bytes]]:
        """The live entries."""
        entries = self.map.replica.state.entries
        return {key: (each.stamp, each.value) for key, each in sorted(entries.items()) if each.value is not None}


async def _until(reached: Callable[[], bool]) -> None:
    while not reached():  # noqa: ASYNC110 (nothing tells of it)
        await trio.sleep(WAIT_S)


def find_differences(users: Sequence[MapUser]) -> list[str]:
    """Return the members whose maps are not open, or differ from the first open one."""
    opened = [user.entries for user in users if user.is_open]
    return [user.me.hex()[:8] for user in users if not user.is_open or user.entries != opened[0]]


def find_losses(users: Sequence[MapUser]) -> Iterator[str]:
    """Report acknowledged writes of living members that no later write knew of, and that are gone without a conflict."""
    writes = [write for user in users for write in user.written]
    lost = {stamp for user in users for stamp in user.lost}
    final = {key: stamp for user in users if user.is_open and not user.has_died for key, (stamp, _) in user.entries.items()}
    for user in users:
        for key, entry in () if user.has_died else user.acknowledged:
            later = [each for name, each in writes if name == key and each.stamp > entry.stamp]
            known = final.get(key) == entry.stamp or entry.stamp in lost
            if entry.value is None and key not in final:
                continue
            if not known and all(are_concurrent(each, entry) for each in later):
                yield f"{user.site}/{user.me.hex()[:8]}: its acknowledged write of {key} is gone without a conflict"
