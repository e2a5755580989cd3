"""A temporary outage of the relay (a todo of JGroups' RELAY), at every moment: it costs time, and nothing else."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import pytest

from relay.replica.config import BufferConfig
from relay_lab.sim.tcp_streams import Slowness
from relay_lab.simulation import SeedRun, draw
from relay_lab.simulation.faults import Kill
from tests.harness.linked_sites import Sites
from tests.harness.stories import assert_sound
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


@pytest.mark.slow
def test_a_plan_without_its_faults_is_a_quiet_run() -> None:
    """The simulator's own check: a run without faults reports none."""
    plan = replace(draw(5), faults=(), loss=0.0, duplication=0.0, reordering=0.0, corruption=0.0)
    assert SeedRun(plan).result().violations == ()
    assert SeedRun(replace(plan, faults=(Kill(5.0, "NYC", 0, 3, 1.0),))).result().covered["kill coordinator"] == 1
