"""A range of seeds: the whole system under everything at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from relay_lab.simulation import draw, run_plan, run_seed
from sitestack.model.address import Physical
from sitestack.stack.turn import TurnLoop
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
