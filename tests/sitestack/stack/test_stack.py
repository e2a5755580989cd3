"""The walk: order, announcements, bundling, drops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from sitestack.config import SITE_CHARS_MAX
from sitestack.layers.path_mtu import SIZES
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ConfigurationError
from sitestack.model.events import Blocked, Event, Misdirected, StatesCollected, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.seal.envelope import OVERHEAD_BYTES
from sitestack.stack.layer import Announce, CollectStates, Down, Dropped, Effect, Layer, Limit, Transmit, Up
from sitestack.stack.stack import Stack
from sitestack.wire.codec import DATAGRAM_BYTES_MAX
from tests.harness.addresses import address

A, B = map(address, "AB")
HERE = Physical("10.0.0.1", 1)
VIEW = View(ViewId(1, A), ViewId(1, A), (A, B), ("A", "B"))


@dataclass(frozen=True, slots=True)
class Word(Header):
    text: str


@dataclass(frozen=True, slots=True)
class Other(Header):
    """Not the state of any layer."""


@dataclass(frozen=True, slots=True)
class Note(Event):
    text: str


class Scripted(Layer):
    """Answers each note by its script; passes the rest on."""

    def __init__(self, name: str, log: list[str], script: dict[str, list[Effect]]) -> None:
        self.label, self.log, self.script = name, log, script

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        self.log.append(f"{self.label}^{event.text if isinstance(event, Note) else type(event).__name__}")
        if isinstance(event, Note) and event.text in self.script:
            return self.script[event.text]
        return [Up(event)]

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        self.log.append(f"{self.label}v{event.text if isinstance(event, Note) else type(event).__name__}")
        if isinstance(event, Note) and event.text in self.script:
            return self.script[event.text]
        return [Down(event)]


class Wire(Layer):
    """The lowest layer: everything goes out."""

    name = "wire"
    HEADERS: ClassVar[dict[int, type[Header]]] = {1: Word}

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        if isinstance(event, Frame):
            return [Transmit(None if event.dest is None else HERE, event)]
        return []


def stack_of(scripts: list[dict[str, list[Effect]]], room: int = 1_400, site: str = "NYC") -> tuple[Stack, list[str]]:
    log: list[str] = []
    layers: list[Layer] = [Scripted(str(n), log, script) for n, script in enumerate(scripts)]
    for layer in layers:
        type(layer).name = "scripted"
    return Stack(A, [*layers, Wire()], site, room), log


def test_the_consequences_of_one_effect_come_before_its_sibling() -> None:
    stack, log = stack_of([{}, {"go": [Up(Note("first")), Up(Note("second"))]}, {}])
    stack.down(Note("go"), 0.0)
    assert log == ["0vgo", "1vgo", "0^first", "0^second"]
    stack, log = stack_of([{"first": [Down(Note("echo"))]}, {"go": [Up(Note("first")), Up(Note("second"))]}, {}])
    stack.down(Note("go"), 0.0)
    assert log == ["0vgo", "1vgo", "0^first", "1vecho", "2vecho", "0^second"]


def test_an_announcement_reaches_all_layers_bottom_to_top_before_any_answer_is_carried_out() -> None:
    event = Note("news")
    stack, log = stack_of([{}, {"go": [Announce(event)], "news": [Down(Note("answer"))]}, {}])
    stack.down(Note("go"), 0.0)
    assert log == ["0vgo", "1vgo", "2^news", "1^news", "0^news", "2vanswer"]
    assert stack.flush(0.0).events == (event,)


def test_the_shell_receives_an_announcement_before_its_effects() -> None:
    stack, _ = stack_of([{"news": [Up(Note("after"))]}, {"go": [Announce(Note("news"))]}, {}])
    stack.down(Note("go"), 0.0)
    assert stack.flush(0.0).events == (Note("news"), Note("after"))


def test_states_are_collected_for_the_requesting_layer() -> None:
    class Giver(Scripted):
        def give_state(self) -> Header:
            return Word(f"state of {self.label}")

    log: list[str] = []
    asks = Scripted("1", log, {"go": [CollectStates(7, ())]})
    layers: list[Layer] = [Giver("0", log, {}), asks, Giver("2", log, {}), Wire()]
    stack = Stack(A, layers, "NYC", 1_400)
    stack.down(Note("go"), 0.0)
    assert stack.flush(0.0).events == (StatesCollected(7, (Word("state of 0"), Word("state of 2"))),)
    assert log == ["0vgo", "1vgo", "1^StatesCollected", "0^StatesCollected"]


@pytest.mark.parametrize(("known", "word"), [(None, "known"), ((Word("x"), Word("y")), "less x y")])
def test_collected_states_are_the_known_part_or_the_rest_beyond_a_given_part(
    known: tuple[Header, ...] | None, word: str
) -> None:
    class Giver(Scripted):
        def give_known(self) -> Header:
            return Word("known")

        def give_rest(self, known: tuple[Header, ...]) -> Header:
            return Word(" ".join(["less", *[each.text for each in known if isinstance(each, Word)]]))

    layers: list[Layer] = [Giver("0", [], {}), Scripted("1", [], {"go": [CollectStates(7, known)]}), Wire()]
    stack = Stack(A, layers, "NYC", 1_400)
    stack.down(Note("go"), 0.0)
    assert stack.flush(0.0).events == (StatesCollected(7, (Word(word),)),)


def test_a_joiner_receives_states_before_the_view_but_no_other_header_that_stands_among_them() -> None:
    log: list[str] = []

    class Taker(Scripted):
        HEADERS: ClassVar[dict[int, type[Header]]] = {2: Word, 3: Other}
        STATE = Word

        def take_state(self, state: Header) -> None:
            log.append(f"took {state}")

    class Longer(Word):
        """A state may have several forms."""

    installed = ViewInstalled(VIEW, None, (Other(), Longer("x")))
    stack = Stack(A, [Taker("0", log, {"go": [Announce(installed)]})], "NYC", 1_400)
    stack.down(Note("go"), 0.0)
    assert log[1:] == [f"took {Longer('x')}", "0^ViewInstalled"]


def test_frames_of_one_turn_and_destination_share_datagrams_and_keep_their_order() -> None:
    sender, _ = stack_of([{}], room=600)
    receiver, log = stack_of([{}])
    receiver.address = B
    words = [f"{n} " + "x" * 40 for n in range(40)]
    for word in words:
        sender.down(Frame(A, B, (Word(word),)), 0.0)
    datagrams = sender.flush(0.0).datagrams
    assert 1 < len(datagrams) < 10
    assert all(len(data) <= 600 and to == HERE for to, data in datagrams)
    for _, data in datagrams:
        receiver.receive(data, HERE, 0.0)
    arrived = [frame for frame in receiver.flush(0.0).events if isinstance(frame, Frame)]
    assert [frame.headers[0] for frame in arrived] == [Word(word) for word in words]
    assert len(log) == 40


@pytest.mark.parametrize("name", ["N" * SITE_CHARS_MAX, "\N{GRINNING FACE}" * SITE_CHARS_MAX], ids=["64 bytes", "256 bytes"])
def test_the_largest_sealed_datagram_passes_where_only_the_least_size_does(name: str) -> None:
    largest, least = DATAGRAM_BYTES_MAX - OVERHEAD_BYTES, min(SIZES) - OVERHEAD_BYTES
    stack, _ = stack_of([{"narrow": [Limit(B, least)]}], largest, name)
    whole = Frame(A, B, (), Batch(name, A, Scope.UNICAST, 1, 1, pack_body([bytes(largest - 1_024)]), B, name))
    stack.down(whole, 0.0)
    assert len(stack.flush(0.0).datagrams) == 1
    stack.down(Note("narrow"), 0.0)
    stack.down(whole, 0.0)
    slices = [data for _, data in stack.flush(0.0).datagrams]
    assert max(map(len, slices)) <= least
    receiver = Stack(B, [Wire()], name, largest)
    for data in slices:
        receiver.receive(data, HERE, 0.0)
    assert receiver.flush(0.0).events == (whole,)


def test_a_misdirected_frame_is_reported_to_the_lowest_layer_and_not_delivered() -> None:
    """A3: a process restarted at the same address receives frames for its predecessor."""
    sender, _ = stack_of([{}])
    sender.down(Frame(A, Address(b"\x09" * 16), (Word("old"),)), 0.0)
    ((_, data),) = sender.flush(0.0).datagrams
    receiver, log = stack_of([{}])
    receiver.address = B
    receiver.receive(data, HERE, 0.0)
    assert receiver.flush(0.0).events == (Misdirected(A, Address(b"\x09" * 16)),)
    assert log == ["0^Misdirected"]


def test_ones_own_multicast_is_ignored_when_the_network_loops_it_back() -> None:
    stack, log = stack_of([{}])
    stack.down(Frame(A, None, (Word("hello"),)), 0.0)
    ((to, data),) = stack.flush(0.0).datagrams
    assert to is None
    log.clear()
    stack.receive(data, HERE, 0.0)
    assert log == []


@pytest.mark.parametrize("data", [b"", b"garbage", b"\xb7R\x02" + b"\xff" * 70_000, b"\xb7R\x63"])
def test_garbage_is_counted_and_dropped(data: bytes) -> None:
    stack, log = stack_of([{}])
    stack.receive(data, HERE, 0.0)
    assert log == []
    assert sum(stack.drops.values()) == 1
    assert stack.statistics()["drops"] == stack.drops


def test_drops_of_layers_are_counted_by_reason() -> None:
    stack, _ = stack_of([{"go": [Dropped("late"), Dropped("late", 2), Dropped("other")]}])
    stack.down(Note("go"), 0.0)
    assert stack.drops == {"late": 3, "other": 1}


def test_two_layers_cannot_claim_one_header_id() -> None:
    class Other(Wire):
        HEADERS: ClassVar[dict[int, type[Header]]] = {1: Header}

    with pytest.raises(ConfigurationError, match="share the header id 1"):
        Stack(A, [Other(), Wire()], "NYC", 1_400)


def test_a_layer_is_asked_for_its_deadline_again_only_after_it_ran() -> None:
    class Timed(Wire):
        asked = 0
        due: float | None = 5.0

        def deadline(self) -> float | None:
            self.asked += 1
            return self.due

        def expire(self, now: float) -> list[Effect]:
            self.due = None
            return [Up(Blocked())]

    layer = Timed()
    stack = Stack(A, [layer], "NYC", 1_400)
    assert [stack.deadline(), stack.deadline()] == [5.0, 5.0]
    assert layer.asked == 1
    stack.expire(4.9)
    assert stack.flush(4.9).events == ()
    stack.expire(5.0)
    assert stack.flush(5.0).events == (Blocked(),)
    assert layer.asked == 2, "asked whether it is still due"
    assert stack.deadline() is None
    assert layer.asked == 3


def test_a_layer_answers_an_announcement_before_it_sees_anything_else() -> None:
    """Frames that a lower layer releases into a new view must not overtake an upper layer's answer to that view."""
    scripts: list[dict[str, list[Effect]]] = [
        {},
        {"go": [Announce(Note("news"))], "news": [Up(Note("mine"))]},
        {"news": [Up(Note("released"))]},
    ]
    stack, log = stack_of(scripts)
    stack.down(Note("go"), 0.0)
    assert log == ["0vgo", "1vgo", "2^news", "1^news", "0^news", "0^mine", "1^released", "0^released"]
