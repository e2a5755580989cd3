"""The turn loop: the order of its inputs and of its effects."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from relay.layer import RelayConfig, RelayLayer
from sitestack.assembly import build_layers
from sitestack.config import SiteConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import Blocked, Event, ShellEffect
from sitestack.model.frame import Destination, Frame, Header
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.stack.layer import Announce, Down, Effect, Layer, Local, Transmit, Up
from sitestack.stack.stack import Stack, collect_headers
from sitestack.stack.turn import STEPS, TURN_FRAMES_MAX, Shell, TurnLoop
from sitestack.wire.codec import FRAMES_MAX, Codec
from tests.sitestack.stack.test_stack import HERE, A, B, Note, Word


@dataclass(frozen=True, slots=True)
class Order(ShellEffect):
    text: str


class Talker(Layer):
    """Sends its scripted and due frames at the end of a turn."""

    name = "talker"
    HEADERS: ClassVar[dict[int, type[Header]]] = {1: Word}

    def __init__(self) -> None:
        self.says: list[Effect] = []
        self.due: float | None = None
        self.log: list[str] = []

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        self.log.append("up")
        return []

    def expire(self, now: float) -> list[Effect]:
        self.log.append("expire")
        self.due = None
        return []

    def flush(self, now: float) -> list[Effect]:
        self.log.append("flush")
        says, self.says = self.says, []
        return says

    def deadline(self) -> float | None:
        return self.due


def say_x() -> Effect:
    return Transmit(HERE, Frame(A, None, (Word("x"),)))


def member() -> tuple[Talker, list[tuple[str, Any]], TurnLoop]:
    """Return a layer, the calls of its shell, and the loop."""
    layer, done = Talker(), list[tuple[str, Any]]()

    def step(name: str) -> Callable[[Any], None]:
        return lambda what: done.append((name, what))

    shell = Shell(step("journal"), step("transmit"), step("act"), step("hand_over"))
    return layer, done, TurnLoop(Stack(A, [layer], "NYC", 1_400), shell)


def test_a_turn_is_carried_out_in_the_order_that_is_decided() -> None:
    layer, done, loop = member()
    layer.says = [Up(Order("write")), Up(Note("delivered")), say_x(), Up(Note("too"))]
    loop.turn([], 0.0)
    assert tuple(name for name, _ in done) == STEPS
    journaled, sent, acted, handed_over = [what for _, what in done]
    assert journaled == handed_over == (Note("delivered"), Note("too"))
    assert acted == (Order("write"),)
    assert [to for to, _ in sent] == [HERE]


def test_a_turn_without_anything_is_carried_out_too() -> None:
    _, done, loop = member()
    loop.turn([], 0.0)
    assert done == [(name, ()) for name in STEPS]


def test_when_the_journal_refuses_nothing_leaves() -> None:
    layer, done, _ = member()

    def refuse(what: object) -> None:
        raise OSError("the disk is full")

    loop = TurnLoop(Stack(A, [layer], "NYC", 1_400), Shell(refuse, *[lambda what: done.append(("", what))] * 3))
    layer.says = [Up(Note("delivered")), say_x(), Up(Order("write"))]
    with pytest.raises(OSError, match="full"):
        loop.turn([], 0.0)
    assert done == []


def test_a_turn_handles_arrivals_then_due_timers_and_then_the_flush() -> None:
    layer, done, loop = member()
    layer.says = [say_x()]
    loop.turn([], 0.0)
    [(_, data)] = done[1][1]
    other = Talker()
    other.due = 5.0
    receiver = TurnLoop(Stack(Address(b"\x02" * 16), [other], "NYC", 1_400), Shell(*[lambda what: None] * 4))
    receiver.turn([], 4.0)
    assert (other.log, receiver.due) == (["flush"], 5.0)
    receiver.turn([(data, HERE)], 5.0)
    assert (other.log, receiver.due) == (["flush", "up", "expire", "flush"], None)


# -- a flood -------------------------------------------------------------------------------------------------------------


def full_datagram(to: Address) -> tuple[bytes, Physical]:
    """As many small frames as a datagram may have."""
    codec = Stack(A, [Talker()], "NYC", 1_400).codec
    frame = codec.encode_frame(Frame(A, to, (Word("x" * 32),)))
    return codec.encode_datagram(A, to, [frame] * FRAMES_MAX), HERE


def test_a_flood_is_bounded_per_turn_and_due_timers_still_run() -> None:
    """A turn takes a limited number of frames; the rest waits, in order, and the next turn is due at once."""
    other, to = Talker(), Address(b"\x02" * 16)
    loop = TurnLoop(Stack(to, [other], "NYC", 1_400), Shell(*[lambda what: None] * 4))
    flood = [full_datagram(to)] * 40
    arrived: list[tuple[bytes, Physical]] = flood
    turns = 0
    while arrived or loop.is_behind:
        other.due = 5.0
        loop.turn(arrived, 5.0)
        arrived, turns = [], turns + 1
        taken = other.log.count("up")
        assert 0 < taken <= TURN_FRAMES_MAX + FRAMES_MAX
        assert other.log[taken:] == ["expire", "flush"] or turns == 1  # before the first turn nothing was known to be due
        assert loop.due == (5.0 if loop.is_behind else None)
        other.log.clear()
    assert turns >= 40 * FRAMES_MAX / (TURN_FRAMES_MAX + FRAMES_MAX)


def test_a_late_turn_ends_after_one_datagram() -> None:
    other, to = Talker(), Address(b"\x02" * 16)
    loop = TurnLoop(Stack(to, [other], "NYC", 1_400), Shell(*[lambda what: None] * 4), is_late=lambda began: True)
    loop.turn([full_datagram(to)] * 3, 1.0)
    assert (other.log.count("up"), loop.is_behind, loop.due) == (FRAMES_MAX, True, 1.0)
    loop.turn([], 2.0)
    loop.turn([], 3.0)
    assert (other.log.count("up"), loop.is_behind, loop.due) == (3 * FRAMES_MAX, False, None)


def test_a_receiver_accepts_all_bundled_frames_of_a_sender() -> None:
    """The smallest frames there are: a datagram has few of them, and all arrive."""
    layer, other, to = Talker(), Talker(), Address(b"\x02" * 16)
    sender = Stack(A, [layer], "NYC", 60_000)
    layer.says = [Transmit(HERE, Frame(A, to, (Word(""),)))] * 5_000
    datagrams = sender.flush(0.0).datagrams
    receiver = Stack(to, [other], "NYC", 60_000)
    for _, data in datagrams:
        receiver.receive(data, HERE, 0.0)
    assert (other.log.count("up"), receiver.drops) == (5_000, {})
    assert len(datagrams) > 5_000 / FRAMES_MAX


SOMEBODY = Physical("10.0.0.2", 1)
BATCH = Batch("NYC", B, Scope.ALL, 1, 1, b"\0\0\0\0")


@dataclass(frozen=True, slots=True)
class Foreign(Header):
    """Of no layer in the stack."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class Own(Header):
    """Of the layer in the middle."""


