"""A range of seeds: the whole system under everything at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from relay_lab.simulation import SeedRun, draw, run_plan, run_seed
from relay_lab.simulation.faults import Flood, Kill
from sitestack.model.address import Physical
from sitestack.stack.turn import STEPS, Step, TurnLoop
from tests.harness.thinned import one_in


@pytest.mark.slow
@pytest.mark.parametrize("seed", one_in(5, range(100_000, 100_030)))
def test_no_promise_is_broken(seed: int) -> None:
    assert run_seed(seed).violations == ()


@pytest.mark.slow
def test_a_seed_gives_the_same_trace_in_every_process_with_any_hash_seed() -> None:
    program = "from relay_lab.simulation import run_seed; print([run_seed(s).trace_hash for s in (6,)])"

    def run(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert run("0") == run("1") == f"{[run_seed(s).trace_hash for s in (6,)]}\n"


# -- kills between two steps of a turn are drawn, and counted where they happen --------------------------------------------


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


# -- what the turns of seeds show of their layers --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 4, 7, 18, *[pytest.param(each, marks=pytest.mark.long) for each in range(100, 140)]])
def test_every_earlier_deadline_is_announced(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No deadline is later for the stack than for its layers, and a flush that is skipped would have done nothing."""
    run_turn, turns = TurnLoop.turn, 0

    def turn(self: TurnLoop, arrived: Sequence[tuple[bytes, Physical]], now: float) -> None:
        nonlocal turns
        run_turn(self, arrived, now)
        turns += 1
        for layer in self._stack.layers:
            due = layer.deadline()
            if (layer.name, due) == ("batching", 0.0):
                continue  # the application has sent while it was handed the turn: another turn follows at once
            assert due is None or (self.due is not None and self.due <= due), layer.name
            if layer.FLUSH_IF and not any(getattr(layer, name) for name in layer.FLUSH_IF):
                assert layer.flush(now) == [], f"{layer.name} had something to flush"

    monkeypatch.setattr(TurnLoop, "turn", turn)
    assert run_plan(draw(seed)).violations == ()
    assert turns > 1_000
