"""Two linked sites: NYC's relay A may be killed once, and B takes over; a connection may break.

The relay layers are real: gateways, link sessions, fences and replicated state. Below them is a stream for each site;
B lags behind A until it catches up. Each frame on a connection is delivered by itself, so a dying connection may lose
any suffix of its frames.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from relay.events import (
    BridgeClose,
    BridgeClosed,
    BridgeConnected,
    BridgeEffect,
    BridgeReceived,
    BridgeSend,
    BridgeWritten,
    Dial,
    DialFailed,
)
from relay.gateway.config import GatewayConfig
from relay.layer import RelayConfig
from sitestack.model.address import Physical
from sitestack.model.events import Event
from sitestack.model.frame import Frame
from sitestack.model.message import Batch
from sitestack.model.view import View
from tests.harness.relay.member import Member, places
from tests.harness.relay.world import World
from tests.simulation.explore.explorer import START_S, Contents, Model, Step
from tests.simulation.explore.explorer import State as AnyState

CONTENTS = Contents(
    "_local local config _config _rng rng stale high world codec events drops disk pipes physical site _times",
    "",
    Frame,
    Batch,
    View,
    Physical,
)
MEMBERS = {"NYC": 2, "SFO": 1}
OTHER = {"NYC": "SFO", "SFO": "NYC"}
#: Seconds in which a run without faults must come to rest: dead links are noticed after 3 s, calls repeated after 5 s.
LINK_REST_S = 15.0
#: The end of a connection, behind its last frame.
END = b""
LENGTH_BYTES = 4


class Alone(World):
    """A site whose bridge is in the model."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.now = START_S
        self.out: list[BridgeEffect] = []

    def bridge(self, member: Member, event: Event | Frame) -> bool:
        if isinstance(event, Dial | BridgeSend | BridgeClose):
            self.out.append(event)
            return True
        return super().bridge(member, event)

    def _move(self) -> bool:
        return False


class Facts(NamedTuple):
    #: The words that each living member has delivered.
    words: dict[str, tuple[str, ...]]
    gaps: int
    held: int
    #: Where the relay listens.
    place: Physical | None
    is_behind: bool
    due_s: float


class Site:
    def __init__(self, name: str) -> None:
        self.world = Alone(sorted(MEMBERS).index(name) + 1)
        peers = {OTHER[name]: places("SFO")[:1] if name == "NYC" else ()}  # NYC calls
        self.site = self.world.site(name, MEMBERS[name], RelayConfig(gateway=GatewayConfig(peers=peers)))
        self.site.hold_back = True

    def input(self, what: Any) -> tuple[Hashable, ...]:
        site, world = self.site, self.world
        match what:
            case "start":
                site.install()
            case "kill":
                site.kill(site.relay)
            case "catch up":
                site.hold_back = False
                site.end_turn()
                site.hold_back = True
            case "timer":
                world.now = max(world.now, self._due())
            case float():
                world.now += what
                return ()
            case str():
                sender = next(each for each in site.members if each.name == what[-1])
                sender.send(f"{sender.name}{sender.sent + 1}")
            case Event():
                site.relay.say(what)
        world.settle()
        sent, world.out = world.out, []
        return tuple(sent)

    def _due(self) -> float:
        return min([due for due in self.world._deadlines() if due is not None], default=1e12)

    def contents(self) -> Hashable:
        words = [(each.name, each.words, each.gaps(), each.listening) for each in self.site.members]
        layers = [each.layer for each in self.site.members]
        return CONTENTS.all((words, self.site, *layers), self.world.now)

    def facts(self) -> Facts:
        words = {each.name: tuple(each.words) for each in self.site.members}
        relay = self.site.relay
        gaps = sum(len(each.gaps()) for each in self.site.members)
        buffer = relay.layer.state.buffer
        held = sum(buffer.at(position).batch is not None for position in range(buffer.first, buffer.end))
        place = relay.physical if relay.listening else None
        is_behind = len(set(self.site.reached.values())) > 1
        return Facts(words, gaps, held, place, is_behind, max(0.0, self._due() - self.world.now))


class Link(NamedTuple):
    number: int
    #: Frames under way to NYC, and to SFO; None: that end is closed.
    nyc: tuple[bytes, ...] | None = ()
    sfo: tuple[bytes, ...] | None = ()

    @property
    def ends(self) -> dict[str, tuple[bytes, ...] | None]:
        return {"NYC": self.nyc, "SFO": self.sfo}


@dataclass(frozen=True, slots=True)
class State(AnyState):
    links: tuple[Link, ...] = ()
    #: Places that NYC calls.
    calls: tuple[Physical, ...] = ()
    made: int = 0
    #: Messages to come: the site and the member.
    to_send: tuple[tuple[str, str], ...] = ()