def all_layers() -> list[Layer]:
    local = Local("NYC", A, "a", random.Random(1))
    layers = [*build_layers(local, SiteConfig(site="NYC")), RelayLayer(local, RelayConfig())]
    for layer in layers:
        layer.codec = Codec("NYC", collect_headers(layers))
    return layers


@pytest.mark.parametrize("layer", all_layers(), ids=lambda layer: layer.name)
def test_a_layer_passes_on_frames_that_it_declares_not_to_need(layer: Layer) -> None:
    for headers in ((), (Foreign(),)):
        for batch in (None, BATCH):
            for dest in (None, A, SOMEBODY):
                for unreliable in (False, True):
                    frame = Frame(B, dest, headers, batch, unreliable)
                    if layer.FRAMES_UP == "own":
                        assert layer.up(frame, 0.0) == [Up(frame)]
                    kind = "unicasts" if dest == A else "multicasts"
                    if layer.FRAMES_DOWN not in ("all", kind):
                        assert layer.down(frame, 0.0) == [Down(frame)]


class Noting(Layer):
    """Records the frames that it gets."""

    name = "noting"

    def __init__(self, label: str, log: list[str]) -> None:
        self.label, self.log = label, log

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        self.log.append(f"{self.label}^")
        return [Up(event)] if isinstance(event, Frame) else [Up(Frame(A, B, (Foreign(self.label),)))]

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        self.log.append(f"{self.label}v")
        return [Down(event)]


class Silent(Layer):
    """Sends nothing."""

    name = "silent"


class Middle(Noting):
    HEADERS: ClassVar[dict[int, type[Header]]] = {1: Own}
    FRAMES_UP = "own"
    FRAMES_DOWN = "unicasts"


class Bottom(Noting):
    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        self.log.append(f"{self.label}v")
        return [Transmit(None, event)] if isinstance(event, Frame) else [Announce(event)]


def noting_stack() -> tuple[Stack, list[str]]:
    log: list[str] = []
    layers: list[Layer] = [Noting("top", log), Middle("middle", log), Silent(), Bottom("bottom", log)]
    return Stack(A, layers, "NYC", 1_400), log


@pytest.mark.parametrize(
    ("headers", "seen"),
    [((), "bottom^ top^"), ((Own(),), "bottom^ middle^ top^"), ((Own(), Foreign()), "bottom^ top^")],
)
def test_up_a_frame_visits_layers_that_see_all_and_the_owner_of_its_last_header(headers: tuple[Header, ...], seen: str) -> None:
    stack, log = noting_stack()
    stack.codec = Codec("NYC", {1: Own, 2: Foreign})
    batch = Batch("NYC", B, Scope.ALL, 1, 1, pack_body([b"x"]))
    data = stack.codec.encode_datagram(B, None, [stack.codec.encode_frame(Frame(B, None, headers, batch))])
    stack.receive(data, SOMEBODY, 0.0)
    assert " ".join(log) == seen


@pytest.mark.parametrize(("dest", "seen"), [(None, "topv bottomv"), (SOMEBODY, "topv bottomv"), (B, "topv middlev bottomv")])
def test_down_a_unicast_or_multicast_visits_the_layers_that_want_its_kind(dest: Destination, seen: str) -> None:
    stack, log = noting_stack()
    stack.down(Frame(A, dest), 0.0)
    assert " ".join(log) == seen


def test_nothing_passes_a_layer_whose_answer_to_an_announcement_is_not_carried_out_yet() -> None:
    stack, _ = noting_stack()
    stack.down(Blocked(), 0.0)
    blocked, *answers = stack.flush(0.0).events
    assert blocked == Blocked()
    assert answers == [Frame(A, B, (Foreign(label),)) for label in ("top", "middle", "bottom")]
