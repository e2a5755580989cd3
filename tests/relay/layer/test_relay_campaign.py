"""Random histories of two and three sites: crashes, joins, cuts at any byte, held back streams. Nothing is lost or twice.

The seed is in the test id. Every history has two phases: faults, then rest; only then is the outcome judged.
"""

from __future__ import annotations

import random

import pytest

from relay.events import GlobalView
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.gap import Gap
from sitestack.model.message import Scope
from sitestack.model.state_events import Baseline
from tests.harness.relay.member import Member
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import sites_of
from tests.harness.thinned import one_in


def received(member: Member, origin: Address, site: str) -> list[int]:
    """The numbers that a member delivered of an origin."""
    batches = [event.batch for event in member.events if isinstance(event, Frame) and event.batch is not None]
    return [each.first for each in batches if (each.site, each.origin, each.scope) == (site, origin, Scope.ALL)]


class History:
    """One random run."""

    def __init__(self, seed: int, counts: dict[str, int]) -> None:
        self.rng = random.Random(seed)
        self.world, self.sites = sites_of(counts)
        self.everybody = [member for site in self.sites.values() for member in site.members]
        self.joined = 0

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.step(self.sites[self.rng.choice(sorted(self.sites))])
        self.rest()

    def step(self, site: FakeSite) -> None:
        rng, world = self.rng, self.world
        dice = rng.random()
        if dice < 0.45:
            rng.choice(site.members).send("x" * rng.choice([1, 1, 50, 5_000]))
        elif dice < 0.75:
            world.cut = rng.choice([None, None, 1, 3, 1_000])
            world.turn()
        elif dice < 0.85:
            world.run(rng.choice([0.01, 0.3, 2.0]))
        elif dice < 0.89:
            site.lag = rng.choice([None, random.Random(rng.random())])
        elif dice < 0.92 and len(site.members) > 1:
            site.kill(site.relay, silent=rng.random() < 0.3)
        elif dice < 0.94 and len(site.members) > 1:
            site.kill(rng.choice(site.members[1:]))
        elif dice < 0.96 and len(site.members) < 4:
            self.joined += 1
            self.everybody.append(site.join(f"J{self.joined}"))
        elif dice < 0.98:
            site.block()
            rng.choice(site.members).send("blocked")
            world.turn()
            site.install()
        else:
            other = rng.choice(sorted(set(self.sites) - {site.name}))
            world.break_links(site.name, other, rng=random.Random(rng.random()))

    def rest(self) -> None:
        for site in self.sites.values():
            site.lag = None
        self.world.run(60)

    def check(self) -> None:
        members = [member for site in self.sites.values() for member in site.members]
        for member in members:
            assert [event for event in member.events if isinstance(event, Gap)] == []
            assert member.base or not any(isinstance(event, Baseline) for event in member.events)
        for origin in self.everybody:
            self.check_origin(origin, members)
        views = [[event for event in member.events if isinstance(event, GlobalView)][-1] for member in members]
        assert all(view == views[0] for view in views)
        for site in self.sites.values():
            for member in site.members:
                assert member.layer.gateway.waiting == 0

    def check_origin(self, origin: Member, members: list[Member]) -> None:
        """All survivors have the same messages of an origin (X3, X4), each once and in order, from when they joined."""
        site = origin.site.name
        bases = [member.base.get(site, {}).get(origin.address, 0) for member in members]
        numbers = [received(member, origin.address, site) for member in members]
        last = max([*bases, *[n for each in numbers for n in each]])
        if origin.alive:
            assert last == origin.sent, "a living origin's messages all arrive"
        for base, each in zip(bases, numbers, strict=True):
            assert each == list(range(base + 1, last + 1))


@pytest.mark.conforms("REL-12", "REL-13", "REL-14")
@pytest.mark.parametrize("seed", one_in(3, range(60)))
def test_a_random_history_of_two_sites_loses_and_repeats_nothing(seed: int) -> None:
    history = History(seed, {"NYC": 3, "SFO": 3})
    history.play(150)
    history.check()
