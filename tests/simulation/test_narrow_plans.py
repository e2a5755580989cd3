"""Narrow seeds: windows that are full soon, and every other seed is what it was."""

from __future__ import annotations

import pytest

from relay.instruments.simulation import SeedRun, draw, run_seed
from relay.instruments.simulation.faults import Flood, Split
from relay.instruments.simulation.narrow import NARROW, WINDOWS_BYTES
from relay.instruments.simulation.wide import draw as draw_wide
from sitestack.layers.flow_control import FlowControlStatistics
from tests.simulation.test_seeds import FOUND

SEEDS = range(NARROW, 10 * 100, 10)


def test_every_other_seed_is_what_it_was() -> None:
    assert all(seed % 10 != NARROW for seed in FOUND)
    assert all(draw(seed) == draw_wide(seed) for seed in range(500) if seed % 10 != NARROW)


def test_a_narrow_seed_has_all_faults_that_it_would_have_besides() -> None:
    for seed in SEEDS:
        plan, before = draw(seed), draw_wide(seed)
        assert plan == draw(seed)
        assert set(before.faults) <= set(plan.faults)
        assert list(plan.faults) == sorted(plan.faults, key=lambda fault: fault.at)
        assert max(members for _, members in plan.sites) >= 4


def test_narrow_seeds_cover_what_they_are_for() -> None:
    plans = list(map(draw, SEEDS))
    assert {plan.window_bytes for plan in plans} == set(WINDOWS_BYTES)
    assert {plan.order for plan in plans} == {"total", "fifo"}
    for plan in plans:
        splits = [fault for fault in plan.faults if isinstance(fault, Split)]
        floods = [fault for fault in plan.faults if isinstance(fault, Flood)]
        assert any(split.at < flood.at < split.at + split.length for split in splits for flood in floods)


@pytest.mark.parametrize("seed", [NARROW, 10 + NARROW, 50 + NARROW])
def test_a_run_waits_for_credit_and_gets_it(seed: int) -> None:
    run = SeedRun(draw(seed))
    assert run.result().violations == ()
    numbers = [process.stack.statistics()["flow_control"] for process in run.world.processes]
    assert sum(each.waits for each in numbers if isinstance(each, FlowControlStatistics)) > 20


@pytest.mark.parametrize("seed", range(100_000 + NARROW, 100_060, 10))
def test_no_promise_is_broken(seed: int) -> None:
    assert run_seed(seed).violations == ()
