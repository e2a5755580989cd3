"""The campaign's kills between two steps of a turn are drawn, and counted where they happen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay_lab.simulation import SeedRun, draw
from relay_lab.simulation.faults import Flood, Kill
from sitestack.stack.turn import STEPS, Step


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
