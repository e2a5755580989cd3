"""Directed stories: processes with names, packets held back by rule, deaths at an exact point, and a transcript.

A script drives a `World` step by step, where a seed would draw what happens. It tells what chance meets too rarely:

    script = Script(World(1, site_maker(config)), Forward, Sequenced)
    script.site("NYC", "A", "B", "C")
    late = script.hold("A", "C", Sequenced, carrying=["5"])
    script.send("C", "5")
    script.run(0.1)
    script.kill("A")
    script.view("B", "C")
    assert script.delivered("C") == ["5"]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from relay_lab.sim.network_faults import Packet
from relay_lab.sim.process import Process
from relay_lab.sim.world import Maker, World
from sitestack.assembly import build_stack
from sitestack.config import SiteConfig
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.model.events import Event
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Scope
from sitestack.stack.layer import Local, Up
from sitestack.stack.turn import Step
from sitestack.wire.lane import MAGIC
from tests.harness.transcript import Transcript, texts

#: A process, several of them, or (empty) all.
Names = str | Collection[str]


@dataclass(slots=True)
class WithheldDatagram:
    """The datagrams that a rule has caught, in order of sending. One that is never released is lost."""

    sources: Names
    targets: Names
    kind: type[Header]
    carrying: Collection[str]
    catching: bool = True
    packets: list[Packet] = field(default_factory=list)

    def stop(self) -> None:
        """Catch no more datagrams; those caught stay caught."""
        self.catching = False

    def fits(self, frame: Frame) -> bool:
        """Whether the rule waits for this frame."""
        if self.kind is not Header and not any(isinstance(header, self.kind) for header in frame.headers):
            return False
        return not self.carrying or any(text in self.carrying for text in texts(frame.batch))


class Script:
    """A scripted story of a world. Each process has a unique name."""

    def __init__(self, world: World, *shown: type[Header] | type[Event]) -> None:
        """`shown` are the headers and events that the transcript tells of, besides views and deliveries."""
        self.world = world
        self.processes: dict[str, Process] = {}
        self.transcript = Transcript(shown)
        self._withheld: list[WithheldDatagram] = []
        #: Whether the transcript tells of any header; else datagrams are parsed for the rules alone, which saves a third.
        self._tells_headers = any(issubclass(each, Header) for each in shown)
        world.network.faults.insert(0, self._route)

    # -- processes -------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Process:
        return self.processes[name]

    def start(self, site: str, name: str, at: Physical | None = None) -> Process:
        """Start a process, at a new host or at this address, such as that of a dead process."""
        assert name not in self.processes, f"there was a {name} already"
        self.transcript.note(f"{name} starts")
        process = self.processes[name] = self.world.spawn(site, name, at)
        self.transcript.names[bytes(process.local.address)] = name
        process.on_event = lambda event: self.transcript.event(name, event)
        return process

    def site(self, site: str, *names: str) -> None:
        """Form a site with these ranks: one after the other joins."""
        for count, name in enumerate(names, 1):
            self.start(site, name)
            self.view(*names[:count])

    def kill(self, *names: str) -> None:
        """Kill processes as by `kill -9`."""
        for name in names:
            self.transcript.note(f"{name} is killed")
            self[name].kill()

    def kill_at(self, name: str, point: Callable[[Event | Frame], bool]) -> None:
        """Kill a process right after this event is recorded or this effect carried out: nothing else leaves the process."""

        process = self[name]
        tell = process.on_event

        def listen(event: Event | Frame) -> None:
            tell(event)
            if point(event):
                self.kill(name)

        process.on_event = listen

    def kill_before(self, name: str, step: Step, point: Callable[[Any], bool] = lambda each: True) -> None:
        """Let it die before this step of the first turn in which the step has something of that kind to do.

        The steps before it are carried out, of this one and those after it nothing is. `point` is asked of events, of
        datagrams with where they go to, or of effects.
        """

        def dies(coming: Step, what: Sequence[object]) -> bool:
            if coming != step or not any(map(point, what)):
                return False
            self.transcript.note(f"{name} is killed before it comes to {step}")
            return True

        self[name].dies_before = dies

    def send(self, name: str, *words: str, scope: Scope = Scope.ALL, to: Address | None = None) -> None:
        """Send messages, in one turn; to one process also out of band. Raises AssertionError when one is refused."""
        self.transcript.note(" ".join([name, "sends", *words] + ([] if to is None else ["to", self.transcript.say(to)])))
        for word in words:
            accepted = self[name].send(word.encode(), scope if to is None else max(scope, Scope.UNICAST), to)
            assert accepted, f"{name} could not send {word!r}"

    def delivered(self, name: str) -> list[str]:
        """The texts that a process has delivered, in order."""
        return [text for event in self[name].events if isinstance(event, Frame) for text in texts(event.batch)]

    # -- time ------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run(seconds)

    def until(self, reached: Callable[[], bool], what: str, within: float = 30.0) -> None:
        """Let time pass until `reached` holds. Raises AssertionError, with the transcript, when it does not within the time."""
        if not self.world.run_until(reached, within):
            raise AssertionError("\n".join([f"not within {within} s: {what}", *self.transcript.lines]))

    def view(self, *names: str, within: float = 30.0) -> None:
        """Wait until exactly these processes stand in one view of their site."""
        members = [self[name] for name in names]
        self.until(lambda: self.world.settled(members[0].local.site, members), f"a view of {' '.join(names)}", within)

    def everywhere(self, names: Names, *words: str, within: float = 30.0) -> None:
        """Wait until each of these processes has delivered all of these texts."""
        for name in names:
            self.until(lambda name=name: set(words) <= set(self.delivered(name)), f"{' '.join(words)} at {name}", within)  # type: ignore[misc]

    def exactly(self, names: Names, *words: str, within: float = 30.0) -> None:
        """Wait until each of these processes has delivered these texts, and see that it has these alone, in this order."""
        self.everywhere(names, *words, within=within)
        assert {name: self.delivered(name) for name in names} == {name: [*words] for name in names}

    # -- network ---------------------------------------------------------------------------------------------------

    def cut(self, one: Names, other: Names, ways: str = "both") -> Callable[[], None]:
        """Cut the network between two groups, or one way: "there" (from `one`), "back"; the result, when called, ends that."""
        here, there = (frozenset(map(self.host, names)) for names in (one, other))
        cuts = {"both": [(here, there), (there, here)], "there": [(here, there)], "back": [(there, here)]}[ways]
        self.world.network.cuts += cuts

        def end() -> None:
            for cut in cuts:
                self.world.network.cuts.remove(cut)

        return end

    def host(self, name: str) -> str:
        """The host of a process."""
        return self[name].physical.host

    def split(self, *parts: Names) -> None:
        """Cut parts of a site off from each other, and wait until each is a view."""
        for one, other in combinations(parts, 2):
            self.cut(one, other)
        for part in parts:
            self.view(*part)

    def heal(self, *names: str, within: float = 30.0) -> None:
        """End all cuts, and wait until these processes are in one view."""
        self.world.network.cuts.clear()
        self.view(*names, within=within)

    # -- packets ---------------------------------------------------------------------------------------------------

    def hold(
        self, sources: Names = (), targets: Names = (), kind: type[Header] = Header, carrying: Collection[str] = ()
    ) -> WithheldDatagram:
        """Catch from now on each datagram from `sources` to `targets` with a frame that has a `kind` header and such a text."""
        held = WithheldDatagram(sources, targets, kind, carrying)
        self._withheld.append(held)
        return held

    def lose(self, one: Names, other: Names) -> Callable[[], None]:
        """Lose all datagrams between two groups of processes; the result, when called, ends that."""
        rules = self.hold(one, other), self.hold(other, one)

        def end() -> None:
            for rule in rules:
                rule.stop()

        return end

    def release(self, held: WithheldDatagram, count: int | None = None) -> None:
        """Let caught datagrams arrive at once, in order: the first `count`, or all of them and catch no more."""
        if count is None:
            held.stop()
        packets, held.packets = held.packets[:count], [] if count is None else held.packets[count:]
        for packet in packets:
            self._show(packet, "released: ")
            self.world.network.deliver(replace(packet, delay=0.0))

    def _route(self, packet: Packet, rng: random.Random) -> list[Packet]:
        if not (self._tells_headers or self._withheld):
            return [packet]
        frames = self._show(packet)
        source, target = self._at(packet.source), self._at(packet.target)
        for held in self._withheld:
            named = (not held.sources or source in held.sources) and (not held.targets or target in held.targets)
            if held.catching and named and any(map(held.fits, frames)):
                held.packets.append(packet)
                self.transcript.held(target, packet.data)
                return []
        return [packet]

    def _show(self, packet: Packet, prefix: str = "") -> tuple[Frame, ...]:
        """Parse a packet as its receiver would (a site has one codec), and tell of it."""
        try:
            if packet.data[:2] == MAGIC:
                steps = self[self._at(packet.target)].stack.lanes.receive(packet.data, 0.0, walk=True)
                frames = tuple(
                    [
                        each.event
                        for _, effects in steps
                        for each in effects
                        if isinstance(each, Up) and isinstance(each.event, Frame)
                    ]
                )
            else:
                frames = self[self._at(packet.source)].stack.codec.decode(packet.data).frames
        except ProtocolError:
            return ()
        self.transcript.packet(self._at(packet.source), self._at(packet.target), packet.data, frames, prefix)
        return frames

    def _at(self, physical: Physical) -> str:
        """The name of the process that is at this address, or was there last."""
        return next((name for name in reversed(self.processes) if self[name].physical == physical), str(physical))


def site_maker(config: SiteConfig) -> Maker:
    """Processes of one site alone, without a bridge."""

    def make(world: World, site: str, name: str, rng: random.Random, physical: Physical) -> Process:
        local = Local(site, Address.make(rng), name, rng)
        stack = build_stack(local, config)
        return Process(local, stack, physical, world.schedule, world.network, world.seed, config.order == "total")

    return make
