"""What a seed stands for: harsh where it says so."""

from __future__ import annotations

from relay.instruments.simulation import draw
from relay.instruments.simulation.faults import Flood, Leave, Move, Replace, Reset
from relay.instruments.simulation.harsh import HARSH
from relay.instruments.simulation.large import draw_large
from relay.instruments.simulation.plan import draw_plain


def test_a_harsh_seed_has_all_faults_of_its_plain_part_and_more() -> None:
    seeds = [seed for seed in range(210) if seed % 7 in HARSH]
    for seed in seeds:
        assert set(draw_plain(seed).faults) <= set(draw(seed).faults)
    plans = list(map(draw, seeds))
    assert sum(plan.batch_count_max == 1 for plan in plans) > len(seeds) / 3
    assert any(plan.late for plan in plans)
    for name in ("budget_entries", "budget_bytes", "budget_age_s"):
        assert len({getattr(plan.budget, name) for plan in plans}) > 1
    kinds = {type(fault) for plan in plans for fault in plan.faults}
    assert {Flood, Leave, Move, Replace, Reset} <= kinds
    assert draw(7) == draw(7)


def test_the_large_campaign_has_a_hundred_members_in_one_site() -> None:
    for seed in range(10):
        assert dict(draw_large(seed).sites)["NYC"] == 100
    assert len({draw_large(seed).faults for seed in range(10)}) == 10
