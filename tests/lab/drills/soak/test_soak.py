"""The plan of a soak, the line through its memory, and its verdict."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

from relay_lab.drills import soak as module
from relay_lab.drills.load import plan_drill
from relay_lab.drills.memory import SETTLE_S, Slope, Weights
from relay_lab.drills.plan import Drill, Seat
from relay_lab.drills.plan_file import read_drill
from relay_lab.drills.soak import PAUSE_S, SITES, Soak, plan_soak, run_soak
from relay_lab.drills.venues import find_venue
from tests.lab.drills.test_result import result

C = Seat("NYC", "C")


@pytest.mark.parametrize("seed", range(5))
def test_harm_comes_every_30_to_90_seconds_and_ends_before_the_next(seed: int) -> None:
    plan = plan_soak(seed, 3_600, 10)
    begins = [action.at_s for action in plan.drill.method if action.do not in ("resume", "heal")]
    begins = [
        at_s for at_s in begins if not any(action.do == "kill" and 0 < at_s - action.at_s <= 12 for action in plan.drill.method)
    ]
    gaps = [after - before for before, after in pairwise(begins)]
    assert len(begins) > 3_600 / 90 / 2
    assert all(PAUSE_S[0] - 13 <= gap <= PAUSE_S[1] + 17 for gap in gaps)
    assert [action.at_s for action in plan.drill.method] == sorted(action.at_s for action in plan.drill.method)
    assert plan_soak(seed, 3_600, 10).drill == plan.drill


def test_every_kind_of_harm_is_drawn_and_the_last_in_line_is_spared() -> None:
    actions = [action for seed in range(20) for action in plan_soak(seed, 3_600, 10).drill.method]
    assert {action.do for action in actions} >= {"kill", "restart", "pause", "resume", "cut", "half-open", "delay", "heal"}
    assert not {action.target for action in actions} & {"NYC.C", "SFO.F", "LON.I"}


@pytest.mark.parametrize("seed", range(5))
def test_a_spared_member_relays_before_its_memory_is_measured(seed: int) -> None:
    kills = [action for action in plan_soak(seed, 7_200, 10).drill.method if action.do == "kill"]
    assert {action.target for action in kills[:6]} == {"NYC.A", "NYC.B", "SFO.D", "SFO.E", "LON.G", "LON.H"}
    assert kills[5].at_s < SETTLE_S / 2


def test_a_soak_plan_is_a_valid_drill_file() -> None:
    drill = plan_soak(1, 600, 10).drill
    keys = ("do", "at_s", "target", "link", "amount")
    method = [{key: value for key in keys if (value := getattr(action, key))} for action in drill.method]
    plain = {"name": "soak", "sites": list(drill.sites), "load": {"seconds": 600.0}, "method": method}
    assert read_drill(plain)[1] == []


def test_messages_have_from_nothing_to_a_mebibyte_and_no_line_end() -> None:
    plan = plan_soak(1, 600, 50)
    sizes = [len(plan.line(number)) for number in range(20_000)]
    assert min(sizes) == 0
    assert 1 << 16 < max(sizes) <= 1 << 20
    assert sum(sizes) / len(sizes) < 10_000
    assert not any(b"\n" in plan.line(number) for number in range(200))
    assert plan.count == 30_000 == plan_drill(Drill(load=replace(plan.drill.load)), 1).count


def weights(percent_per_hour: float, noise: float, seconds: int = 7_200) -> Weights:
    rng, found = random.Random(1), Weights()
    for now in range(0, seconds, 5):
        warm = 60e6 * min(now, 900) / 900
        size = warm + 60e6 * (1 + percent_per_hour / 100 * (now - 1_200) / 3_600) + rng.uniform(-noise, noise)
        found.add(C, 7, 1_000.0 + now, int(size), is_relay=False)
    return found


@pytest.mark.parametrize("grown", [0.0, 0.9, 2.0, -1.0])
def test_the_slope_is_that_of_the_line_after_the_first_twenty_minutes(grown: float) -> None:
    [slope] = weights(grown, 0).slopes()
    assert slope.percent_per_hour == pytest.approx(grown / 2, abs=0.02)  # of 120 MB, half of which grow
    [noisy] = weights(grown, 1e6).slopes()
    assert noisy.percent_per_hour == pytest.approx(grown / 2, abs=0.1)


@pytest.mark.parametrize("grown", [0.0, 2.0])
def test_a_role_that_is_taken_on_the_way_is_no_growth_and_hides_none(grown: float) -> None:
    found = Weights()
    for now in range(0, 7_200, 5):
        relays = 3_000 <= now < 4_000 or now >= 6_000
        size = 60e6 * (1 + grown / 100 * now / 3_600) + 2e6 * relays
        found.add(C, 7, float(now), int(size), is_relay=relays)
    [slope] = found.slopes()
    assert slope.percent_per_hour == pytest.approx(grown, rel=0.05, abs=0.001)


def test_a_process_with_a_short_life_gives_no_memory_slope() -> None:
    assert weights(5, 0, 4_800).slopes() == []
    assert len(weights(5, 0, 4_810).slopes()) == 1
    two = weights(0, 0)
    two.add(C, 8, 9_000.0, 1, is_relay=False)
    assert len(two.slopes()) == 1


def test_a_soak_passes_when_its_drill_has_and_memory_was_measured() -> None:
    def soak(*percents: float, **changes: Any) -> Soak:
        return Soak(result(**changes), 1, [Slope(C, each, 9, 3_600.0) for each in percents])

    assert (soak().verdict, soak(0.4, 0.1).verdict, soak(0.4, 0.1).slope) == ("not exercised", "pass", 0.4)
    assert soak(0.1, 1.0).verdict == "fail"
    assert soak(1.0).faults() == ["The memory of a process grew by 1.00 % an hour; less than 1 % is expected."]
    assert (soak(problems=("A died.",)).verdict, soak(problems=("A died.",)).faults()) == ("fail", ["A died."])
    assert soak(0.4, unexercised=("Nothing was harmed.",)).verdict == "not exercised"


def test_gaps_are_allowed_only_at_paused_members() -> None:
    plan = plan_soak(1, 7_200, 10)
    paused = {action.target for action in plan.drill.method if action.do == "pause"}
    seats = [(site, name) for site, names in zip(SITES, ("ABC", "DEF", "GHI"), strict=True) for name in names]
    for site, name in seats:
        allowed = plan.drill.verdict.gaps_allowed(site, name)
        assert (0 < allowed < 10_000) if f"{site}.{name}" in paused else allowed == 0


@pytest.mark.long
def test_a_soak_harms_changes_keys_and_weighs_real_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROTATE_S", 6.0)
    monkeypatch.setattr(module, "STEP_S", 2.5)
    monkeypatch.setattr(module, "WEIGH_S", 0.5)
    monkeypatch.setattr(module, "CALM_S", 5.0)
    plan, venue = plan_soak(4, 16, 5), find_venue("local")
    assert [action.do for action in plan.drill.method] == ["kill", "restart"]
    (tmp_path / "journal").mkdir()
    soak, weights = trio.run(run_soak, plan, venue, tmp_path, tmp_path / "journal", lambda *_: None)
    told = soak.to_json()
    assert (soak.result.verdict, soak.faults(), told["lost"]) == ("pass", [], 0)
    assert told["delivered"] >= told["sent"] * 8  # the ninth member is away for a while
    assert soak.rotations >= 2
    assert len(weights.samples) == 10  # the one that was killed, and what took its place
    assert any(sample.is_relay for samples in weights.samples.values() for sample in samples)
    assert all(sample.size > 20 << 20 for samples in weights.samples.values() for sample in samples)
