"""The generator of plans: every pair of values and faults meets, and dice draw the rest."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import get_args

import pytest

from relay.gateway.config import LinkConfig
from relay.replica.config import BufferConfig
from relay_lab.simulation import Kind, SeedRun, dice, draw, grey, scenarios
from relay_lab.simulation.coverage import find_missing
from relay_lab.simulation.covering import Covering, pair_of
from relay_lab.simulation.dice import Scenario
from relay_lab.simulation.dimensions import FAULTS, ROOMY, ROWS, SMALL_BUDGETS, SPACES, covering
from relay_lab.simulation.faults import (
    FailingDisk,
    Fault,
    Flood,
    GreyFault,
    Kill,
    Pause,
    SlowApplication,
    SlowWan,
    Split,
    WanCut,
    sites_of,
)
from relay_lab.simulation.generator import LASTING_S_MAX, LASTING_S_MIN, names_met
from relay_lab.simulation.plan import LOAD_S
from sitestack.stack.turn import STEPS, Step

PLANS = [draw(seed) for seed in range(2 * ROWS)]
KINDS: tuple[Kind, ...] = get_args(Kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_one_plan_with_ordered_faults_in_its_sites(kind: Kind) -> None:
    plans = [draw(seed, kind) for seed in range(100)]
    assert plans == [draw(seed, kind) for seed in range(100)]
    assert len(set(plans)) == 100
    for plan in plans:
        times = [fault.at for fault in plan.faults]
        assert times == sorted(times)
        assert all(0.0 <= at < LOAD_S for at in times)
        names = {name for name, _ in plan.sites}
        assert all(names.issuperset(sites_of(fault)) for fault in plan.faults)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_meets_in_each_block_of_seeds(kind: Kind) -> None:
    for block in range(2):
        plans = [names_met(seed, kind) for seed in range(block * ROWS, (block + 1) * ROWS)]
        met = {pair_of(pair) for names in plans for pair in combinations(names, 2)}
        assert sorted(covering(kind).pairs - met) == []
    assert names_met(0, kind) != names_met(ROWS, kind)
    assert find_missing({}, range(10, ROWS), kind) == []


def test_a_campaign_reports_the_pairs_that_it_has_not_met(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "relay_lab.simulation.coverage"
    monkeypatch.setattr(f"{module}.names_met", lambda seed, kind: [name for name in names_met(seed, kind) if name != "hole"])
    missing = find_missing({}, range(ROWS), "swarm")
    assert "hole with order=fifo" in missing
    assert all("hole" in each.split(" with ") for each in missing)


def test_a_covering_array_has_all_possible_pairs() -> None:
    array = Covering([{"a1": 1, "a2": 1}, {"b1": 1, "b2": 1, "b3": 1}], {"x": 1, "y": 1, "z": 1}, [("a1", "b1"), ("a2", "x")])
    assert ("b1", "x") not in array.pairs, "b1 needs a2, which x excludes"
    rows = array.rows(12, 2, seed=1)
    assert {pair_of(pair) for row in rows for pair in combinations(row, 2)} == array.pairs
    assert rows == array.rows(12, 2, seed=1)
    assert rows != array.rows(12, 2, seed=2)
    with pytest.raises(ValueError, match="2 rows do not meet all pairs"):
        array.rows(2, 2, seed=1)


def test_every_kind_of_fault_happens() -> None:
    assert {type(fault) for plan in PLANS for fault in plan.faults} == set(get_args(Fault))


def test_some_plans_have_a_lasting_fault_that_outlasts_the_load() -> None:
    long = [plan for plan in PLANS if plan.lasting_s]
    assert 30 < len(long) < 200
    for plan in long:
        assert LASTING_S_MIN <= plan.lasting_s <= LASTING_S_MAX
        ends = [fault.at + fault.length for fault in plan.faults if isinstance(fault, GreyFault | Pause | WanCut)]
        assert max(ends) + 0.01 > LOAD_S + plan.lasting_s


def test_faults_that_need_a_setting_are_drawn_only_with_it() -> None:
    for plan in PLANS:
        kinds = {type(fault) for fault in plan.faults}
        assert SlowApplication not in kinds or plan.backlog_bytes_max is not None
        assert FailingDisk not in kinds or plan.budget.spill is not None
        assert plan.budget.spill is None or replace(plan.budget, spill=None) != BufferConfig()
        assert plan.lines == () or plan.batch_count_max == 1


def test_every_value_and_every_fault_is_in_many_plans() -> None:
    counts = Counter(name for seed in range(ROWS) for name in names_met(seed))
    names = {f"{feature}={name}" for feature, values in SPACES["swarm"].features.items() for name in values}
    assert all(counts[name] > 5 for name in names | {row.scenario.__name__ for row in FAULTS}), counts


def test_floods_come_a_moment_before_faults() -> None:
    """The floods that the generator adds to a plan, not those that a scenario brings."""
    flooded = [seed for seed in range(ROWS) if "floods=amid faults" in names_met(seed)]
    found = 0
    for seed in flooded:
        floods = [fault.at for fault in PLANS[seed].faults if isinstance(fault, Flood)]
        others = [fault.at for fault in PLANS[seed].faults if not isinstance(fault, Flood)]
        found += any(0.0 < at - flood < 0.31 for at in others for flood in floods)
    assert found > 0.8 * len(flooded)


def test_a_scenario_that_is_impossible_in_a_plan_gives_no_fault() -> None:
    plan = replace(draw(0), sites=(("NYC", 1), ("SFO", 1)), connections=(), multicast=False, budget=BufferConfig())
    plan = replace(plan, backlog_bytes_max=None)
    impossible = (
        scenarios.move,
        scenarios.line_dies,
        scenarios.several_die,
        scenarios.several_leave,
        scenarios.resets,
        scenarios.wan_cuts_in_turn,
        scenarios.shortage,
        grey.hole,
        grey.holes_that_heal_one_by_one,
        grey.holes_across_a_split,
        grey.narrow_wire,
        grey.slow_application,
        grey.wrong_mtu,
        grey.slow_joiner,
        grey.failing_disk,
    )
    assert [scenario(random.Random(1), plan) for scenario in impossible] == [[]] * len(impossible)
    tree = replace(plan, sites=(("NYC", 1), ("SFO", 1), ("LON", 1)), connections=(("NYC", "SFO"), ("SFO", "LON")))
    assert scenarios.narrow_wan(random.Random(1), tree) == []
    small = SMALL_BUDGETS["entries"][0]
    possible = replace(plan, sites=(("NYC", 5), ("SFO", 1), ("LON", 1)), multicast=True, budget=small)
    possible = replace(possible, backlog_bytes_max=6_000)
    usual = set[Scenario]({*impossible, scenarios.narrow_wan}) - {grey.slow_joiner, grey.failing_disk}
    assert all(scenario(random.Random(1), possible) for scenario in usual)
    assert grey.slow_joiner(random.Random(1), replace(possible, budget=BufferConfig()))
    assert grey.failing_disk(random.Random(1), replace(possible, budget=replace(possible.budget, spill=ROOMY)))


def test_a_wan_is_late_by_milliseconds_as_well_as_by_more_than_a_second() -> None:
    least, most = dice.DELAYS_S
    rng = random.Random(1)
    delays = [dice.draw_delay(rng) for _ in range(1_000)]
    assert least <= min(delays) < 0.01
    assert most * 0.9 < max(delays) <= most
    assert all(plan.wan_delay_s * max(1, len(plan.connections)) <= most + 0.01 for plan in PLANS)
    slow = [fault for plan in PLANS for fault in plan.faults if isinstance(fault, SlowWan)]
    assert {fault.queue_s for fault in slow if fault.bytes_per_s is not None} == {0.1, 0.5, 2.0}
    assert all(fault.at + fault.length < LOAD_S for fault in slow)


def test_the_large_kind_has_a_hundred_members_in_one_site() -> None:
    assert all(draw(seed, "large").sites == (("NYC", 100), ("SFO", 2)) for seed in range(10))


def test_a_name_of_a_scenario_is_there_once() -> None:
    """Its dice are made of it."""
    for kind in KINDS:
        names = [row.scenario.__name__ for row in SPACES[kind].faults]
        assert len(set(names)) == len(names)
    assert {*SPACES} == {*KINDS}


def test_a_narrow_link_holds_a_window_and_the_largest_message_of_a_route() -> None:
    plans = [draw(seed, kind) for kind in KINDS[:1] + KINDS[-1:] for seed in range(48)]
    narrow = [plan for plan in plans if plan.link.routed_bytes_max < LinkConfig().routed_bytes_max]
    assert len(narrow) > 9
    for plan in narrow:
        sizes = [plan.size_max, *[fault.size_max or 0 for fault in plan.faults if isinstance(fault, Flood)]]
        assert plan.link.routed_bytes_max > plan.link.window_bytes + max(sizes), plan.seed


def test_kills_come_before_every_step_but_the_first_and_between_datagrams() -> None:
    kills = [fault.before for seed in range(300) for fault in draw(seed).faults if isinstance(fault, Kill)]
    assert set(kills) == {None, *STEPS[1:]}
    assert 0.1 < sum(step is not None for step in kills) / len(kills) < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS[1:])
def test_a_kill_between_two_steps_is_counted(step: Step) -> None:
    quiet = replace(draw(5), faults=(), loss=0.0, duplication=0.0, reordering=0.0, corruption=0.0, late=None)
    site = quiet.sites[0][0]
    faults = (Flood(4.9, 1.0, site, 8, 0.0), Kill(5.0, site, 0, 0, 1.0, step))
    result = SeedRun(replace(quiet, faults=faults)).result()
    assert result.violations == ()
    assert result.covered[f"kill between steps, before {step}"] == 1


#: With small windows of flow control, in a site that falls apart while much is sent (B1, S18).
NARROW = [plan for plan in PLANS if plan.window_bytes is not None]


def test_narrow_window_plans_cover_windows_orders_and_a_flood_in_a_split() -> None:
    assert {plan.window_bytes for plan in NARROW} == {1, 2_000, 20_000}
    assert {plan.order for plan in NARROW} == {"total", "fifo"}
    for plan in NARROW:
        assert plan.sites[0][1] >= 4
        splits = [fault for fault in plan.faults if isinstance(fault, Split)]
        floods = [fault for fault in plan.faults if isinstance(fault, Flood)]
        assert any(split.at < flood.at < split.at + split.length for split in splits for flood in floods)


@pytest.mark.long
def test_their_runs_wait_for_credit_and_get_it() -> None:
    for plan in NARROW[:4]:
        run = SeedRun(plan)
        assert run.result().violations == ()
        assert sum(process.stack.levels()["flow_control.queued_frames"].high or 0 for process in run.world.processes) > 5
