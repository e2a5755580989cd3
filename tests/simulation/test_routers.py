"""Links through gossip routers: a router that dies, and relays that do, lose nothing (LA-16, F23)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay.router.switchboard import Switchboard
from relay_lab.simulation.faults import Flood, Kill, RouterDies, WanCut
from relay_lab.simulation.run import SeedRun
from sitestack.model.address import Physical
from tests.simulation.test_grey_faults import plan_with

PLAN = replace(
    plan_with(
        Flood(3.0, 2.0, "NYC", 48, 0.1),
        RouterDies(3.5, 4.0, ("NYC", "SFO")),
        Kill(12.0, "SFO", 0, 2, 3.0),
        Flood(12.0, 2.0, "NYC", 48, 0.1),
        WanCut(18.0, 5.0, False, ("NYC", "SFO")),
    ),
    by_router=True,
)


def test_sites_that_can_only_call_survive_the_death_of_their_router_and_of_a_relay() -> None:
    run = SeedRun(PLAN)
    result = run.result()
    assert not result.violations
    assert result.covered["router died"] == 1
    assert result.covered["wan cut"] == 1
    assert result.covered["link through a router"] >= 2
    routers = {each.place for each in run.nemesis.routers.values()}
    assert {stream.remote for stream in run.world.streams.connections()} <= routers


def test_a_router_that_never_returns_parts_the_sites() -> None:
    """The judge sees sites that stay apart."""
    fault = RouterDies(3.0, 10_000.0, ("NYC", "SFO"))
    assert any("SETTLE" in each for each in SeedRun(replace(PLAN, faults=(fault,))).result().violations)


def test_a_router_that_forgets_a_call_keeps_the_sites_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plans reach the switchboard of the product."""
    monkeypatch.setattr(Switchboard, "_connect", lambda self, site, now: [])
    assert any("FORM" in each for each in SeedRun(PLAN).result().violations)


def test_each_pair_of_sites_has_its_router() -> None:
    run = SeedRun(replace(PLAN, sites=(("NYC", 1), ("SFO", 1), ("LON", 1)), faults=()))
    assert {each.place for each in run.nemesis.routers.values()} == {
        Physical(f"10.251.{pair}", 7900) for pair in ("0.1", "0.2", "1.2")
    }
