"""A hole between two members that outlasts `give_up_s`, with a view change each minute: nothing is twice or lost silently."""

from __future__ import annotations

import random

import pytest

from relay_lab.sim.network_faults import Packet
from sitestack.config import SiteConfig
from sitestack.model.events import Undeliverable
from tests.harness.script import Script
from tests.harness.stories import assert_sound, site


def churn(script: Script, seconds: float) -> None:
    """Let a member join and leave every 40 s."""
    for number in range(int(seconds // 40)):
        script.start("NYC", f"J{number}")
        script.run(20)
        script[f"J{number}"].leave()
        script.run(20)


def judge(script: Script, text: str) -> None:
    """Check that R has the message once, or S was notified; and that every other promise holds."""
    delivered = script.delivered("R").count(text)
    told = sum(isinstance(event, Undeliverable) for event in script["S"].events)
    assert delivered <= 1
    assert delivered + told >= 1
    assert_sound(script.world)


@pytest.fixture
def script() -> Script:
    return site("A", "S", "R", config=SiteConfig(site="NYC"))


def test_a_unicast_is_given_up_before_its_receiver_forgets_it(script: Script) -> None:
    script.cut("S", "R", "back")
    script.send("S", "f", to=script["R"].local.address)
    script.until(lambda: "f" in script.delivered("R"), "f at R", 5.0)
    script.cut("S", "R", "there")
    churn(script, 280)
    script.world.network.cuts.clear()
    script.run(30)
    judge(script, "f")


def test_a_large_unicast_is_given_up_before_its_receiver_discards_its_pieces(script: Script) -> None:
    sender, receiver, network = script["S"].physical, script["R"].physical, script.world.network
    passed: list[Packet] = []

    def first_pieces(packet: Packet, rng: random.Random) -> list[Packet]:
        """Three pieces pass, the others are lost, as when a hole opens in the middle."""
        if (packet.source, packet.target) != (sender, receiver) or len(packet.data) < 30_000:
            return [packet]
        passed.append(packet)
        return [packet] if len(passed) <= 3 else []

    network.faults.append(first_pieces)
    text = "B" * 500_000
    script.send("S", text, to=script["R"].local.address)
    script.run(0.06)
    script.cut("S", "R")
    network.faults.remove(first_pieces)
    churn(script, 160)
    network.cuts.clear()
    script.run(90)
    judge(script, text)
