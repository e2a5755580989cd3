"""A coordinator is paused while it sends, and wakes: the others have a new view, so it waits for the merge."""

from __future__ import annotations

import pytest

from relay.events import GlobalView
from relay_lab.sim.process import SOCKET_DATAGRAMS_MAX
from sitestack.layers.failure_detection import Alive
from sitestack.layers.membership import Membership
from sitestack.model.address import Physical
from sitestack.model.frame import Frame, Header
from sitestack.model.view import ViewId
from tests.harness.linked_sites import Sites, two_sites
from tests.harness.stories import layer, verdict

#: Seconds for which A stands still: longer than its site needs to exclude it, and than the grace time of the other site.
ASLEEP_S = 10.5
#: Seconds between two rounds of messages.
ROUND_S = 0.05


class Sender:
    """A sends a few messages each round, whatever happens; `sent` counts them."""

    def __init__(self, script: Sites) -> None:
        self.script = script
        self.sent = 0

    def keep_on(self, seconds: float) -> None:
        end = self.script.world.now + seconds
        while self.script.world.now < end:
            for _ in range(3):
                self.sent += self.script["A"].send(b"a%d" % self.sent)
            self.script.run(ROUND_S)


def woken() -> tuple[Sites, Sender, int]:
    """A has slept and is about to wake; also returned: how many messages D has had of it until now."""
    script = two_sites()
    sender = Sender(script)
    sender.keep_on(0.5)
    script["A"].pause()
    script.view("B", "C")
    script.send("B", "without you")
    script.run(ASLEEP_S - 4.0)
    had = len(script.delivered("D"))
    script["A"].resume()
    return script, sender, had


def of_a(script: Sites, name: str) -> list[str]:
    """What this process has delivered of A."""
    return [text for text in script.delivered(name) if text.startswith("a")]


def is_quarantined(script: Sites, name: str) -> bool:
    return bool(layer(script, name, Membership).levels()["blocked"].now)


def test_a_coordinator_that_wakes_sends_nothing_that_its_own_site_does_not_get() -> None:
    """S20: without the quarantine two thousand of its messages were delivered at the other site and never at its own."""
    script, sender, _ = woken()
    before = script.delivered("A")
    seen = len(script["D"].events)
    sender.keep_on(2.0)
    assert script.delivered("A") == before
    script.view("A", "B", "C")
    sender.keep_on(0.5)
    script.run(3.0)
    for name in "ABCDEF":
        assert of_a(script, name) == [f"a{n}" for n in range(sender.sent)], name
    everybody = {script.proxy(name) for name in "BCDEF"}
    shown = [event for event in script["D"].events[seen:] if isinstance(event, GlobalView)]
    assert all(everybody <= set(view.members) for view in shown), "B and C are alive and linked"
    verdict(script)


def test_a_coordinator_that_wakes_orders_nothing_before_it_knows_that_it_is_a_member() -> None:
    """Its socket is full of datagrams from before it was excluded, and the next heartbeat comes half a second later."""
    script = two_sites()
    sender = Sender(script)
    sender.keep_on(0.5)
    script["A"].pause()
    for _ in range(SOCKET_DATAGRAMS_MAX):
        script["A"].receive(b"old", script.hosts["B"])
    script.view("B", "C")
    script.run(ASLEEP_S - 4.0)
    before = script.delivered("A")
    had = of_a(script, "D")
    script["A"].resume()
    script.run(0.001)
    assert is_quarantined(script, "A")
    sender.keep_on(0.4)
    assert [text for text in of_a(script, "A") if text not in before] == []
    assert of_a(script, "D") == had
    script.view("A", "B", "C")
    script.run(3.0)
    for name in "ABCDEF":
        assert of_a(script, name) == [f"a{n}" for n in range(sender.sent)], name
    verdict(script)


@pytest.mark.parametrize("pause_s", [1.5, 2.5])
def test_a_coordinator_that_was_not_excluded_continues_after_the_next_heartbeat(pause_s: float) -> None:
    script = two_sites()
    view = script["A"].view
    script["A"].pause()
    script.run(pause_s)
    script["A"].resume()
    script.run(0.6)
    assert not is_quarantined(script, "A")
    script.send("A", "a")
    script.everywhere("ABCDEF", "a")
    assert script["A"].view == view
    verdict(script)


def test_a_quarantined_member_continues_alone_after_the_others_die() -> None:
    script, sender, _ = woken()
    script.run(0.6)
    assert is_quarantined(script, "A")
    script.kill("B", "C")
    sender.keep_on(9.0)
    script.view("A")
    assert not is_quarantined(script, "A")
    sender.keep_on(0.5)
    script.everywhere("ADEF", f"a{sender.sent - 1}")
    verdict(script)


def test_a_quarantined_member_continues_alone_after_the_limit_without_a_merge() -> None:
    """A hears B and C, and neither of them hears it."""
    script, sender, had = woken()
    script.cut("A", "BC", "there")
    sender.keep_on(9.0)
    assert is_quarantined(script, "A")
    assert len(script.delivered("D")) == had
    sender.keep_on(2.0)
    assert not is_quarantined(script, "A")
    script.everywhere("ADEF", f"a{sender.sent - 1}")
    script.heal("A", "B", "C", within=120.0)
    verdict(script)


def say(script: Sites, source: str, target: str, header: Header) -> None:
    """A datagram to one member that was not sent by the one that it names."""
    codec, sender = script[target].stack.codec, script[source].local.address
    data = codec.encode_datagram(sender, None, [codec.encode_frame(Frame(sender, None, (header,), None, True))])
    script[target].receive(data, Physical("10.9.9.9", 9))


@pytest.mark.parametrize("target", ["A", "C"])
def test_one_forged_heartbeat_blocks_a_member_only_briefly(target: str) -> None:
    """It names a view that does not exist: the coordinator, or another member, waits for more such heartbeats, and
    continues.
    """
    script = two_sites()
    view = script["A"].view
    assert view is not None
    say(script, "B", target, Alive(ViewId(view.id.counter + 7, script["B"].local.address)))
    script.run(0.1)
    assert is_quarantined(script, target)
    script.send(target, *[f"{target}{n}" for n in range(5)])
    script.send("B", "b")
    script.send("D", "d")
    script.run(2.5)
    assert script.delivered(target) == []
    script.run(1.0)
    assert not is_quarantined(script, target)
    script.run(3.0)
    for name in "ABCDEF":
        assert sorted(script.delivered(name)) == sorted([*[f"{target}{n}" for n in range(5)], "b", "d"]), name
    assert script["A"].view == view
    verdict(script)
