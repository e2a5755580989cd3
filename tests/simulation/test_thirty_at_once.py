"""Thirty members that start at once come into one view within ten seconds of virtual time, also where datagrams get lost.

The same over sockets, with DNS and routers besides, is in `tests/relay/router/test_thirty_at_once.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay_lab.sim.network_faults import loss
from relay_lab.sim.world import World
from sitestack.config import SiteConfig, lan
from sitestack.model.address import Physical
from tests.harness.script import Script, site_maker

COUNT = 30
#: Seconds from the start of the last one.
WITHIN_S = 10.0
PLACES = [Physical(f"10.0.7.{n}", 7_800) for n in range(1, COUNT + 1)]


def by_hosts() -> SiteConfig:
    """Without multicast; three are named. With DNS all are."""
    site = lan("NYC")
    discovery = replace(site.discovery, initial_hosts=tuple(PLACES[:3]))
    return replace(site, transport=replace(site.transport, multicast=False), discovery=discovery)


def by_names_of_all() -> SiteConfig:
    site = by_hosts()
    return replace(site, discovery=replace(site.discovery, initial_hosts=tuple(PLACES)))


WAYS = {"multicast": lambda: lan("NYC"), "hosts": by_hosts, "all": by_names_of_all}


@pytest.mark.parametrize(
    "way", [pytest.param("multicast", marks=pytest.mark.long), "hosts", pytest.param("all", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("rate", [pytest.param(0.0, marks=pytest.mark.long), 0.02], ids=["quiet", "lossy"])
def test_thirty_that_start_at_once_are_in_one_view_within_ten_seconds(way: str, rate: float) -> None:
    script = Script(World(1, site_maker(WAYS[way]())))
    script.world.network.faults.append(loss(rate))
    names = [f"M{n}" for n in range(COUNT)]
    for name, place in zip(names, PLACES, strict=True):
        script.start("NYC", name, at=place)
    script.view(*names, within=WITHIN_S)
    print(f"{way}, {rate:.0%} lost: {script.world.now:.1f} s")
