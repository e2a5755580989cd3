"""Wide seeds: larger sites and slow ways between them, and every other seed is what it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay.instruments.simulation import Plan, SeedRun, draw, run_seed
from relay.instruments.simulation.faults import Flood, Kill, SlowWan, Split, WanCut
from relay.instruments.simulation.harsh import draw as draw_harsh
from relay.instruments.simulation.plan import TROUBLE_S, draw_plain
from relay.instruments.simulation.process import RelayProcess
from relay.instruments.simulation.shrink import shrink
from relay.instruments.simulation.wide import DELAYS_S, MEMBERS, WIDE

SEEDS = range(WIDE, 11 * 200, 11)


def test_every_other_seed_is_what_it_was() -> None:
    assert all(draw(seed) == draw_harsh(seed) for seed in range(500) if seed % 11 != WIDE)


def test_a_wide_seed_has_all_faults_that_it_would_have_besides() -> None:
    for seed in SEEDS:
        plan, before = draw(seed), draw_harsh(seed)
        assert plan == draw(seed)
        assert set(before.faults) <= set(plan.faults)
        assert list(plan.faults) == sorted(plan.faults, key=lambda fault: fault.at)
        larger = [members for site, members in plan.sites if members != dict(before.sites)[site]]
        assert len(larger) <= 2
        assert set(larger) <= set(MEMBERS)
        assert larger or plan.wan_delay_s or any(isinstance(fault, SlowWan) for fault in plan.faults)


def test_wide_seeds_cover_what_they_are_for() -> None:
    plans = list(map(draw, SEEDS))
    assert {members for plan in plans for _, members in plan.sites} == set(range(1, 8))
    assert {kind for plan in plans for kind in map(type, plan.faults)} >= {Flood, Kill, SlowWan, Split}
    slow = [fault for plan in plans for fault in plan.faults if isinstance(fault, SlowWan)]
    delays = [*[fault.delay_s for fault in slow], *[plan.wan_delay_s for plan in plans if plan.wan_delay_s]]
    assert DELAYS_S[0] <= min(delays) < 0.01
    assert DELAYS_S[1] * 0.9 < max(delays) <= DELAYS_S[1]
    assert all(fault.at + fault.length < TROUBLE_S for fault in slow)
    assert {fault.queue_s for fault in slow if fault.bytes_per_s is not None} == {0.1, 0.5, 2.0}


def test_a_queue_of_two_seconds_starves_no_heartbeat() -> None:
    """F26: bulk from both sides for twenty seconds, far more than passes, and no link is given up."""
    floods = tuple([Flood(2.0 + at, 1.0, site, 24, 0.0) for at in range(20) for site in ("NYC", "SFO")])
    plan = replace(draw_plain(0), sites=(("NYC", 2), ("SFO", 2)), faults=(SlowWan(1.0, 22.0, 0.5, 125_000.0, 2.0), *floods))
    plan = replace(plan, order="total", loss=0.0, duplication=0.0, reordering=0.0, corruption=0.0, size_max=20_000)
    run = SeedRun(plan)
    waited: list[int] = []
    run.world.schedule.at(20.0, lambda: waited.extend(_held(run)))
    result = run.result()
    assert result.violations == ()
    assert max(waited) > 250_000, "more was sent than passed"
    assert not [reason for reason in result.covered if reason.startswith("drop link_")]


def _held(run: SeedRun) -> list[int]:
    return [p.relay.state.buffer.bytes for p in run.world.alive() if isinstance(p, RelayProcess)]


def test_what_is_slow_is_left_out_of_a_shrunk_plan_when_it_does_not_matter() -> None:
    plan = replace(draw(WIDE), wan_delay_s=0.3, faults=(SlowWan(1.0, 2.0, 0.1, None, 0.0), WanCut(3.0, 1.0, False)))

    def violations(candidate: Plan) -> tuple[str, ...]:
        return ("X1 by the cut",) if any(isinstance(fault, WanCut) for fault in candidate.faults) else ()

    smaller = shrink(plan, violations)
    assert smaller.wan_delay_s == 0.0
    assert smaller.faults == (WanCut(3.0, 1.0, False),)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_no_promise_is_broken_in_wide_seeds(seed: int) -> None:
    assert run_seed(seed).violations == ()
