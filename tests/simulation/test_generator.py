"""The generator of plans: all entries of its tables occur, about as often as their weights."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import get_args

import pytest

from relay.replica.config import BufferConfig
from relay_lab.simulation import Kind, Plan, dice, draw, grey, scenarios
from relay_lab.simulation.dice import Scenario
from relay_lab.simulation.faults import Burst, Fault, Flood, Pause, SlowWan, WanCut, sites_of
from relay_lab.simulation.generator import LASTING_S_MAX, LASTING_S_MIN
from relay_lab.simulation.grey_faults import FailingDisk, GreyFault, SlowApplication
from relay_lab.simulation.plan import LOAD_S
from relay_lab.simulation.weights import FAULTS, KINDS, ROOMY, SMALL_BUDGETS, Row

PLANS = [draw(seed) for seed in range(1_000)]
#: Without plans with a small window, which have other members, unicasts and sizes.
USUAL = [plan for plan in PLANS if plan.window_bytes is None]


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_seed_stands_for_one_plan_whose_faults_are_in_order_and_in_its_sites(kind: Kind) -> None:
    plans = [draw(seed, kind) for seed in range(100)]
    assert plans == [draw(seed, kind) for seed in range(100)]
    assert len(set(plans)) == 100
    for plan in plans:
        times = [fault.at for fault in plan.faults]
        assert times == sorted(times)
        assert all(0.0 <= at < LOAD_S for at in times)
        names = {name for name, _ in plan.sites}
        assert all(names.issuperset(sites_of(fault)) for fault in plan.faults)


def test_every_kind_of_fault_happens() -> None:
    assert {type(fault) for plan in PLANS for fault in plan.faults} == set(get_args(Fault))
    assert all(row.share for row in FAULTS)


def test_what_lasts_outlasts_the_load_in_some_plans_and_only_there() -> None:
    long = [plan for plan in PLANS if plan.lasting_s]
    assert 30 < len(long) < 200
    for plan in long:
        assert LASTING_S_MIN <= plan.lasting_s <= LASTING_S_MAX
        ends = [fault.at + fault.length for fault in plan.faults if isinstance(fault, GreyFault | Pause | WanCut)]
        assert max(ends) + 0.01 > LOAD_S + plan.lasting_s


def test_some_members_have_settings_of_their_own_and_some_applications_can_be_full() -> None:
    assert 50 < sum(plan.uneven for plan in PLANS) < 150
    assert 60 < sum(plan.short_ids != "nobody" for plan in PLANS) < 170
    assert {plan.short_ids for plan in PLANS} == {"nobody", "everybody", "some"}
    assert {plan.backlog_bytes_max for plan in PLANS} == set(KINDS["swarm"].backlog_bytes_max)
    assert {plan.batch_bytes_max for plan in PLANS} == set(KINDS["swarm"].batch_bytes_max)
    assert {plan.latency_target_s for plan in PLANS} == set(KINDS["swarm"].latency_target_s)
    slow = [plan for plan in PLANS if any(isinstance(fault, SlowApplication) for fault in plan.faults)]
    assert slow
    assert all(plan.backlog_bytes_max is not None for plan in slow)


def test_some_plans_have_a_spill_beside_a_small_budget_and_only_there_disks_fail() -> None:
    spilling = [plan for plan in PLANS if plan.budget.spill is not None]
    assert 60 < len(spilling) < 170
    assert {plan.budget.spill for plan in PLANS} == set(KINDS["swarm"].spill)
    assert all(replace(plan.budget, spill=None) in SMALL_BUDGETS for plan in spilling)
    failing = [plan for plan in PLANS if any(isinstance(fault, FailingDisk) for fault in plan.faults)]
    assert len(failing) > 20
    assert all(plan in spilling for plan in failing)


@pytest.mark.parametrize("row", [row for row in FAULTS if row.share], ids=lambda row: row.scenario.__name__)
def test_every_scenario_is_drawn_as_often_as_the_table_says(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Plan] = []

    def counted(rng: random.Random, plan: Plan) -> list[Fault]:
        calls.append(plan)
        return row.scenario(rng, plan)

    monkeypatch.setitem(KINDS, "swarm", KINDS["swarm"]._replace(faults=(row._replace(scenario=counted),)))
    plans = [draw(seed) for seed in range(300)]
    assert abs(len({plan.seed for plan in calls}) / 300 - row.share) < 0.1
    assert any(plan.faults for plan in plans), "it can happen"


def test_every_value_of_an_aspect_happens() -> None:
    weights = KINDS["swarm"]
    assert {plan.connections for plan in PLANS} == {topology.connections for topology in weights.topology}
    assert {members for plan in PLANS for _, members in plan.sites} == set(weights.members)
    assert {replace(plan.budget, spill=None) for plan in PLANS} == set(weights.budget)
    for aspect in ("order", "agreement", "multicast", "messages", "size_max", "batch_count_max", "window_bytes"):
        assert {getattr(plan, aspect) for plan in (PLANS if aspect == "window_bytes" else USUAL)} == set(
            getattr(weights, aspect)
        )
    for aspect in ("loss", "duplication", "reordering", "corruption", "unicast_share", "site_share"):
        rate, values = getattr(weights, aspect), [getattr(plan, aspect) for plan in USUAL]
        assert abs(sum(map(bool, values)) / len(USUAL) - rate.share) < 0.1, aspect
        assert rate.most * 0.9 < max(values) <= rate.most, aspect
    assert 50 < sum(plan.late is not None for plan in PLANS) < 300


def test_a_kind_of_fault_that_is_added_leaves_the_others_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    def blackout(rng: random.Random, plan: Plan) -> list[Fault]:
        return [Burst(round(rng.uniform(1.0, 20.0), 4), 9.0)]

    calm = KINDS["swarm"]._replace(flooded={0.0: 1})
    monkeypatch.setitem(KINDS, "swarm", calm)
    before = [draw(seed) for seed in range(50)]
    monkeypatch.setitem(KINDS, "swarm", calm._replace(faults=(Row(blackout, 1.0), *FAULTS)))
    for plan in before:
        more = draw(plan.seed)
        (added,) = [fault for fault in more.faults if fault not in plan.faults]
        assert isinstance(added, Burst)
        assert replace(more, faults=plan.faults) == plan


def test_floods_come_a_moment_before_faults_in_half_of_the_plans() -> None:
    """The floods that the generator adds to a plan, not those that a scenario brings."""
    small = [Row(scenarios.kill, 1.0)]
    monkeyed = KINDS["swarm"]._replace(faults=tuple(small))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KINDS, "swarm", monkeyed)
        plans = [plan for plan in map(draw, range(200)) if plan.window_bytes is None]
    flooded = [plan for plan in plans if any(isinstance(fault, Flood) for fault in plan.faults)]
    assert 0.3 < len(flooded) / len(plans) < 0.7
    for plan in flooded:
        kills = [fault.at for fault in plan.faults if not isinstance(fault, Flood)]
        for flood in plan.faults:
            assert not isinstance(flood, Flood) or any(0.0 < at - flood.at < 0.31 for at in kills)


def test_what_cannot_happen_to_a_plan_gives_nothing() -> None:
    plan = replace(draw(0), sites=(("NYC", 1), ("SFO", 1)), connections=(), multicast=False, budget=BufferConfig())
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
    possible = replace(plan, sites=(("NYC", 5), ("SFO", 1), ("LON", 1)), multicast=True, budget=SMALL_BUDGETS[0])
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
    for kind in KINDS.values():
        names = [row.scenario.__name__ for row in kind.faults]
        assert len(set(names)) == len(names)
    assert KINDS.keys() == set(get_args(Kind))
