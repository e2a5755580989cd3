"""Sites in a line or a star, under faults: routes keep the promises of connections."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay.gateway.config import RoutesConfig
from relay_lab.simulation import Plan, SeedRun, draw, run_seed
from relay_lab.simulation.faults import CutStream, Kill, Pause, WanCut
from relay_lab.simulation.shrink import shrink

pytestmark = pytest.mark.conforms("REL-33")


def draw_routed(seed: int) -> Plan:
    return draw(seed, "routed")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 6, 27])
def test_no_promise_is_broken_over_routes(seed: int) -> None:
    assert run_seed(seed, kind="routed").violations == ()


def test_the_sites_of_a_plan_and_each_prefix_of_them_form_a_tree() -> None:
    plans = list(map(draw_routed, range(200)))
    assert plans == list(map(draw_routed, range(200)))
    for plan in plans:
        for number in range(2, len(plan.sites) + 1):
            names = {name for name, _ in plan.sites[:number]}
            assert sum(names.issuperset(pair) for pair in plan.connections) == number - 1
        for site, _ in plan.sites:
            others = {name for name, _ in plan.sites if name != site}
            neighbours = {name for pair in plan.connections for name in pair if site in pair} - {site}
            assert neighbours | set(plan.routes_of(site).via) == others
        # Without a relay left in between, the ends would never be linked again.
        for site, members in plan.sites:
            ended = [
                each for each in plan.faults if isinstance(each, Kill) and each.site == site and each.restart_after is None
            ]
            assert len(ended) < members or not plan.routes_of(site).forward
    assert {len(plan.sites) for plan in plans} == {3, 4}
    assert any(plan.late for plan in plans)
    assert all(plan.link.routed_bytes_max > plan.link.window_bytes + plan.size_max for plan in plans)
    assert {len(plan.lines) for plan in plans} == {0, 1, 2, 3}


def test_the_routes_of_a_line_of_four() -> None:
    plan = replace(
        draw_routed(0),
        sites=(("A", 1), ("B", 1), ("C", 1), ("D", 1)),
        connections=(("A", "B"), ("B", "C"), ("C", "D")),
    )
    assert plan.routes_of("A") == RoutesConfig({"C": "B", "D": "B"})
    assert plan.routes_of("B") == RoutesConfig({"D": "C"}, ("A", "C", "D"))
    assert plan.routes_of("D") == RoutesConfig({"B": "C", "A": "C"})
    assert replace(plan, connections=()).routes_of("A") == RoutesConfig()


def test_a_shrunk_plan_names_no_removed_site() -> None:
    """As every shrunk plan, it has to run."""
    line = next(plan for plan in map(draw_routed, range(50)) if len(plan.sites) == 4 and plan.sites[0][0] == "NYC")
    kept = (Kill(1.0, "SFO", 0, 0, 1.0), CutStream(2.0, ("NYC", "SFO")))
    gone = (Pause(3.0, 1.0, "TYO", 0), WanCut(4.0, 1.0, False, ("LON", "TYO")))
    plan = replace(line, faults=(*kept, *gone), late=("TYO", 2.0))
    small = shrink(plan, lambda tried: ("L1 at A: lost",) if set(kept) <= set(tried.faults) else ())
    assert (small.sites, small.connections) == (plan.sites[:2], (("NYC", "SFO"),))
    assert (small.faults, small.late) == (kept, None)


def test_a_cut_between_two_sites_leaves_the_other_lines_alone() -> None:
    sites, connections = (("NYC", 1), ("SFO", 1), ("TYO", 1)), (("NYC", "SFO"), ("SFO", "TYO"))
    plan = replace(draw_routed(0), sites=sites, connections=connections, lines=(), wan_delay_s=0.0)
    plan = replace(plan, keys="none", calls=False, state="none", uses_map=False, by_router=False)
    run = SeedRun(replace(plan, faults=(), messages=0, late=None, loss=0.0))
    world = run.world
    for site, hosts in run.hosts.items():
        world.spawn(site, site[0], hosts[0])
    world.run(10.0)

    def lines() -> list[set[str]]:
        return [{stream.local.host, stream.remote.host} for stream in world.streams.connections()]

    nyc, sfo, tyo = [hosts[0].host for hosts in run.hosts.values()]
    assert sorted(map(sorted, lines())) == [[nyc, sfo], [sfo, tyo]]
    run.nemesis.inject(CutStream(0.0, ("SFO", "NYC")))
    assert lines() == [{sfo, tyo}]
    run.nemesis.inject(WanCut(0.0, 1.0, True, ("SFO", "TYO")))
    assert world.streams.cuts == [(frozenset({sfo}), frozenset({tyo}))]
