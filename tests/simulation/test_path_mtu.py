"""A network that drops large datagrams: no member is suspected or blocked."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from relay_lab.sim.network_faults import Packet
from sitestack.config import SiteConfig
from sitestack.journal.records import View
from sitestack.model.address import Physical
from sitestack.model.events import NarrowPath
from tests.harness.script import Script
from tests.harness.stories import site, verdict

PLAIN = SiteConfig(site="NYC")
PASSES = 1_400
LARGE = "x" * 10_000
#: Seconds: retransmission requests fail, then sizes are tried.
FOUND_S = 2.0

Rule = Callable[[Packet, random.Random], list[Packet]]


def small_only(into: Physical | None = None, out_of: Physical | None = None, loss: float = 0.0, passes: int = PASSES) -> Rule:
    """Datagrams above `passes` bytes vanish on the way into, or out of, this place; others are lost at that rate."""

    def rule(packet: Packet, rng: random.Random) -> list[Packet]:
        if packet.target != into and packet.source != out_of:
            return [packet]
        return [] if len(packet.data) > passes or rng.random() < loss else [packet]

    return rule


def narrow(script: Script, name: str) -> list[tuple[str, int | None]]:
    """Return this member's reports of sizes."""
    return [(event.name, event.bytes_max) for event in script[name].events if isinstance(event, NarrowPath)]


def say_large(script: Script, names: str, times: int, every_s: float = 0.1) -> list[str]:
    """Let each of these members send a large message, again and again; returns the messages."""
    sent = []
    for turn in range(times):
        for name in names:
            sent.append(f"{name}{turn} {LARGE}")
            script.send(name, sent[-1])
        script.run(every_s)
    return sent


def delivered(script: Script, name: str) -> int:
    return len(script.delivered(name))


@pytest.mark.parametrize("behind", ["C", "A"], ids=["a plain member", "the coordinator"])
@pytest.mark.parametrize(("passes", "loss"), [(PASSES, 0.0), (PASSES, 0.2), (548, 0.0)])
def test_a_member_that_large_datagrams_do_not_reach_gets_everything_in_slices(behind: str, passes: int, loss: float) -> None:
    """Not even a path of the least size stops the others."""
    script = site(*"ABC", config=PLAIN)
    script.world.network.faults.append(small_only(into=script[behind].physical, passes=passes, loss=loss))
    sent = say_large(script, "ABC", 50)
    script.run(FOUND_S if loss == 0.0 else 10.0)
    for name in "ABC":
        assert delivered(script, name) == len(sent), name
    assert any((behind, PASSES) in narrow(script, name) for name in "ABC") or passes < PASSES
    script.view(*"ABC", within=0.0)
    verdict(script)


@pytest.mark.parametrize("behind", ["C", "A"], ids=["a plain member", "the coordinator"])
def test_a_member_whose_large_datagrams_do_not_arrive_sends_them_in_slices(behind: str) -> None:
    script = site(*"ABC", config=PLAIN)
    script.world.network.faults.append(small_only(out_of=script[behind].physical))
    sent = say_large(script, "ABC", 20)
    script.run(FOUND_S)
    for name in "ABC":
        assert delivered(script, name) == len(sent), name
    assert narrow(script, behind)
    verdict(script)


def test_the_others_hardly_wait() -> None:
    """No member is suspected; the window has room for the frames missing behind the hole while sizes are tried."""
    script = site(*"ABC", config=PLAIN)
    script.world.network.faults.append(small_only(into=script["C"].physical))
    before = delivered(script, "B")
    for _ in range(40):
        script.send("A", LARGE)
        script.run(0.05)
        assert delivered(script, "B") > before
        before = delivered(script, "B")
    verdict(script)


def test_a_joiner_behind_such_a_hole_comes_in_at_once() -> None:
    script = site(*"ABC", config=PLAIN)
    say_large(script, "ABC", 5)
    script.world.network.faults.append(small_only(into=script.start("NYC", "X").physical))
    script.view(*"ABCX", within=3.0)
    sent = say_large(script, "ABCX", 20)
    script.run(FOUND_S)
    assert delivered(script, "X") == len(sent)
    assert len([each for each in script["A"].records if isinstance(each, View)]) == 4
    verdict(script)


def test_loss_alone_is_not_taken_for_a_hole() -> None:
    """A doubt has the sizes tried; where large ones pass, nothing is cut."""
    script = site(*"ABC", config=PLAIN)

    def lossy(packet: Packet, rng: random.Random) -> list[Packet]:
        return [] if rng.random() < 0.3 else [packet]

    script.world.network.faults.append(lossy)
    sent = say_large(script, "ABC", 100)
    script.world.network.faults.clear()
    script.run(40.0)
    assert [
        narrow(script, name)[-1:] for name in "ABC" if narrow(script, name) and narrow(script, name)[-1][1] is not None
    ] == []
    assert all(delivered(script, name) == len(sent) for name in "ABC")
    verdict(script)
