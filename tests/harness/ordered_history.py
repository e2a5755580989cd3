"""Random histories of an ordered group that splits and merges, and a judge of its deliveries."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from sitestack.layers.batching import BatchingConfig
from sitestack.layers.sequencer import SequencerConfig
from sitestack.model.events import Event, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from sitestack.model.state_events import Baseline
from sitestack.model.view import View, ViewId
from tests.harness.addresses import name_of, view_of
from tests.harness.messages import present
from tests.harness.ordered import Configs, OrderedGroup

#: The messages of one origin in one scope.
Stream = tuple[str, Scope]
_SCOPES = (Scope.ALL, Scope.SITE)


class OrderedHistory:
    """Members send, are slow, crash, join, split and merge. Forwards of an earlier view may arrive in a later one."""

    def __init__(self, seed: int, order: Literal["total", "fifo"]) -> None:
        self.rng = rng = random.Random(seed)
        batching = BatchingConfig(batch_bytes_max=rng.choice([1, 40]), window_bytes=rng.choice([120, 2000]))
        sequencer = SequencerConfig(order=order, tombstones_max=rng.choice([1, 1024]))
        self._is_total = order == "total"
        names = "ABCDEFGHIJ"[: rng.choice([2, 3, 4, 5, 5, 5, 6, 10])]
        self.group = OrderedGroup(names, Configs(batching, sequencer))
        #: The members of each part, by name; a message travels between parts only when they merge.
        self.parts = [names]
        self.counts: Counter[Stream] = Counter()
        self._joiners = list("ONMLK")
        self._held: list[tuple[str, str]] = []

    def run(self, acts: int) -> None:
        """Take random steps, and then merge all parts and come to rest."""
        for _ in range(acts):
            self._act(self.rng.choice(self.parts))
        while len(self.parts) > 1:
            self._merge(self.parts[0], self.parts[1])
        self._rest()
        for name, scope in itertools.product(self.parts[0], _SCOPES):
            self._send_one(name, scope)
            self.group.settle()
        self._rest()

    def _rest(self) -> None:
        self.group.release()
        for _ in range(12):
            self.group.pass_time(40.0)

    def _act(self, part: str) -> None:
        name, other, act = self.rng.choice(part), self.rng.choice(part), self.rng.random()
        if act < 0.30:
            self._send(name, 3)
        elif act < 0.72:
            self.group.turn(self.group[name])
        elif act < 0.86:
            if name != other and act < 0.80:
                self.group.wire.hold(name, other)
            else:
                self.group.release(name, other)
        elif act < 0.87:
            self.group.pass_time(2.5)
        elif act < 0.91 and len(part) > 1:
            self._split(part)
        elif act < 0.96 and len(self.parts) > 1:
            self._merge(*self.rng.sample(self.parts, 2))
        elif act < 0.965 and len(part) > 1:
            self._change(part, part.replace(self._crash(part), ""))
        elif act < 0.97 and self._joiners:
            self._join(part)
        else:
            self._change(part, part)

    def _send(self, name: str, most: int = 1) -> None:
        for _ in range(self.rng.randint(1, most)):
            self._send_one(name, self.rng.choice(_SCOPES))

    def _send_one(self, name: str, scope: Scope) -> None:
        self.counts[name, scope] += 1
        self.group.send(name, b"m", scope=scope)

    # -- views -----------------------------------------------------------------------------------------------------

    def _split(self, part: str) -> None:
        one = "".join([name for name in part if self.rng.random() < 0.5])
        two = part.translate(dict.fromkeys(map(ord, one)))
        if not one or not two:
            return
        if self.rng.random() < 0.6:  # what the coordinator multicasts last reaches its own part alone
            coordinator = self._coordinator(part)
            for name in two if coordinator in one else one:
                self.group.wire.hold(coordinator, name)
                self._send(name, 2)
                self._turns(name, 0.7)
            self._turns(part, 0.9)
        for source, dest in _links(one, two):
            self.group.wire.hold(source, dest)
        for half in (one, two):
            self._change(half, half, blocked=self.rng.random() < 0.2)
        self.parts.remove(part)

    def _join(self, part: str) -> None:
        joiner = self._joiners.pop()
        self.group.add(joiner)
        for other in self.parts:
            for source, dest in _links(joiner, other) if other != part else ():
                self.group.wire.hold(source, dest)
        self._change(part, part + joiner)

    def _crash(self, part: str) -> str:
        victim = self.rng.choice([part[0], self.rng.choice(part)])
        self.group.kill(victim)
        return victim

    def _change(self, old: str, names: str, *, blocked: bool = False) -> None:
        """A flush of the members `old` that live, and the view of `names`."""
        living = "".join([name for name in old if self.group[name].alive])
        self._block(living)
        self.group.equalise(living)
        self.group.counter += 1
        given = self.group[living[0]].states()
        joiners = names.translate(dict.fromkeys(map(ord, old)))
        self._install(view_of(self.group.counter, names), dict.fromkeys(joiners, given), blocked=blocked)
        if old in self.parts:
            self.parts.remove(old)
        self.parts.append(names)

    def _merge(self, *parts: str) -> None:
        """A merge, in which a member may die. What is under way between the parts is lost, or arrives later."""
        for part in parts:
            self._block(part)
        dead = self._crash(parts[0]) if self.rng.random() < 0.15 and len(parts[0]) > 1 else ""
        living = [part.replace(dead, "") if dead else part for part in parts]
        states = {}
        for part in living:
            self.group.equalise(part)
            states[part] = self.group[self.rng.choice(part)].states()
        links = set(_links(*parts))
        delayed = self.group.wire.delayed
        late = [each for each in delayed if (each.source, each.dest) in links]
        self.group.wire.delayed = [each for each in delayed if each not in late]
        for source, dest in links:
            self.group.release(source, dest)
        self.parts = [*[part for part in self.parts if part not in parts], "".join(living)]
        self.group.counter += 1
        subviews = tuple([self.group.subview(part) for part in living])
        view = replace(view_of(self.group.counter, "".join(living)), subviews=subviews)
        one, two = living
        self._install(view, {**dict.fromkeys(one, states[two]), **dict.fromkeys(two, states[one])})
        for packet in late if self.rng.random() < 0.4 else ():
            self.group.wire.push(packet, self.group.now)

    def _block(self, part: str) -> None:
        """Block all members; before, messages of some are held up on their way to the coordinator."""
        coordinator = self._coordinator(part)
        for name in part:
            if name != coordinator and self.rng.random() < 0.25:
                self.group.wire.hold(name, coordinator)
                self._held.append((name, coordinator))
                self._send(name, 2)
                self._turns(name, 0.7)
        for name in part:
            self.group.block(name)
            self._turns(part, 0.4)
            if self.rng.random() < 0.1:
                self._send(name)
        self._turns(part, 0.8)

    def _install(self, view: View, states: Mapping[str, tuple[Header, ...]], *, blocked: bool = False) -> None:
        """Install the view in a random order; then what was held up may arrive."""
        names = "".join(view.names)
        for name in self.rng.sample(names, len(names)):
            member = self.group[name]
            previous, member.view = member.view, view
            self.group.announce(name, ViewInstalled(view, previous, states.get(name, ()), blocked))
            self._turns(names, 0.4)
        for source, dest in self._held:
            if source in names and dest in names and self.rng.random() < 0.8:
                self.group.release(source, dest)
                self._turns(names, 0.4)
        self._held.clear()

    def _turns(self, names: str, chance: float) -> None:
        while self.rng.random() < chance:
            self.group.turn(self.group[self.rng.choice(names)])

    def _coordinator(self, part: str) -> str:
        return present(self.group[part[0]].view).names[0]

    # -- the judge -------------------------------------------------------------------------------------------------

    def faults(self) -> Iterator[str]:
        """Yield what was delivered twice, in two orders of one view, behind a hole without a gap, or never."""
        places: dict[tuple[object, ...], int] = {}
        for name, member in self.group.members.items():
            account = _Account(name)
            for event in member.events:
                yield from account.note(event, places if self._is_total else {})
            if name in self.parts[0]:
                yield from account.at_rest(self.counts, self.parts[0])
                if self.group.table(name):
                    yield f"{name} has undelivered batches"


class _Account:
    """What one member has delivered, or was notified of, of each stream."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._view: ViewId | None = None
        self._numbers: defaultdict[Stream, set[int]] = defaultdict(set)
        #: The last number before the member's time.
        self._base: Counter[Stream] = Counter()

    def note(self, event: Event | Frame, places: dict[tuple[object, ...], int]) -> Iterator[str]:
        """`places`: the place in the order of each view at which each batch was delivered."""
        if isinstance(event, ViewInstalled):
            self._view = event.view.id
        elif isinstance(event, Frame) and event.batch is not None:
            batch = event.batch
            stream = name_of(event.source), batch.scope
            place = places.setdefault((self._view, stream, batch.first), event.seqno)
            if place != event.seqno:
                yield f"{self.name} delivered {stream} {batch.first} at {event.seqno} of {self._view}, another one at {place}"
            yield from self._add(stream, range(batch.first, batch.first + batch.count))
        elif isinstance(event, Gap):
            yield from self._add((name_of(event.origin), event.scope), range(event.first, event.last + 1))
        elif isinstance(event, Baseline):
            for origin, last in event.origins.items():
                self._base[name_of(origin), event.scope] = last

    def _add(self, stream: Stream, numbers: range) -> Iterator[str]:
        known = self._numbers[stream]
        if known.intersection(numbers) or numbers[0] < max(known, default=0):
            yield f"{self.name} delivered {stream} {numbers} after {max(known)}"
        known.update(numbers)

    def at_rest(self, counts: Mapping[Stream, int], names: str) -> Iterator[str]:
        for name, scope in itertools.product(names, _SCOPES):
            stream = name, scope
            known, base = self._numbers[stream], self._base[stream]
            begun = 1 if name == self.name else min(known, default=counts[stream])
            lack = {*range(begun, counts[stream] + 1)} - known - {*range(base + 1)}
            if lack:
                yield f"{self.name} lacks {stream} {sorted(lack)}"


def _links(one: str, two: str) -> Iterator[tuple[str, str]]:
    for a in one:
        for b in two:
            yield a, b
            yield b, a
