"""Frames that a layer does not register for pass it without a call, unchanged."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

import pytest

from relay.layer import RelayConfig, RelayLayer
from sitestack.assembly import build_layers
from sitestack.config import SiteConfig
from sitestack.layers.fragment import Fragment
from sitestack.model.address import Physical
from sitestack.model.events import Blocked, Event
from sitestack.model.frame import Destination, Frame, Header
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.stack.layer import Announce, Down, Effect, Layer, Local, Transmit, Up
from sitestack.stack.stack import Stack, collect_headers
from sitestack.wire.codec import Codec
from tests.harness.addresses import address

A, B = map(address, "AB")
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
        if isinstance(layer, Fragment):
            layer.bind(Codec("NYC", collect_headers(layers)))
    return layers


@pytest.mark.parametrize("layer", all_layers(), ids=lambda layer: layer.name)
def test_a_layer_lets_pass_what_it_says_that_it_need_not_see(layer: Layer) -> None:
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
def test_up_goes_a_frame_to_those_who_see_all_and_to_the_owner_of_its_last_header(
    headers: tuple[Header, ...], seen: str
) -> None:
    stack, log = noting_stack()
    stack.codec = Codec("NYC", {1: Own, 2: Foreign})
    batch = Batch("NYC", B, Scope.ALL, 1, 1, pack_body([b"x"]))
    data = stack.codec.encode_datagram(B, None, [stack.codec.encode_frame(Frame(B, None, headers, batch))])
    stack.receive(data, SOMEBODY, 0.0)
    assert " ".join(log) == seen


@pytest.mark.parametrize(("dest", "seen"), [(None, "topv bottomv"), (SOMEBODY, "topv bottomv"), (B, "topv middlev bottomv")])
def test_down_goes_a_unicast_or_a_multicast_to_those_who_want_to_see_it(dest: Destination, seen: str) -> None:
    stack, log = noting_stack()
    stack.down(Frame(A, dest), 0.0)
    assert " ".join(log) == seen


def test_nothing_passes_a_layer_whose_answer_to_an_announcement_is_not_carried_out_yet() -> None:
    stack, _ = noting_stack()
    stack.down(Blocked(), 0.0)
    blocked, *answers = stack.flush(0.0).events
    assert blocked == Blocked()
    assert answers == [Frame(A, B, (Foreign(label),)) for label in ("top", "middle", "bottom")]


def test_a_tap_is_shown_every_layer() -> None:
    stack, log = noting_stack()
    stack.tap = lambda name, effect: None
    stack.down(Frame(A, None), 0.0)
    assert log == ["topv", "middlev", "bottomv"]
