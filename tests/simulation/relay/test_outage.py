"""A temporary outage of the relay (a todo of JGroups' RELAY), at every moment: it costs time, and nothing else."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import pytest

from relay.events import BridgeSend
from relay.gateway.config import LinkConfig
from relay.replica.config import BufferConfig, SpillSettings
from relay_lab.sim.tcp_streams import Slowness
from tests.harness.linked_sites import Sites
from tests.harness.stories import SETTLED, SOON, assert_sound, verdict
from tests.harness.thinned import one_in


def _say(sites: Sites, name: str, n: int) -> None:
    sites[name].send(f"{name}{n}".encode())


def _has(sites: Sites, name: str, text: str) -> bool:
    return text in sites.delivered(name)


@pytest.mark.conforms("REL-12", "REL-13", "REL-31", "USR-3")
@pytest.mark.parametrize("datagrams", one_in(3, range(12)))
def test_a_relay_that_dies_at_any_datagram_loses_duplicates_and_reorders_nothing(datagrams: int) -> None:
    """REL-13, 14, 26 and 27 together; and the other site hears again within half a second of virtual time."""
    sites = Sites({"NYC": "ABC", "SFO": "DEF"}, BufferConfig())
    sites.form(*"ABCDEF")
    world = sites.world
    for n in range(200):
        for name in "BCE":
            world.schedule.after(n * 0.01, partial(_say, sites, name, n))
    world.run(0.5)
    sites["A"].dies_after = datagrams
    world.run(8.0)
    assert not sites["A"].alive
    assert_sound(world)
    heard = [r.t for r in sites["F"].records if type(r).__name__ == "Deliver" and r.site == "NYC"]  # type: ignore[union-attr]
    longest = max(b - a for a, b in itertools.pairwise(heard))
    assert longest < 0.5e9, "by closed connections, not by silence"


def test_a_bridge_of_nearly_three_seconds_there_and_back_comes_up_and_stays() -> None:
    """F26: a bloated queue between the sites delays everything, HELLO and STATE included."""
    sites = Sites({"NYC": "A", "SFO": "D"}, BufferConfig())
    hosts = frozenset(each.host for each in sites.hosts.values())
    sites.world.streams.slow.append((hosts, hosts, Slowness(1.45)))
    sites.form("A", "D")
    sites.run(20)
    sites["A"].send(b"late")
    sites.run(20)
    assert _has(sites, "D", "late")
    assert [reason for name in "AD" for reason in sites[name].stack.drops if reason.startswith("link_")] == []


@pytest.mark.conforms("SEQ-21")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_many_senders_during_a_failover_all_first_messages_come_before_any_second(seed: int) -> None:
    """Five senders; a second message is sent when the sender has delivered all five first ones."""
    sites = Sites({"NYC": "ABCDEF"}, BufferConfig())
    sites.form(*"ABCDEF")
    senders = "BCDEF"
    sent_second: set[str] = set()

    def second() -> None:
        for name in senders:
            if name not in sent_second and sum(text.endswith("1") for text in sites.delivered(name)) == len(senders):
                sent_second.add(name)
                sites.send(name, f"{name}2")

    for name in senders:
        sites.send(name, f"{name}1")
    sites["A"].dies_after = seed
    for step in range(1, 400):
        sites.world.schedule.after(step * 0.01, second)
    sites.run(6.0)
    orders = [sites.delivered(name) for name in senders]
    assert all(order == orders[0] for order in orders)
    assert [text[-1] for text in orders[0]] == ["1"] * 5 + ["2"] * 5


# -- a cut far beyond the budget, with a spill: the relay dies in the middle of the replay ---------------------------------


SPILLED = BufferConfig(budget_entries=8, spill=SpillSettings(1 << 30, 1e6))
WORDS = 120


def cut_off() -> Sites:
    """Return sites whose senders no longer wait for SFO, and have sent fifteen times the budget.

    A link carries a few messages at a time, so that a replay has a middle.
    """
    script = Sites({"NYC": "ABC", "SFO": "DEF"}, SPILLED)
    for site, (own, relay) in script.configs.items():
        gateway = replace(relay.gateway, link=LinkConfig(window_bytes=1_024, chunk_bytes=512))
        script.configs[site] = own, replace(relay, gateway=gateway)
    script.form(*"ABCDEF")
    script.linked(*"ABCDEF")
    script.run(SETTLED)
    mend = script.part("ABC", "DEF")
    script.run(15.0)
    for n in range(WORDS):
        script.send("C" if n % 3 else "B", f"w{n}")
        script.run(SOON)
    mend()
    return script


def spilled(script: Sites, names: str) -> list[int]:
    return [script.relay(name).disk.used for name in names]


@pytest.mark.slow
@pytest.mark.conforms("REL-13")
@pytest.mark.parametrize("word", [1, 40, 100, WORDS - 3])
def test_after_a_relay_dies_in_a_replay_its_successor_continues_from_its_own_disk(word: int) -> None:
    """Also when nearly all, or hardly anything, has gone."""
    script = cut_off()
    script.kill_at("A", lambda event: isinstance(event, BridgeSend) and f"w{word}".encode() in event.data)
    script.view("B", "C", within=60.0)
    assert len(script.delivered("E")) < WORDS, "it died in the middle"
    script.everybody_has("DEF", *[f"w{n}" for n in range(WORDS)])
    script.run(2.0)
    assert not any(spilled(script, "BC"))
    verdict(script)
