"""Losses and detours between sites, on whole sites: traps of JGroups' RELAY beside those of a takeover."""

from __future__ import annotations

import pytest

from relay.events import Unreachable
from relay.gateway.config import GatewayConfig, RoutesConfig
from relay.gateway.wire import RemoteUnicast
from sitestack.layers.batching import BatchingConfig
from sitestack.model.message import Scope
from tests.harness.linked_sites import ACROSS, Sites, formed, two_sites
from tests.harness.stories import numbered, say, verdict


@pytest.mark.conforms("REL-13", "REL-14")
def test_the_third_in_line_relays_unacknowledged_messages_after_two_deaths_at_once() -> None:
    """R4: with a second in line that alone holds a copy, all of it would be lost, silently."""
    script = two_sites()
    mend = script.stall("AB", "DEF")
    say(script, "A", *numbered("a", 1, 2))
    say(script, "C", *numbered("c", 1, 3))
    assert script.delivered("D") == []
    script.kill("A", "B")
    script.view("C")
    script.everybody_has("DEF", "a1", "a2", "c1", "c2", "c3")
    mend()
    script.run(GatewayConfig().grace_s)  # C alone may be the smaller part: A and B are shown for so long
    verdict(script)


@pytest.mark.conforms("REL-5", "REL-13")
def test_messages_lost_on_a_silent_link_are_retransmitted_over_a_new_connection() -> None:
    """R24: a successful write proves nothing. The connection hangs, its bytes are lost, and no process has died."""
    script = two_sites()
    sent = script.relay("A").connections
    assert len(sent) == 1
    before = list(sent)
    script.stall("A", "D")
    say(script, "C", *numbered("c", 1, 3))
    script.run(ACROSS)
    assert script.delivered("D") == []
    script.until(lambda: script["D"].stack.drops.get("link_silent", 0) > 0, "D gives the link up")
    script.world.streams.cuts.clear()
    script.everybody_has("ABCDEF", "c1", "c2", "c3")
    assert list(script.relay("A").connections) != before
    verdict(script)


@pytest.mark.conforms("REL-29")
@pytest.mark.parametrize("order", ["ABC", "CBA"])
def test_a_site_that_dies_under_load_leaves_its_relayed_messages_and_no_gap(order: str) -> None:
    """What any of its messages leaves behind is the same at every member, without a hole, and nothing else is lost by it."""
    script = two_sites()
    sent = {name: numbered(name.lower(), 1, 20) for name in "ABC"}
    for row in zip(*sent.values(), strict=True):
        for name, word in zip("ABC", row, strict=True):
            script.send(name, word)
        script.run(0.01)
    for name in order:
        script.kill(name)
    early = [word for words in sent.values() for word in words[: -round(ACROSS / 0.01)]]
    script.linked(*"DEF")
    assert {view.down for name in "DEF" if (view := script.relay(name).global_view) is not None} == {("NYC",)}
    say(script, "E", "still here")
    script.everywhere("DEF", "still here")
    orders = [script.delivered(name) for name in "DEF"]
    assert orders[0] == orders[1] == orders[2]
    assert set(early) <= set(orders[0])
    for words in sent.values():
        arrived = [word for word in orders[0] if word in words]
        assert arrived == words[: len(arrived)]
    assert [script.gaps(name) for name in "DEF"] == [[], [], []]
    verdict(script)


@pytest.mark.conforms("REL-9", "REL-33")
def test_a_unicast_goes_to_the_site_of_its_target_and_to_no_other() -> None:
    """R17: on the bridge it names a member, and the site in which that member is."""
    script = formed({"NYC": "AB", "SFO": "DE", "LON": "GH"}, RemoteUnicast)
    script.send("B", "for you", to=script.proxy("E"))
    script.everywhere("E", "for you", within=1.0)
    crossed = [line.partition(":")[0] for line in script.transcript.lines if " => " in line]
    assert crossed == ["A => D"]
    assert all(script.delivered(name) == [] for name in "ABDGH")
    assert all(not script[name].stack.drops.get("unresolved", 0) for name in "GH")
    verdict(script)


@pytest.mark.conforms("REL-9")
@pytest.mark.parametrize("sender", ["A", "B"])
def test_a_unicast_to_another_site_may_be_as_large_as_any_message(sender: str) -> None:
    """With the defaults nothing on the way is smaller, and what follows it does not wait for long."""
    script = two_sites()
    largest = BatchingConfig().message_bytes_max
    assert script[sender].send(b"x" * largest, Scope.UNICAST, script.proxy("E"))
    script.until(lambda: script[sender].batching.writable, "there is credit again")
    script.send(sender, "after", to=script.proxy("E"))
    script.until(lambda: len(script.delivered("E")) == 2, "E has both", within=5.0)
    assert [len(text) for text in script.delivered("E")] == [largest, len("after")]
    assert not [event for event in script[sender].events if isinstance(event, Unreachable)]
    verdict(script)


@pytest.mark.conforms("REL-14", "REL-16")
def test_the_successor_of_a_receiving_relay_drops_duplicates_by_origin_number() -> None:
    """S17: D's and E's frames are different ones in their streams, with the same message inside."""
    script = two_sites()
    script.stall("DEF", "A")  # no acknowledgement comes back, so all of it is sent again
    say(script, "C", *numbered("c", 1, 3))
    script.everywhere("DEF", "c1", "c2", "c3", within=2.0)
    script.kill("D")
    script.world.streams.cuts.clear()
    script.view("E", "F")
    say(script, "C", "c4")
    script.everybody_has("EF", *numbered("c", 1, 4))
    verdict(script)


# -- three sites in a chain, NYC - LON - SFO: relays die at the ends and in between ----------------------------------------


ENDS = ("NYC", "SFO")


def chain() -> Sites:
    """A, B, C in NYC; L, M, N in LON; D, E, F in SFO."""
    routes = {
        "NYC": RoutesConfig({"SFO": "LON"}),
        "LON": RoutesConfig(forward=ENDS),
        "SFO": RoutesConfig({"NYC": "LON"}),
    }
    return formed({"NYC": "ABC", "LON": "LMN", "SFO": "DEF"}, routes=routes)


@pytest.mark.conforms("REL-33")
@pytest.mark.parametrize("victims", ["A", "L", "D", "ALD"])
def test_whichever_relay_dies_among_messages_nothing_is_lost_or_repeated(victims: str) -> None:
    """And all three together."""
    script = chain()
    for n in range(1, 21):
        script.send("C", f"c{n}")
        script.send("F", f"f{n}")
        script.run(0.003)
        if n == 10:
            script.kill(*victims)
    alive = [name for name in "ABCLMNDEF" if name not in victims]
    script.everybody_has(alive, *numbered("c", 1, 20))
    script.everybody_has(alive, *numbered("f", 1, 20))
    script.linked(*alive)
    verdict(script)
