"""Disturbed merges: a death in a merge leaves one agreed view, and a network with a hole comes to rest."""

from __future__ import annotations

from functools import partial

import pytest

from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from sitestack.config import SiteConfig
from sitestack.journal import records
from sitestack.layers.membership import MembershipStatistics
from sitestack.model.address import Address
from tests.harness.script import site_maker
from tests.harness.stories import assert_sound, site, verdict

#: As many datagrams as the leader of the merge, or the other coordinator, sends until all have installed, and some more.
DATAGRAMS = {"leader": 24, "other": 14}


class Split:
    """A site of five that falls apart into two and three, and is about to merge."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, site_maker(SiteConfig(site="NYC")))
        self.members = [self.world.spawn("NYC", name) for name in "ABCDE"]
        self.parts = (self.members[:2], self.members[2:])
        self.settle(self.members)
        cut_both(self.world, *self.parts)
        for part in self.parts:
            self.settle(part)

    def settle(self, members: list[Process], within: float = 20.0) -> None:
        """Wait until exactly these processes are in one view."""
        assert self.world.run_until(partial(self.world.settled, "NYC", members), within), [p.view for p in members]

    def begin_to_merge(self) -> tuple[Process, Process]:
        """The routes are there again: the coordinator that leads the merge, at its first step, and the other one."""
        self.world.network.cuts.clear()
        assert self.world.run_until(lambda: any(map(merges, self.members)), 20.0)
        one, other = [p for p in self.members if p.view is not None and p.view.coordinator == p.local.address]
        return (one, other) if merges(one) else (other, one)


def hosts(members: list[Process]) -> frozenset[str]:
    return frozenset([p.physical.host for p in members])


def cut_both(world: World, one: list[Process], other: list[Process]) -> None:
    world.network.cuts += [(hosts(one), hosts(other)), (hosts(other), hosts(one))]


def merges(process: Process) -> int:
    statistics = process.stack.statistics()["membership"]
    assert isinstance(statistics, MembershipStatistics)
    return statistics.merges_started


def kinds(process: Process) -> list[tuple[str, tuple[Address, ...]]]:
    """The views of a process, from its first: plain or merged, and of whom."""
    return [(record.kind, record.members) for record in process.records if isinstance(record, records.View)]


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "within"), [pytest.param("leader", 9.0, marks=pytest.mark.long), ("other", 6.0)])
def test_a_death_at_any_datagram_of_a_merge_leaves_one_agreed_view(victim: str, within: float) -> None:
    """A12: the other part follows the leader no longer than it has promised; then the merge is made without the dead."""
    merged = 0
    for datagrams in range(DATAGRAMS[victim]):
        split = Split(datagrams)
        leader, other = split.begin_to_merge()
        dying = leader if victim == "leader" else other
        dying.dies_after = datagrams
        for member in split.members:
            member.send(member.local.name.encode())
        split.world.run(1.0)
        dying.kill()
        living = split.world.alive()
        split.settle(living, within)
        split.world.run(3.0)
        assert_sound(split.world)
        merged += any(kind == "merge" and len(members) == 5 for kind, members in kinds(living[0]))
    assert 0 < merged < DATAGRAMS[victim], "some die too early for this merge, some too late to stop it"


#: Per case: the pairs (sender, receiver) that are cut one way, and the parts in which the site comes to rest. B
#: is second in line
#: and replaces the coordinator A when it does not receive A. Another member that does not receive A reports that
#: to B without
#: success, then to A, which continues without that member.
HOLES = {
    "A and B": (("AB", "BA"), ("AC", "B")),  # or A alone, when A misses B before B misses A
    "A to B": (("AB",), ("A", "BC")),
    "B to A": (("BA",), ("AC", "B")),
    "A and C": (("AC", "CA"), ("AB", "C")),
    "A to C": (("AC",), ("AB", "C")),
    "C to A": (("CA",), ("AB", "C")),
    "B and C": (("BC", "CB"), ("ABC",)),
    "B to C": (("BC",), ("ABC",)),
    "C to B": (("CB",), ("ABC",)),
    "a ring": (("AB", "BA", "BC", "CB", "CD", "DC", "DE", "ED", "EA", "AE"), ("AC", "BDE")),
    "a ring one way": (("AB", "BC", "CD", "DE", "EA"), ("ACD", "BE")),
    "a ring the other way": (("BA", "CB", "DC", "ED", "AE"), ("ACD", "BE")),
}


@pytest.mark.parametrize("hole", HOLES)
def test_a_network_with_a_hole_comes_to_rest_in_parts_and_heals_at_once(hole: str) -> None:
    """F7: no member is suspected over and over, each part continues meanwhile, and one merge joins the parts again."""
    cuts, parts = HOLES[hole]
    names = "".join(sorted({name for cut in cuts for name in cut} | set("ABC")))
    script = site(*names)
    world, members = script.world, [script[name] for name in names]
    before = [len(kinds(member)) for member in members]
    world.network.cuts += [(hosts([script[cut[0]]]), hosts([script[cut[1]]])) for cut in cuts]
    world.run(30.0)
    for name in names:
        script.send(name, name)
    for part in parts:
        script.view(*part, within=0.0)
        script.everywhere(part, *part, within=1.0)
    changes = [len(kinds(member)) - count for member, count in zip(members, before, strict=True)]
    assert changes == [int(len(parts) > 1)] * len(members)
    world.network.cuts.clear()
    script.view(*names, within=7.0)
    assert sum(map(merges, members)) == len(parts) - 1
    verdict(script)
