"""The campaign's kills between two steps of a turn: drawn apart from all else, and counted where they happen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay.instruments.simulation import SeedRun, draw, draw_of
from relay.instruments.simulation.borders import BORDERED, at_borders
from relay.instruments.simulation.faults import Kill
from sitestack.stack.turn import STEPS, Step
from tests.simulation.test_routed import FOUND as FOUND_ROUTED
from tests.simulation.test_seeds import FOUND


def test_seeds_that_once_found_something_kill_where_they_did() -> None:
    for seed in (*FOUND, *FOUND_ROUTED):
        assert seed % 13 not in BORDERED


def test_some_seeds_have_kills_before_every_step_but_the_first_and_are_otherwise_the_same() -> None:
    kills = []
    for seed in range(260):
        plan, plain = draw_of("swarm", seed), draw(seed)
        unmarked = [replace(fault, before=None) if isinstance(fault, Kill) else fault for fault in plan.faults]
        assert replace(plan, faults=tuple(unmarked)) == plain
        assert seed % 13 in BORDERED or plan == plain
        kills += [fault.before for fault in plan.faults if isinstance(fault, Kill)]
    assert set(kills) == {None, *STEPS[1:]}
    assert at_borders(draw(8)) == at_borders(draw(8))


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_kill_between_two_steps_is_counted(step: Step) -> None:
    quiet = replace(draw(5), faults=(), loss=0.0, duplication=0.0, reordering=0.0, corruption=0.0)
    kill = Kill(5.0, "NYC", 0, 0, 1.0, step)
    result = SeedRun(replace(quiet, faults=(kill,))).result()
    assert result.violations == ()
    assert result.covered[f"kill between steps, before {step}"] == 1
