"""A member that receives all unicasts and no multicast: it delivers like the others, and the site continues."""

from __future__ import annotations

import pytest

from relay_lab.sim.network_faults import deaf
from sitestack.config import Order
from tests.harness.script import Script
from tests.harness.stories import say, site, verdict


def with_a_deaf_member(name: str, order: Order) -> Script:
    """As after an interface came back: multicasts stop reaching the member when it is in the view already."""
    script = site("A", "B", "C", order=order)
    script.world.network.faults.append(deaf(script[name].physical))
    return script


@pytest.mark.parametrize("order", ["total", "fifo"])
@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_single_messages_before_silence_are_delivered_by_all_members(name: str, order: Order) -> None:
    script = with_a_deaf_member(name, order)
    for sender in "ABC":
        say(script, sender, f"{sender}1")
    script.run(5.0)
    assert [sorted(script.delivered(each)) for each in "ABC"] == [["A1", "B1", "C1"]] * 3
    verdict(script, order=order)


@pytest.mark.parametrize("order", ["total", "fifo"])
@pytest.mark.parametrize("name", ["A", "C"])
def test_messages_of_a_sender_that_never_pauses_are_delivered_by_all_members(name: str, order: Order) -> None:
    """Several times as many bytes are sent as flow control allows on their way, so credit must come back."""
    script = with_a_deaf_member(name, order)
    accepted: list[str] = []
    for number in range(600):
        word = f"{number}".ljust(30_000, ".")
        if script["B"].send(word.encode()):
            accepted.append(word)
        script.run(0.03)
    assert len(accepted) > 200
    script.run(10.0)
    assert [script.delivered(each) == accepted for each in "ABC"] == [True] * 3
    verdict(script, order=order)


def test_a_deaf_joiner_is_let_in_and_delivers() -> None:
    script = site("A", "B")
    late = script.start("NYC", "C")
    script.world.network.faults.append(deaf(late.physical))
    script.view("A", "B", "C", within=10.0)
    say(script, "B", "1", "2")
    script.run(3.0)
    assert script.delivered("C") == ["1", "2"]
    verdict(script)
