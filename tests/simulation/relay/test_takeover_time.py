"""How long the other site hears nothing when a relay dies or stands still: in virtual time, with all defaults.

A packet takes about a millisecond inside a site, and up to ten across the bridge.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from relay.events import BridgeSend, Duty, Role
from relay.gateway.config import GatewayConfig
from sitestack.journal import records
from sitestack.layers.failure_detection import FailureDetectionConfig
from tests.harness.linked_sites import Sites, two_sites
from tests.harness.stories import verdict
from tests.harness.thinned import one_in

#: Seconds after a kill: closed connection, view change, call, HELLO and STATE both ways, replay, the other site's own stream.
KILLED_S = 0.1
#: Seconds after a pause, which closes no connection: first the silence must last for the timeouts of detection.
STANDS_STILL_S = FailureDetectionConfig().timeout_s + FailureDetectionConfig().verify_timeout_s + 0.5
SEND_INTERVAL_S = 0.005


def talk(script: Sites, name: str, seconds: float) -> None:
    """Let this member send all the time from now on, for this long."""

    def say() -> None:
        script[name].send(b"x")

    for n in range(round(seconds / SEND_INTERVAL_S)):
        script.world.schedule.after(n * SEND_INTERVAL_S, say)


def longest_silence_s(script: Sites, since: float, heard: str = "NYC", listeners: str = "DEF") -> float:
    """The longest time (s) in which one of the listeners heard nothing of site `heard`; the time until now counts too."""
    assert script.world.now > since + 4 * KILLED_S
    silences = []
    for name in listeners:
        times = [r.t / 1e9 for r in script[name].records if isinstance(r, records.Deliver) and r.site == heard]
        times = [time for time in times if time >= since] + [script.world.now]
        silences.append(max(after - before for before, after in pairwise([since, *times])))
    return max(silences)


def relays(script: Sites, name: str) -> bool:
    roles = [event for event in script[name].events if isinstance(event, Role)]
    return bool(roles) and roles[-1].duty is Duty.RELAY


def takes_over(script: Sites) -> None:
    """Wait for the end of A; then B relays soon."""
    script.until(lambda: not script["A"].alive, "the end of A")
    killed = script.world.now
    script.run(0.5)
    assert longest_silence_s(script, killed) <= KILLED_S
    assert relays(script, "B")
    verdict(script)


@pytest.mark.conforms("REL-12")
@pytest.mark.parametrize("chunk", one_in(3, range(1, 9)))
def test_the_next_in_line_relays_after_a_death_at_any_bridge_write_of_the_relay(chunk: int) -> None:
    """The relay dies right after it has handed a chunk to its connection, before any datagram of that turn has left."""
    script = two_sites()
    sent = 0

    def counts(event: object) -> bool:
        nonlocal sent
        sent += isinstance(event, BridgeSend)
        return sent == chunk

    talk(script, "C", 0.7)
    script.run(0.1)
    script.kill_at("A", counts)
    takes_over(script)


@pytest.mark.conforms("REL-12")
@pytest.mark.parametrize("step", one_in(4, range(0, 48, 3)))
def test_the_third_in_line_relays_when_the_second_dies_during_its_takeover(step: int) -> None:
    """The second dies shortly after the relay: while it flushes, changes the view, calls, sends HELLO, or replays."""
    script = two_sites()
    talk(script, "C", 0.8)
    script.run(0.1)
    killed = script.world.now
    script.kill("A")
    script.run(step / 1_000)
    script.kill("B")
    script.run(0.5)
    assert longest_silence_s(script, killed) <= step / 1_000 + KILLED_S
    assert relays(script, "C")
    script.run(GatewayConfig().grace_s)  # C alone is the smaller part of its last view: A and B are shown for so long
    verdict(script)


@pytest.mark.conforms("REL-12")
def test_the_other_relay_can_die_at_the_same_time() -> None:
    script = two_sites()
    talk(script, "C", 0.7)
    talk(script, "F", 0.7)
    script.run(0.1)
    killed = script.world.now
    script.kill("A", "D")
    script.run(0.5)
    assert longest_silence_s(script, killed, "NYC", "EF") <= 2 * KILLED_S
    assert longest_silence_s(script, killed, "SFO", "BC") <= 2 * KILLED_S
    verdict(script)


@pytest.mark.slow
@pytest.mark.conforms("REL-12")
@pytest.mark.parametrize("later_s", [0.0, 0.25, 0.45])
def test_a_paused_relay_is_replaced_within_the_silence_timeout(later_s: float) -> None:
    """The relay is paused as by SIGSTOP, between any two heartbeats: its connections stay open, so no peer is
    notified.
    """
    script = two_sites()
    talk(script, "C", 0.1 + later_s + STANDS_STILL_S + 0.5)
    script.run(0.1 + later_s)
    stopped = script.world.now
    script["A"].pause()
    script.run(STANDS_STILL_S + 0.5)
    assert longest_silence_s(script, stopped) <= STANDS_STILL_S
    assert relays(script, "B")
    script["A"].resume()
    script.view("A", "B", "C")
    verdict(script)
