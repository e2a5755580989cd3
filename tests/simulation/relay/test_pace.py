"""Pace: while a site is linked, or its relay is being replaced, senders wait for it at the budget, and no gap is declared.

A site below the least pace for the grace time, or without a link, is waited for no longer: then the budget trims (X11).
"""

from __future__ import annotations

import pytest

from relay.events import SlowSite
from relay.replica.config import BufferConfig
from relay_lab.sim.tcp_streams import Slowness
from sitestack.journal import records
from sitestack.model.message import Scope
from tests.harness.linked_sites import Sites, formed, two_sites

#: Bytes: two seconds' worth of `LINE`. `CRAWL` takes longer for it than the grace time, so a site behind `CRAWL` is too slow.
BUDGET = BufferConfig(budget_bytes=200_000)
LINE = Slowness(0.02, 100_000.0, 0.2)
CRAWL = Slowness(0.02, 10_000.0, 0.2)


class Flood:
    """A member that sends whenever it may, and counts how often it might not."""

    def __init__(self, script: Sites, name: str, scope: Scope = Scope.ALL, size: int = 1_000) -> None:
        self.script, self.name, self.scope, self.size = script, name, scope, size
        self.sent: list[str] = []
        self.longest_wait_s = self._waited_s = 0.0

    def run(self, seconds: float, every_s: float = 0.005) -> None:
        process = self.script[self.name]
        for _ in range(round(seconds / every_s)):
            word = f"{self.name}{self.scope}{len(self.sent)}".ljust(self.size, ".")
            if process.send(word.encode(), self.scope):
                self.sent.append(word)
                self._waited_s = 0.0
            else:
                self._waited_s += every_s
                self.longest_wait_s = max(self.longest_wait_s, self._waited_s)
            self.script.run(every_s)


def slow_line(script: Sites, one: str, other: str, slowness: Slowness) -> None:
    """Slow down all that is sent between the hosts of these members from now on."""
    ends = [frozenset(map(script.host, names)) for names in (one, other)]
    script.world.streams.slow[:0] = [(ends[0], ends[1], slowness), (ends[1], ends[0], slowness)]


def slowed(script: Sites, name: str) -> list[bool]:
    """Return a member's notifications of slow and fast sites, in order."""
    return [event.is_slow for event in script[name].events if isinstance(event, SlowSite)]


def test_a_sender_faster_than_the_link_waits_and_loses_no_message() -> None:
    script = two_sites(budget=BUDGET)
    slow_line(script, "ABC", "DEF", LINE)
    flood = Flood(script, "B")
    flood.run(20.0)
    buffers = [script.relay(name).relay.state.buffer for name in "ABC"]
    assert script.relay("B").paced > 0
    assert max(each.bytes_high for each in buffers) < 2 * BUDGET.budget_bytes
    assert 20.0 * 100_000 * 0.5 < len(flood.sent) * 1_000 < 20.0 * 100_000 * 1.2, "at the pace of the line"
    script.everybody_has("DEF", *flood.sent)
    assert slowed(script, "C") == []


def test_messages_to_the_own_site_and_to_one_member_do_not_wait() -> None:
    script = two_sites(budget=BUDGET)
    slow_line(script, "ABC", "DEF", CRAWL)
    flood = Flood(script, "B")
    flood.run(2.0)
    assert not script["B"].send(b"x"), "relayed ones wait"
    assert script["B"].send(b"to the site", Scope.SITE)
    assert script["B"].send(b"to a member", Scope.UNICAST, script["C"].local.address)
    assert script["B"].send(b"to a member elsewhere", Scope.UNICAST, script.proxy("E"))
    script.until(lambda: {"to the site", "to a member"} <= {*script.delivered("C")}, "C has both", within=0.5)


@pytest.mark.long
def test_senders_wait_for_a_site_below_the_least_pace_for_a_grace_time_before_gaps() -> None:
    """X11: a site continues as if alone. Once the line is whole, its senders wait again before any loss."""
    script = two_sites(budget=BUDGET)
    slow_line(script, "ABC", "DEF", CRAWL)
    flood = Flood(script, "B")
    flood.run(script.configs["NYC"][1].gateway.grace_s + 3.0)
    assert flood.longest_wait_s > 1.0
    free = Flood(script, "A", size=900)
    free.run(10.0)
    assert free.longest_wait_s == 0.0
    assert [slowed(script, name) for name in "ABC"] == [[True]] * 3
    script.everywhere("ABC", *flood.sent, *free.sent)
    del script.world.streams.slow[:2]
    script.until(lambda: slowed(script, "C") == [True, False], "it keeps up again", within=60.0)
    script.run(5.0)
    assert script.gaps("E")
    before = script.gaps("E")
    slow_line(script, "ABC", "DEF", LINE)
    again = Flood(script, "C")
    again.run(10.0)
    script.everywhere("DEF", *again.sent)
    assert script.gaps("E") == before


@pytest.mark.long
def test_without_a_link_a_site_is_waited_for_until_it_is_down() -> None:
    script = two_sites(budget=BUDGET)
    mend = script.part("ABC", "DEF")
    flood = Flood(script, "B")
    flood.run(40.0)
    assert flood.longest_wait_s < script.configs["NYC"][1].gateway.grace_s + 5.0
    script.everywhere("ABC", *flood.sent)
    mend()
    script.until(lambda: bool(script.gaps("E")), "what the budget took is told", within=30.0)
    reasons = {record.reason for record in script["E"].records if isinstance(record, records.Gap)}
    assert reasons == {"budget"}


def test_for_a_site_that_the_operator_wants_to_be_waited_for_nothing_is_lost_however_long_it_is_away() -> None:
    script = formed({"NYC": "ABC", "SFO": "DEF"}, budget=BUDGET, wait_for="SFO")
    mend = script.part("ABC", "DEF")
    flood = Flood(script, "B")
    flood.run(60.0)
    assert flood.longest_wait_s > 50.0
    mend()
    flood.run(5.0)
    assert len(flood.sent) > 200
    script.everybody_has("DEF", *flood.sent)


@pytest.mark.long
def test_a_fast_and_a_slow_site_both_receive_all_messages_without_a_gap() -> None:
    script = formed({"LON": "GH", "NYC": "ABC", "SFO": "DE"}, budget=BUDGET)
    slow_line(script, "ABC", "DE", LINE)
    flood = Flood(script, "B")
    flood.run(15.0)
    assert script.relay("B").paced > 0
    script.everybody_has("DEGH", *flood.sent)


@pytest.mark.long
@pytest.mark.parametrize("relay", ["A", "D"])
def test_senders_continue_at_the_rate_of_the_link_after_either_relay_dies(relay: str) -> None:
    script = two_sites(budget=BUDGET)
    slow_line(script, "ABC", "DEF", LINE)
    flood = Flood(script, "B")
    flood.run(5.0)
    script.kill(relay)
    flood.run(10.0)
    before = len(flood.sent)
    flood.run(5.0)
    assert len(flood.sent) - before > 5.0 * 100 * 0.5
    script.everybody_has("DEF".replace(relay, ""), *flood.sent)
