"""No deadline is later for the stack than for its layers, and a flush that is skipped would have done nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from relay_lab.simulation import run_plan
from relay_lab.simulation.generator import draw
from sitestack.model.address import Physical
from sitestack.stack.turn import TurnLoop


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 4, 7, 18, *[pytest.param(each, marks=pytest.mark.long) for each in range(100, 140)]])
def test_every_earlier_deadline_is_announced(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
