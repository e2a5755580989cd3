"""Uniform agreement: unstable messages wait, in order, and a view waits for no message after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from relay_lab.sim.world import World
from sitestack.config import SiteConfig
from sitestack.layers.uniform import Uniform
from sitestack.model.events import Event, Settled, Stable, ViewInstalled
from sitestack.model.frame import Frame
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Up
from tests.harness.addresses import address
from tests.harness.script import Script, site_maker

A, B = map(address, "AB")
VIEW = View(ViewId(1, A), ViewId(1, A), (A, B), ("A", "B"))


@dataclass(frozen=True, slots=True)
class InStream(Event):
    in_stream: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Aside(Event):
    pass


def layer() -> Uniform:
    made = Uniform()
    made.up(ViewInstalled(VIEW, None), 0.0)
    return made


def cast(n: int) -> Frame:
    return Frame(A, None, (), Batch("NYC", A, Scope.ALL, n, 1, pack_body([b"x"])), False, n, A)


def test_a_multicast_and_later_stream_events_wait_until_it_is_stable() -> None:
    uniform = layer()
    assert uniform.up(cast(1), 0.0) == []
    assert uniform.up(InStream(), 0.0) == []
    assert uniform.up(cast(2), 0.0) == []
    assert uniform.up(Stable({A: 1}), 0.0) == [Up(cast(1)), Up(InStream())]
    assert uniform.up(Stable({A: 2}), 0.0) == [Up(cast(2))]
    assert uniform.up(InStream(), 0.0) == [Up(InStream())]


def test_a_unicast_and_an_event_outside_the_stream_do_not_wait() -> None:
    uniform = layer()
    uniform.up(cast(1), 0.0)
    unicast = Frame(A, B, (), Batch("NYC", A, Scope.UNICAST, 1, 1, pack_body([b"x"]), B, "NYC"))
    assert uniform.up(unicast, 0.0) == [Up(unicast)]
    assert uniform.up(Aside(), 0.0) == [Up(Aside())]


def test_a_flush_delivers_waiting_messages_before_the_view() -> None:
    uniform = layer()
    uniform.up(cast(1), 0.0)
    assert uniform.up(Settled(), 0.0) == [Up(cast(1))]
    uniform.up(ViewInstalled(VIEW, VIEW), 0.0)
    assert uniform.up(cast(1), 0.0) == [], "numbers start again, and so does what is stable"


@pytest.mark.conforms("SEQ-24")
@pytest.mark.parametrize("agreement", ["survivors", "uniform"])
def test_only_survivor_agreement_lets_a_coordinator_deliver_a_message_it_alone_has(agreement: str) -> None:
    """The coordinator's multicast reaches no other member, and it dies."""
    script = Script(World(1, site_maker(SiteConfig(site="NYC", agreement=agreement))))  # type: ignore[arg-type]  # a parameter
    script.site("NYC", "A", "B", "C")
    coordinator = script.world.coordinator("NYC")
    assert coordinator is not None
    name = coordinator.local.name
    script.hold(name, [other for other in "ABC" if other != name])
    script.send(name, "m")
    script.run(0.2)
    script.kill(name)
    script.run(5.0)
    assert script.delivered(name) == (["m"] if agreement == "survivors" else [])
    assert all(script.delivered(other) == [] for other in "ABC" if other != name)