class LinkModel(Model):
    def __init__(self, to_send: tuple[tuple[str, str], ...], kills: int = 1, timers: int = 0, breaks: int = 0) -> None:
        super().__init__(Site, tuple(MEMBERS), kills, timers, breaks)
        self.first = to_send

    def start(self) -> State:
        state = State((0, 0))
        for name in MEMBERS:
            state = self.step(state, name, "start")
        return replace(state, to_send=self.first, left=self.left)

    def deliveries(self, state: State) -> Iterator[Step]:
        for at, place in enumerate(state.calls):
            rest = replace(state, calls=(*state.calls[:at], *state.calls[at + 1 :]))
            yield ("call", place), partial(self.call, rest, place)
        for link in state.links:
            for site in MEMBERS:
                if queue := link.ends[site]:
                    yield ("deliver", link.number, site, queue[0]), partial(self.deliver, state, link, site)

    def duties(self, state: State) -> Iterator[Step]:
        for name, facts in self.facts(state).items():
            if facts.is_behind:
                yield ("catch up", name), partial(self.step, state, name, "catch up")

    def faults(self, state: State) -> Iterator[Step]:
        assert isinstance(state.left, tuple)
        for site, member in state.to_send[:1]:
            what = f"send {member}" if member in self.facts(state)[site].words else 0.0
            yield ("send", site, member), partial(self.step, replace(state, to_send=state.to_send[1:]), site, what)
        if state.left[0]:
            yield ("kill", "NYC"), partial(self.step, self.spend(state, 0), "NYC", "kill")
        for link in state.links if state.left[2] else ():
            broken = {site: None if frames is None else (END,) for site, frames in link.ends.items()}
            yield ("break", link.number), partial(self.put, self.spend(state, 2), link, **broken)

    def call(self, state: State, place: Physical) -> State:
        if self.facts(state)["SFO"].place != place:
            return self.step(state, "NYC", DialFailed("SFO", place))
        number = state.made + 1
        state = self.step(replace(state, made=number, links=(*state.links, Link(number))), "SFO", BridgeConnected(number, None))
        return self.step(state, "NYC", BridgeConnected(number, ("SFO", place)))

    def deliver(self, state: State, link: Link, site: str) -> State:
        frame, *rest = link.ends[site] or ()
        if frame == END:
            return self.step(self.put(state, link, **{site: None}), site, BridgeClosed(link.number))
        return self.step(self.put(state, link, **{site: tuple(rest)}), site, BridgeReceived(link.number, frame))

    def put(self, state: State, link: Link, **ends: tuple[bytes, ...] | None) -> State:
        """Replace the frames under way to these sites; a link without ends is gone."""
        new = Link(link.number, *{**link.ends, **ends}.values())
        links = [new if each.number == link.number else each for each in state.links]
        return replace(state, links=tuple([each for each in links if each.ends != {"NYC": None, "SFO": None}]))

    def step(self, state: State, name: str, what: Any) -> State:
        state, outputs = self.enter(state, name, what)
        if what == "kill":
            outputs = (*[BridgeClose(each.number, "") for each in state.links], *outputs)
        for each in outputs:
            if isinstance(each, Dial):
                state = replace(state, calls=(*state.calls, each.address))
                continue
            link = next((link for link in state.links if link.number == each.connection), None)
            if link is None or link.ends[name] is None:
                continue
            far = OTHER[name]
            under_way = link.ends[far]
            if isinstance(each, BridgeClose):  # the other site may still receive everything that is under way
                state = self.put(state, link, **{name: None, far: None if under_way is None else (*under_way, END)})
                continue
            if under_way is not None:
                state = self.put(state, link, **{far: (*under_way, *frames_of(each.data))})
            state = self.step(state, name, BridgeWritten(each.connection))
        return state

    def check(self, state: State) -> None:
        for name, facts in self.facts(state).items():
            assert not facts.gaps, f"a gap in {name}"
            for member, words in facts.words.items():
                for origin in {word[0] for word in words}:
                    numbers = [int(word[1:]) for word in words if word[0] == origin]
                    assert numbers == list(range(1, len(numbers) + 1)), f"{member} of {name} delivered {words}"

    def calm(self, state: State) -> State:
        return replace(state, left=LINK_REST_S)

    def missing(self, state: State) -> str | None:
        facts = self.facts(state)
        words = {f"{member} of {name}": sorted(words) for name, each in facts.items() for member, words in each.words.items()}
        held = {name: each.held for name, each in facts.items()}
        is_whole = len({tuple(each) for each in words.values()}) == 1 and not any(held.values())
        return None if is_whole else f"words {words}, held {held}"


def frames_of(data: bytes) -> Iterator[bytes]:
    """The frames in a chunk, each with its length."""
    while data:
        size = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
        yield data[:size]
        data = data[size:]
