"""Plans with small windows of flow control, in a site that falls apart while much is sent (B1, S18)."""

from __future__ import annotations

import pytest

from relay_lab.simulation import SeedRun, draw
from relay_lab.simulation.faults import Flood, Split

NARROW = [plan for plan in map(draw, range(256)) if plan.window_bytes is not None]


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
